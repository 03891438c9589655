/**
 * What a key that was never written looks like to its class's reading methods: an empty database with the class's tables.
 * One for each class, made when first asked for and again when the class changes.
 */
import type { ObjectIdentity } from "../identity.js";
import type { LuaClass } from "../lua/contract.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { HostFile } from "./call-host.js";
import { migrateObject } from "./migrate-object.js";
import type { ObjectContext } from "./object-context.js";

interface Empty {
  readonly version: string;
  readonly database: ObjectDatabase;
  readonly tables: ObjectTables;
}

type EmptyContext = Pick<ObjectContext, "world" | "settings" | "running" | "quarantine" | "whyBehind">;

const FOLDER = "empty";

export class EmptyObjects {
  readonly #context: EmptyContext;
  readonly #byClass = new Map<string, Empty>();

  constructor(context: EmptyContext) {
    this.#context = context;
  }

  /** @throws MoonportError `migration_failed`, `quarantined`, `storage_*` */
  fileFor(object: ObjectIdentity, lua: LuaClass): HostFile {
    const name = `${object.app}~${object.className}`;
    const known = this.#byClass.get(name);
    const empty = known?.version === lua.version ? known : this.#make(object, name, lua);
    return { object, database: empty.database, tables: empty.tables };
  }

  close(): void {
    for (const { database } of this.#byClass.values()) database.close();
    this.#byClass.clear();
    this.#context.world.folder.removeTree(FOLDER);
  }

  #make(object: ObjectIdentity, name: string, lua: LuaClass): Empty {
    const { world, settings, running } = this.#context;
    this.#byClass.get(name)?.database.close();
    this.#byClass.delete(name);
    const path = `${FOLDER}/${name}.db`;
    world.folder.ensureDirectory(FOLDER);
    removeLocalFile(world, path);
    const database = ObjectDatabase.open(world.folder, path, settings, { running });
    try {
      const tables = new ObjectTables(database, settings);
      database.begin();
      migrateObject(this.#context, object, { database, tables }, lua);
      database.commit();
      const empty = { version: lua.version, database, tables };
      this.#byClass.set(name, empty);
      return empty;
    } catch (error) {
      database.close();
      throw error;
    }
  }
}
