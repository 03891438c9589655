import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { checkSql, type SqlMode } from "../../src/store/sql-guard.js";
import { tokenize } from "../../src/store/sql-tokens.js";
import { errorOf, ObjectFile } from "./object-file.js";

const BYTES_MAX = 64 * 1_024;
const check = (sql: string, mode: SqlMode = "method") => checkSql(sql, mode, BYTES_MAX);

const TRIGGER = `CREATE TRIGGER t_after AFTER INSERT ON t WHEN new.a > 0 BEGIN
  UPDATE t SET b = CASE WHEN a > 1 THEN 'x;y' ELSE "b" END WHERE id = new.id;
  DELETE FROM t WHERE a < 0;
END`;

describe("a writing method", () => {
  test.each([
    ["SELECT 1", "select"],
    ["select * from t where a = ?;", "select"],
    ["VALUES (1), (2)", "select"],
    ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n", "select"],
    ["WITH a AS NOT MATERIALIZED (SELECT 1), b(x) AS MATERIALIZED (VALUES (1)) SELECT * FROM a, b", "select"],
    ["WITH recursive AS (SELECT 1) SELECT * FROM recursive", "select"],
    ["EXPLAIN QUERY PLAN SELECT 1", "select"],
    ["EXPLAIN DELETE FROM t", "select"],
    ["/* a note */ INSERT INTO t (a) VALUES (?) -- done", "write"],
    ["INSERT OR REPLACE INTO t VALUES (1, 2, 3) RETURNING id", "write"],
    ["REPLACE INTO t VALUES (1, 2, 3)", "write"],
    ["INSERT INTO t VALUES (1, 2, 3) ON CONFLICT (id) DO UPDATE SET a = excluded.a", "write"],
    ["WITH x AS (SELECT 1) DELETE FROM t WHERE a IN x", "write"],
    ["UPDATE t SET a = CASE WHEN a THEN 1 ELSE 2 END", "write"],
    ["SELECT 'PRAGMA; COMMIT; _mp', \"rollback\" FROM t", "select"],
    ["SELECT 1 -- ; DROP TABLE t", "select"],
    ["SELECT [a;b], `c;d`, x'3b' FROM t", "select"],
    ["SELECT commit, begin, release FROM t", "select"],
    ["SELECT sql FROM sqlite_schema", "select"],
    ["INSERT INTO t (a) SELECT sqlite_version()", "write"],
    ["SELECT t.temp FROM t", "select"],
  ])("may run %s", (sql, kind) => {
    expect(check(sql).kind).toBe(kind);
  });

  test.each([
    ["", /no statement/],
    [" ; -- nothing", /no statement/],
    ["SELECT 1; SELECT 2", /one statement at a time/],
    ["COMMIT", /may not begin with COMMIT/],
    ["END", /may not begin with END/],
    ["BEGIN", /may not begin with BEGIN/],
    ["/**/ ROLLBACK", /may not begin with ROLLBACK/],
    ["SAVEPOINT a", /may not begin with SAVEPOINT/],
    ["RELEASE mp", /may not begin with RELEASE/],
    ["PRAGMA user_version", /may not begin with PRAGMA/],
    ["EXPLAIN PRAGMA user_version", /may not begin with PRAGMA/],
    ["EXPLAIN COMMIT", /may not begin with COMMIT/],
    ["ATTACH 'x' AS y", /may not begin with ATTACH/],
    ["DETACH main", /may not begin with DETACH/],
    ["VACUUM INTO 'x'", /may not begin with VACUUM/],
    ["REINDEX", /may not begin with REINDEX/],
    ["ANALYZE", /may not begin with ANALYZE/],
    ["CREATE TABLE x (a)", /changes the schema/],
    ["DROP TABLE t", /changes the schema/],
    ["INSERT OR ROLLBACK INTO t VALUES (1)", /ROLLBACK in any form/],
    ["UPDATE OR\n rollBack t SET a = 1", /ROLLBACK in any form/],
    ["SELECT * FROM _mp_store", /belong to Moonport/],
    ['SELECT * FROM "_MP_store"', /belong to Moonport/],
    ["SELECT * FROM [_mp_store]", /belong to Moonport/],
    ["SELECT * FROM `_Mp_store`", /belong to Moonport/],
    ["SELECT * FROM '_mp_store'", /belong to Moonport/],
    ["SELECT * FROM main._mp_store", /belong to Moonport/],
    ["SELECT load_extension('x')", /load_extension is not open/],
    ["SELECT \"load_extension\"('x')", /load_extension is not open/],
    ["SELECT * FROM pragma_table_info('t')", /not open to class code/],
    ["SELECT * FROM 'pragma_database_list'", /not open to class code/],
    ["SELECT * FROM sqlite_dbpage", /not open to class code/],
    ["SELECT * FROM DBSTAT", /not open to class code/],
    ["SELECT * FROM sqlite_temp_schema", /not open to class code/],
    ["INSERT INTO temp.x VALUES (1)", /temporary schema/],
    ['INSERT INTO "temp" . x VALUES (1)', /temporary schema/],
    ["UPDATE sqlite_sequence SET seq = 1", /may not name sqlite_sequence/],
    ["UPDATE 'sqlite_sequence' SET seq = 1", /may not name sqlite_sequence/],
    ["DELETE FROM main.'SQLite_Sequence'", /may not name SQLite_Sequence/],
    ["SELECT 1\0; COMMIT", /NUL/],
    ["SELECT '\ud800'", /well-formed/],
    ["SELECT 'x", /never closed/],
    ["SELECT ^ 1", /unrecognised/],
    ["SELECT x'abc'", /unrecognised/],
    ["SELECT 12abc", /unrecognised/],
    ["WITH x AS (SELECT 1", /never closed/],
    ["WITH x (SELECT 1) SELECT 1", /without AS/],
  ])("may not run %j", (sql, message) => {
    const error = errorOf(() => check(sql));
    expect(error.code).toBe("sql_refused");
    expect(error.message).toMatch(message);
  });

  test("is told what to do instead of a ROLLBACK", () => {
    expect(errorOf(() => check("ROLLBACK")).hint).toMatch(/throw an error/);
  });
});

