/** A class's migrations on an empty database, and the SQL of its methods prepared on what they make. */
import { asMoonportError, type MoonportError } from "../errors.js";
import type { Finding, LintApp, LintFile } from "../lint/contract.js";
import { migrationPlaces, type SqlText, sqlTexts } from "../lint/sql.js";
import type { LuaClass } from "../lua/contract.js";
import type { Settings } from "../settings/settings.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { applyMigrations } from "../store/migrations.js";
import { ObjectDatabase } from "../store/object-database.js";
import { ObjectTables } from "../store/object-tables.js";
import type { World } from "../world/world.js";

export interface DatabaseFinding extends Finding {
  readonly rule: "migration" | "sql";
}

const FILE = "empty.db";

export function checkDatabase(
  world: Pick<World, "folder">,
  settings: Settings,
  lua: LuaClass,
  file: LintFile,
  app: LintApp,
): DatabaseFinding[] {
  world.folder.ensureDirectory(".");
  removeLocalFile(world, FILE);
  const database = ObjectDatabase.open(world.folder, FILE, settings);
  try {
    const failure = migrated(database, settings, lua);
    if (failure !== undefined) return [migrationFinding(file, failure)];
    return sqlTexts(file, app).flatMap((text) => {
      const problem = problemOf(database, text);
      if (problem === undefined) return [];
      const { line, column } = text;
      return [{ rule: "sql", file: file.file, line, column, message: withHint(problem) }];
    });
  } finally {
    database.close();
    removeLocalFile(world, FILE);
  }
}

/** What stands at the migration that failed. */
export function migrationFinding(file: LintFile, failure: MoonportError, prefix = ""): DatabaseFinding {
  const { list, each } = migrationPlaces(file);
  const number = failure.details?.migration;
  const place = (typeof number === "number" ? each[number - 1] : undefined) ?? list;
  return { rule: "migration", file: file.file, ...place, message: prefix + withHint(failure) };
}

function migrated(database: ObjectDatabase, settings: Settings, lua: LuaClass): MoonportError | undefined {
  const { meta } = new ObjectTables(database, settings);
  database.begin();
  try {
    applyMigrations(database, meta, lua);
    database.commit();
    return undefined;
  } catch (thrown) {
    database.rollback();
    return asMoonportError(thrown);
  }
}

function problemOf(database: ObjectDatabase, { sql, call, isReading }: SqlText): MoonportError | undefined {
  try {
    database.check(sql, call, isReading ? "read" : "method");
    return undefined;
  } catch (thrown) {
    return asMoonportError(thrown);
  }
}

function withHint({ message, hint }: MoonportError): string {
  return hint === undefined ? message : `${message} (${hint})`;
}
