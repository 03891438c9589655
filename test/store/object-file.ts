/** An object's database on a real file in a temporary folder, which can be closed and opened again. */
import { onTestFinished } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { resolveSettings, type Settings } from "../../src/settings/settings.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { ObjectTables } from "../../src/store/object-tables.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

export class ObjectFile {
  readonly folder: RealFolder;
  readonly path: string;
  readonly settings: Settings;
  database: ObjectDatabase;
  tables: ObjectTables;

  constructor(overrides: Record<string, number> = {}, root = temporaryFolder(), path = "object.db") {
    this.path = path;
    this.folder = new RealFolder(root);
    this.settings = resolveSettings(overrides);
    this.database = ObjectDatabase.open(this.folder, this.path, this.settings);
    this.tables = new ObjectTables(this.database, this.settings);
    onTestFinished(() => this.database.close());
  }

  reopen(): void {
    this.database.close();
    this.database = ObjectDatabase.open(this.folder, this.path, this.settings);
    this.tables = new ObjectTables(this.database, this.settings);
  }

  /** Another file of the same folder, which must exist. */
  databaseAt(name: string): ObjectDatabase {
    return ObjectDatabase.open(this.folder, name, this.settings, { mustExist: true });
  }

  /** Runs one call as the kernel does: a savepoint in a transaction, committed at the end. */
  call<T>(action: () => T): T {
    this.database.begin();
    this.database.savepoint();
    const result = action();
    this.database.release();
    this.database.commit();
    return result;
  }

  migrate(...statements: string[]): void {
    this.call(() => {
      for (const statement of statements) this.database.migrate(statement);
    });
  }

  value(sql: string): unknown {
    return this.database.one(sql, []).rows[0]?.[0];
  }
}

export function errorOf(action: () => unknown): MoonportError {
  try {
    action();
  } catch (error) {
    if (error instanceof MoonportError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