test("a statement longer than SQL_BYTES_MAX is too large, counted in bytes", () => {
  expect(checkSql("SELECT 'é'", "method", 11).kind).toBe("select");
  expect(errorOf(() => checkSql("SELECT 'éé'", "method", 11)).code).toBe("too_large");
});

describe("reading", () => {
  test.each(["read", "console"] as const)("%s refuses a write as read_only and a PRAGMA as not on the list", (mode) => {
    expect(check("WITH x AS (SELECT 1) SELECT * FROM x", mode).kind).toBe("select");
    expect(check("EXPLAIN SELECT 1", mode).kind).toBe("select");
    for (const sql of ["INSERT INTO t VALUES (1)", "WITH x AS (SELECT 1) DELETE FROM t", "CREATE TABLE x (a)"]) {
      expect(errorOf(() => check(sql, mode)).code).toBe("read_only");
    }
    expect(errorOf(() => check("PRAGMA user_version", mode)).code).toBe("sql_refused");
  });
});

describe("a migration", () => {
  test.each([
    ["CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE UNIQUE INDEX t_a ON t (a);", 2],
    ["CREATE TABLE IF NOT EXISTS x AS SELECT 1 AS a", 1],
    ["CREATE VIEW v AS SELECT 1; INSERT INTO t VALUES (1, 2, 3)", 2],
    [`${TRIGGER}; INSERT INTO t (a) VALUES (1)`, 2],
    ["CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(body)", 1],
    ["CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1)", 1],
    ["ALTER TABLE t ADD COLUMN c; DROP INDEX t_a; DROP TRIGGER t_after; DROP VIEW v; DROP TABLE t", 5],
    ["CREATE TABLE child (t REFERENCES t DEFERRABLE INITIALLY IMMEDIATE)", 1],
  ])("may run %s", (sql, count) => {
    expect(check(sql, "migration").statements).toHaveLength(count);
  });

  test.each([
    ["CREATE TEMP TABLE x (a)", /temporary objects/],
    ["CREATE TEMPORARY TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END", /temporary objects/],
    ["CREATE TABLE x (a PRIMARY KEY ON CONFLICT ROLLBACK)", /ROLLBACK in any form/],
    ["CREATE TRIGGER x BEFORE INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END", /ROLLBACK in any form/],
    ["CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM _mp_store; END", /belong to Moonport/],
    ["CREATE TABLE _mp_x (a)", /belong to Moonport/],
    ["ALTER TABLE t RENAME TO '_mp_x'", /belong to Moonport/],
    ["CREATE VIRTUAL TABLE x USING fts5(body, content='_mp_store')", /belong to Moonport/],
    ["CREATE VIRTUAL TABLE x USING fts5(body, content=\"'_mp_store'\")", /belong to Moonport/],
    ["CREATE VIRTUAL TABLE _mp USING fts5(body)", /belong to Moonport/],
    ["CREATE VIRTUAL TABLE x USING dbstat", /fts5 or rtree/],
    ["CREATE VIRTUAL TABLE x USING fts4(body)", /fts5 or rtree/],
    ["DROP VIRTUAL TABLE x", /not on the list/],
    ["CREATE TABLE c (p REFERENCES t DEFERRABLE INITIALLY DEFERRED)", /INITIALLY DEFERRED/],
    ["CREATE TABLE x (a); COMMIT", /may not begin with COMMIT/],
    ["CREATE TABLE x (a); PRAGMA user_version = 3", /may not begin with PRAGMA/],
    [`${TRIGGER}; COMMIT`, /may not begin with COMMIT/],
  ])("may not run %s", (sql, message) => {
    const error = errorOf(() => check(sql, "migration"));
    expect(error.code).toBe("sql_refused");
    expect(error.message).toMatch(message);
  });
});

