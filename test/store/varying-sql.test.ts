/** Which statements may give something else on the same database. */
import { describe, expect, it } from "vitest";
import { VARYING_FUNCTIONS } from "../../src/store/varying-sql.js";
import { ObjectFile } from "./object-file.js";

/** SQLITE_DETERMINISTIC */
const DETERMINISTIC = 0x800;

function variedReads(file: ObjectFile, sql: string): number {
  const before = file.database.variedReads;
  file.database.all(sql, []);
  file.database.one(sql, []);
  file.database.each(sql, []).close();
  return file.database.variedReads - before;
}

describe("a statement", () => {
  it.each([
    "SELECT random() % 5",
    "SELECT abs(RANDOM ( ) % 3)",
    'SELECT "random"() % 5',
    "SELECT hex(randomblob(4))",
    "SELECT datetime('now')",
    "SELECT strftime('%s', 'now') AS at",
    "SELECT date /* today */ ('now')",
    "SELECT CURRENT_TIMESTAMP",
    "SELECT 1 WHERE current_date > '2020'",
    "SELECT last_insert_rowid()",
    "SELECT total_changes()",
    "WITH t AS (SELECT unixepoch() AS at) SELECT at FROM t",
  ])("may: %s", (sql) => {
    expect(variedReads(new ObjectFile(), sql)).toBe(3);
  });

  it.each([
    "SELECT date, time, random FROM t ORDER BY date",
    "SELECT 'random()' AS text",
    "SELECT count(*), max(date) FROM t -- random()",
    'SELECT "current_date" FROM t',
    "SELECT json_extract('{}', '$.now')",
  ])("may not: %s", (sql) => {
    const file = new ObjectFile();
    file.migrate("CREATE TABLE t (date TEXT, time TEXT, random INTEGER, current_date TEXT)");
    expect(variedReads(file, sql)).toBe(0);
  });

  it("of a view is seen by the schema, which may change and change back", () => {
    const file = new ObjectFile();
    file.migrate("CREATE TABLE t (a)", "CREATE VIEW plain AS SELECT a FROM t");
    expect(file.database.hasVaryingViews()).toBe(false);
    file.database.begin();
    file.database.migrate("CREATE VIEW dice AS SELECT random() AS n FROM t");
    expect(file.database.hasVaryingViews()).toBe(true);
    file.database.rollback();
    expect(file.database.hasVaryingViews()).toBe(false);
    file.migrate("CREATE VIEW dice AS SELECT random() AS n FROM t");
    expect(file.database.hasVaryingViews()).toBe(true);
    file.migrate("DROP VIEW dice");
    expect(file.database.hasVaryingViews()).toBe(false);
  });

  it("of a view is not looked for under an open cursor, which would then have to hold all its rows", () => {
    const file = new ObjectFile({ SQL_ROWS_MAX: 2 });
    file.migrate("CREATE TABLE t (a)");
    file.call(() => file.database.exec("INSERT INTO t VALUES (1), (2), (3), (4)", []));
    const rows = file.database.each("SELECT a FROM t", []);
    expect(rows.next()).toEqual([1]);
    expect(file.database.hasVaryingViews()).toBe(true);
    expect([rows.next(), rows.next(), rows.next(), rows.next()]).toEqual([[2], [3], [4], undefined]);
    expect(file.database.hasVaryingViews()).toBe(false);
  });

  it("is known to vary by every function that SQLite does not call deterministic", () => {
    const connection = new ObjectFile().folder.openDatabase("functions.db", { mustExist: false });
    const functions = connection.pragma("function_list") as { name: string; flags: number; type: string }[];
    connection.close();
    // Refused ones, and those that tell of the library or of an index alone.
    const harmless =
      /^(load_extension|sqlite_.*|geopoly_debug|rtree.*|fts[35].*|bm25|match.*|snippet|offsets|optimize|highlight)$/;
    const unknown = functions
      .filter(({ flags, type }) => type === "s" && (flags & DETERMINISTIC) === 0)
      .map(({ name }) => name)
      .filter((name) => !VARYING_FUNCTIONS.has(name) && !harmless.test(name));
    expect([...new Set(unknown)]).toEqual([]);
    expect(functions.length).toBeGreaterThan(100);
  });
});