test("tokens are cut as SQLite cuts them", () => {
  const kinds = (sql: string) => tokenize(sql).map((token) => `${token.kind}:${token.text}`);
  expect(kinds("a\"b\"\"c\"'d''e'[f]`g`")).toEqual(["word:a", 'quoted:b"c', "string:d'e", "quoted:f", "quoted:g"]);
  expect(kinds("?1 ? :a @b $c")).toEqual([
    "parameter:?1",
    "parameter:?",
    "parameter::a",
    "parameter:@b",
    "parameter:$c",
  ]);
  expect(kinds("1.5e3 .5 0xff 1_000 x'00'")).toEqual([
    "number:1.5e3",
    "number:.5",
    "number:0xff",
    "number:1_000",
    "blob:x'00'",
  ]);
  expect(kinds("a--b\nc/*d*/e/*f")).toEqual(["word:a", "word:c", "word:e"]);
  expect(kinds("été\ufeff1 \ufeff 2")).toEqual(["word:été\ufeff1", "number:2"]);
});

/** Statements and splinters from which the fuzz below puts texts together: harmful ones and what may hide them. */
const STATEMENTS = [
  "INSERT INTO t (a, b) VALUES (1, 2)",
  "INSERT OR REPLACE INTO t VALUES (1, 2, 3) RETURNING *",
  "UPDATE t SET a = a + 1 WHERE id = 1",
  "DELETE FROM t WHERE id > 1",
  "SELECT * FROM t",
  "WITH x AS (SELECT * FROM t) SELECT * FROM x",
  "WITH x AS (SELECT 1) INSERT INTO t (a) SELECT * FROM x",
  "REPLACE INTO t VALUES (1, 1, 1)",
  "COMMIT",
  "ROLLBACK",
  "RELEASE mp",
  "INSERT OR ROLLBACK INTO t VALUES (1, 1, 1)",
  "DELETE FROM _mp_store",
  "UPDATE _mp_store SET value = x'00'",
  "CREATE TEMP TABLE leak (a)",
  "PRAGMA writable_schema = 1",
  "ATTACH ':memory:' AS other",
];
const SPLINTERS = [
  ...["END", "COMMIT", "ROLLBACK", "OR ROLLBACK", "OR FAIL", "EXPLAIN", "EXPLAIN QUERY PLAN", "WITH", "AS", "TEMP"],
  ...[";", "(", ")", ",", ".", "--", "\n", "/*", "*/", "'", '"', "`", "[", "]", "''", "\0", "\ufeff", "x'", "?", ":a"],
  ...[
    "_mp_store",
    '"_mp_store"',
    "main.",
    "temp.",
    "t",
    "RETURNING *",
    "WHERE 1",
    "UNION SELECT 1",
    "CASE",
    "0x",
    "1e",
  ],
];

test("whatever passes and prepares leaves the transaction open, no temporary object and the kernel's tables untouched", () => {
  const file = new ObjectFile();
  file.migrate("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)");
  file.call(() => file.tables.store.set("kept", "value"));
  const { database } = file;
  let ran = 0;
  const splice = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), text: fc.constantFrom(...SPLINTERS) });
  const texts = fc
    .tuple(fc.array(fc.constantFrom(...STATEMENTS), { minLength: 1, maxLength: 2 }), fc.array(splice, { maxLength: 3 }))
    .map(([statements, splices]) =>
      splices.reduce((sql, { at, text }) => {
        const index = Math.round(at * sql.length);
        return `${sql.slice(0, index)} ${text} ${sql.slice(index)}`;
      }, statements.join("; ")),
    );
  fc.assert(
    fc.property(texts, (sql) => {
      database.begin();
      database.savepoint();
      try {
        if (check(sql).kind === "select") database.all(sql, []);
        else database.exec(sql, []);
        ran += 1;
      } catch (error) {
        if (!(error instanceof MoonportError)) throw error;
        expect(["sql_refused", "sql_error"]).toContain(error.code);
      }
      expect(database.doomed).toBe(false);
      expect(database.kernel("SELECT count(*) FROM sqlite_temp_schema").get()).toEqual([0]);
      expect(database.kernel("SELECT count(*) FROM _mp_store").get()).toEqual([1]);
      expect(database.kernel("SELECT count(*) FROM pragma_database_list WHERE name = 'other'").get()).toEqual([0]);
      // Fails unless the savepoint and the transaction around it are still there.
      database.rollbackTo();
      database.rollback();
      expect(file.tables.store.get("kept")).toBe("value");
    }),
    { numRuns: 3_000 },
  );
  expect(ran).toBeGreaterThan(60);
});
