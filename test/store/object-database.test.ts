import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SqlParameters, SqlValue } from "../../src/values.js";
import "../support/property-seed.js";
import { errorOf, ObjectFile } from "./object-file.js";

const TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)";

function withRows(count: number, overrides: Record<string, number> = {}): ObjectFile {
  const file = new ObjectFile(overrides);
  file.migrate(TABLE);
  file.call(() => {
    for (let id = 1; id <= count; id++)
      file.database.exec("INSERT INTO t VALUES (?, ?, ?)", [id, id * 10, `row ${id}`]);
  });
  return file;
}

describe("a burst", () => {
  test("keeps the calls that returned and undoes the one that threw", () => {
    const { database } = withRows(0);
    database.begin();
    for (const a of ["first", "thrown", "third"]) {
      database.savepoint();
      database.exec("INSERT INTO t (a) VALUES (?)", [a]);
      if (a === "thrown") database.rollbackTo();
      else database.release();
    }
    database.commit();
    expect(database.all("SELECT a FROM t ORDER BY id", []).rows).toEqual([["first"], ["third"]]);
  });

  test("that is rolled back leaves nothing, not even what a call released", () => {
    const file = withRows(0);
    file.database.begin();
    file.database.savepoint();
    file.database.exec("INSERT INTO t (a) VALUES (1)", []);
    file.database.release();
    file.database.rollback();
    expect(file.value("SELECT count(*) FROM t")).toBe(0);
    expect(file.database.inTransaction).toBe(false);
  });

  test("survives closing and opening once it is committed", () => {
    const file = withRows(3);
    file.reopen();
    expect(file.value("SELECT count(*) FROM t")).toBe(3);
  });

  test("tells a call that wrote from one that did not", () => {
    const { database } = withRows(1);
    const wrote = (action: () => void): boolean => {
      database.begin();
      const mark = database.writeMark;
      database.savepoint();
      action();
      database.release();
      database.commit();
      return database.wroteSince(mark);
    };
    expect(wrote(() => database.all("SELECT * FROM t", []))).toBe(false);
    expect(wrote(() => database.exec("DELETE FROM t WHERE id = 99", []))).toBe(false);
    expect(wrote(() => database.all("DELETE FROM t WHERE id = 99 RETURNING id", []))).toBe(false);
    expect(wrote(() => database.exec("UPDATE t SET a = 2", []))).toBe(true);
    expect(wrote(() => database.one("UPDATE t SET a = 3 RETURNING a", []))).toBe(true);
    expect(wrote(() => database.migrate("CREATE TABLE other (x)"))).toBe(true);
    expect(
      wrote(() => {
        database.savepoint();
        database.exec("UPDATE t SET a = 2", []);
        database.rollbackTo();
      }),
    ).toBe(false);
  });

  test("counts a write that goes through an INSTEAD OF trigger", () => {
    const file = withRows(1);
    file.migrate(
      "CREATE VIEW v AS SELECT * FROM t",
      "CREATE TRIGGER v_insert INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a) VALUES (new.a); END",
    );
    file.database.begin();
    const mark = file.database.writeMark;
    file.database.exec("INSERT INTO v (a) VALUES (5)", []);
    expect(file.database.wroteSince(mark)).toBe(true);
    file.database.rollback();
  });
});

describe("what changes a row counts as a write", () => {
  const SCHEMA = [
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT)",
    "CREATE TABLE log (what TEXT)",
    "CREATE TABLE half (a INTEGER UNIQUE ON CONFLICT FAIL)",
    "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
    "CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent ON DELETE CASCADE)",
    "CREATE VIEW v AS SELECT a FROM t",
  ];
  const ROWS = [
    "INSERT INTO t (a, b) VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO parent VALUES (1), (2)",
    "INSERT INTO child VALUES (1, 1), (2, 1)",
  ];
  const TRIGGERS = [
    "CREATE TRIGGER before_t BEFORE INSERT ON t BEGIN INSERT INTO log VALUES ('before'); END",
    "CREATE TRIGGER ignored BEFORE UPDATE ON t WHEN new.a = 7 BEGIN INSERT INTO log VALUES ('ignored'); SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER failing AFTER INSERT ON t WHEN new.a = 8 BEGIN SELECT RAISE(FAIL, 'eight'); END",
    "CREATE TRIGGER instead INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES ('instead'); END",
  ];
  const WRITES = [
    "INSERT INTO t (a) VALUES (1)",
    "INSERT OR IGNORE INTO t (a) VALUES (1)",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO t (a, b) VALUES (2, 'x') ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE false",
    "INSERT OR FAIL INTO t (a) VALUES (10), (11), (1), (12)",
    "INSERT OR FAIL INTO t (a) VALUES (20), (1) RETURNING a",
    "UPDATE OR FAIL t SET a = 30 - id",
    "UPDATE OR FAIL t SET a = 40",
    "UPDATE t SET a = 7 WHERE a = 2",
    "INSERT INTO t (a) VALUES (8)",
    "INSERT INTO t (a) VALUES (8) RETURNING a",
    "INSERT OR REPLACE INTO t (a, b) VALUES (1, 'replaced')",
    "INSERT INTO half VALUES (1), (2), (1)",
    "INSERT INTO v VALUES (5)",
    "DELETE FROM parent WHERE id = 1",
    "DELETE FROM t WHERE a = 99",
    "UPDATE t SET b = 'b' WHERE a = 99",
    "DELETE FROM t",
  ];
  const content = (file: ObjectFile): string =>
    JSON.stringify(file.database.tableNames().map((name) => file.database.all(`SELECT * FROM ${name}`, [])));

  test.each([
    ["with triggers", [...SCHEMA, ...TRIGGERS]],
    ["without triggers", SCHEMA],
    ["with nothing that hides them", SCHEMA.filter((sql) => !sql.includes("FAIL"))],
  ])("whatever a statement's own count says, %s", (_, schema) => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...WRITES), { minLength: 1, maxLength: 6 }), (writes) => {
        const file = new ObjectFile();
        file.migrate(...schema);
        file.call(() => {
          for (const sql of ROWS) file.database.exec(sql, []);
        });
        file.database.begin();
        for (const sql of writes) {
          const before = content(file);
          const mark = file.database.writeMark;
          try {
            file.database.exec(sql, []);
          } catch {
            // Class code may catch it, and goes on with what it has done.
          }
          if (content(file) !== before) expect(file.database.wroteSince(mark), sql).toBe(true);
        }
        file.database.rollback();
      }),
    );
  });
});

test("an id that is used up for no row is no write: whether it is kept or not, no row ever had it", () => {
  const ignored = [
    "INSERT OR IGNORE INTO n (a) VALUES (1)",
    "INSERT INTO n (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO n (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2 WHERE false",
  ];
  for (const sql of ignored) {
    for (const ends of ["rollback", "commit"] as const) {
      const file = new ObjectFile();
      file.migrate("CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE)", "INSERT INTO n (a) VALUES (1)");
      file.database.begin();
      const mark = file.database.writeMark;
      expect(file.database.exec(sql, [])).toEqual({ changes: 0, lastId: 0 });
      expect(file.database.wroteSince(mark)).toBe(false);
      file.database[ends]();
      file.call(() => file.database.exec("INSERT INTO n (a) VALUES (2)", []));
      expect(file.value("SELECT id FROM n WHERE a = 2")).toBe(ends === "commit" ? 3 : 2);
    }
  }
});

describe("exec", () => {
  test("gives the number of changes and the new row's id", () => {
    const file = withRows(2);
    file.call(() => {
      expect(file.database.exec("INSERT INTO t (a) VALUES (1), (2)", [])).toEqual({ changes: 2, lastId: 4 });
      expect(file.database.exec("UPDATE t SET a = 0", [])).toEqual({ changes: 4, lastId: 0 });
      expect(file.database.exec("INSERT OR IGNORE INTO t (id) VALUES (1)", [])).toEqual({ changes: 0, lastId: 0 });
      expect(file.database.exec("INSERT INTO t (a) VALUES (1) RETURNING a", [])).toEqual({ changes: 1, lastId: 5 });
      const upsert = "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 9";
      expect(file.database.exec(upsert, [])).toEqual({ changes: 1, lastId: 0 });
    });
  });

  test("gives an id that no number holds as text, and what gave it is there as any other row", () => {
    const ids = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.constantFrom(2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)),
    );
    fc.assert(
      fc.property(ids, fc.constantFrom("", " RETURNING a"), (id, returning) => {
        const file = withRows(0);
        file.database.begin();
        const sql = `INSERT INTO t (id, a) VALUES (?, 'x')${returning}`;
        const { changes, lastId } = file.database.exec(sql, [String(id)]);
        expect(changes).toBe(1);
        expect(typeof lastId).toBe(Number.isSafeInteger(Number(id)) ? "number" : "string");
        expect(BigInt(lastId)).toBe(id);
        // It is a parameter as any other.
        expect(file.database.all("SELECT a FROM t WHERE id = ?", [lastId]).rows).toEqual([["x"]]);
        file.database.rollback();
      }),
      { numRuns: 50 },
    );
  });

  test.each(["k", "main.k", '"K"', "[k]", "'k'", "main . `k`"])(
    "gives no id of a table without rowids, which would be that of another table's row: %s",
    (name) => {
      const file = withRows(3);
      file.migrate("CREATE TABLE k (name TEXT PRIMARY KEY, a) WITHOUT ROWID");
      file.call(() => {
        for (const sql of [
          `INSERT INTO ${name} VALUES ('a', 1)`,
          `REPLACE INTO ${name} VALUES ('a', 2)`,
          `INSERT OR REPLACE INTO ${name} VALUES ('a', 3) RETURNING a`,
          `WITH into_ AS (SELECT 'b', 1) INSERT INTO ${name} SELECT * FROM into_`,
        ]) {
          expect(file.database.exec("INSERT INTO t (a) VALUES (1)", []).lastId).toBeGreaterThan(3);
          expect(file.database.exec(sql, []), sql).toEqual({ changes: 1, lastId: 0 });
        }
      });
    },
  );

  test("refuses what only reads, and all refuses what returns nothing", () => {
    const file = withRows(1);
    file.call(() => {
      expect(errorOf(() => file.database.exec("SELECT 1", [])).message).toMatch(/only reads/);
      expect(errorOf(() => file.database.all("DELETE FROM t", [])).message).toMatch(/returns no rows/);
    });
  });

  test("carries SQLite's own words for a faulty statement", () => {
    const file = withRows(1);
    file.call(() => {
      const missing = errorOf(() => file.database.exec("INSERT INTO nowhere VALUES (1)", []));
      expect([missing.code, missing.message]).toEqual(["sql_error", "no such table: nowhere"]);
      const conflict = errorOf(() => file.database.exec("INSERT INTO t (id) VALUES (1)", []));
      expect(conflict.code).toBe("sql_error");
      expect(conflict.details).toEqual({ sqlite: "SQLITE_CONSTRAINT_PRIMARYKEY" });
      expect(file.database.doomed).toBe(false);
    });
  });

  test("enforces foreign keys at the statement", () => {
    const file = withRows(1);
    file.migrate("CREATE TABLE child (t REFERENCES t)");
    file.call(() => {
      expect(errorOf(() => file.database.exec("INSERT INTO child VALUES (99)", [])).message).toMatch(/FOREIGN KEY/);
    });
  });
});

describe("a reading method", () => {
  test("may run queries and nothing else", () => {
    const { database } = withRows(1);
    expect(database.all("SELECT id FROM t", [], "read").rows).toEqual([[1]]);
    expect(errorOf(() => database.exec("DELETE FROM t", [], "read")).code).toBe("read_only");
    expect(errorOf(() => database.all("DELETE FROM t RETURNING id", [], "read")).code).toBe("read_only");
  });

  test("cannot run a statement that a writing method has prepared", () => {
    const file = withRows(1);
    file.call(() => file.database.exec("DELETE FROM t", []));
    expect(errorOf(() => file.database.exec("DELETE FROM t", [], "read")).code).toBe("read_only");
  });
});

describe("parameters", () => {
  const read = (sql: string, parameters: SqlParameters): readonly SqlValue[] | undefined =>
    new ObjectFile().database.one(sql, parameters).rows[0];

  test("are bound by position, by number and by name", () => {
    expect(read("SELECT ?, ?", ["a", null])).toEqual(["a", null]);
    expect(read("SELECT ?2, ?1, ?2", ["a", "b"])).toEqual(["b", "a", "b"]);
    expect(read("SELECT ?3, ?", ["a", "b", "c", "d"])).toEqual(["c", "d"]);
    expect(read("SELECT :a, @b, $a, :a", { a: 1, b: 2 })).toEqual([1, 2, 1, 1]);
    expect(read("SELECT :__proto__", JSON.parse('{"__proto__": 7}'))).toEqual([7]);
  });

  test("may be many more than a hundred", () => {
    const values = Array.from({ length: 5_000 }, (_, index) => index);
    const list = values.map(() => "?").join(", ");
    expect(read(`SELECT 4999 IN (${list}), 5000 IN (${list.replaceAll("?", "0")})`, values)).toEqual([1, 0]);
  });

  test.each<[string, SqlParameters, RegExp]>([
    ["SELECT ?, ?", [1], /has 2 parameters, but 1 was given/],
    ["SELECT ?", [1, 2], /has 1 parameter, but 2 were given/],
    ["SELECT 1", [1], /has 0 parameters, but 1 was given/],
    ["SELECT :name", { nmae: 1 }, /no value was given for the parameter name/],
    ["SELECT :a", { a: 1, b: 2 }, /no parameter called b/],
    ["SELECT :a", [1], /parameters have names \(a\)/],
    ["SELECT ?", { a: 1 }, /1 parameter by position, but names were given/],
    ["SELECT ?, :a", [1, 2], /mixes parameters/],
    ["SELECT ?0", [1], /between \?1 and/],
  ])("%s with %j is refused in clear words", (sql, parameters, message) => {
    const error = errorOf(() => read(sql, parameters));
    expect(error.code).toBe("sql_error");
    expect(error.message).toMatch(message);
  });

  test("that cannot be stored are refused", () => {
    expect(errorOf(() => read("SELECT ?", [Number.NaN])).code).toBe("bad_value");
    expect(errorOf(() => read("SELECT ?", [Number.POSITIVE_INFINITY])).code).toBe("bad_value");
    expect(errorOf(() => read("SELECT ?", ["\ud800"])).code).toBe("bad_value");
    const sneaked: SqlValue[] = JSON.parse("[true]");
    expect(errorOf(() => read("SELECT ?", sneaked)).message).toMatch(/parameter 1 is a boolean/);
  });
});

describe("values", () => {
  test("come back as they went in, whole numbers as integers", () => {
    const file = withRows(0);
    const values = [0, -1, 2 ** 31, -(2 ** 40), Number.MAX_SAFE_INTEGER, 1.5, 1e300, "é\0☾", ""];
    file.call(() => {
      for (const value of values) file.database.exec("INSERT INTO t (a, b) VALUES (?, ?)", [value, typeof value]);
    });
    expect(file.database.all("SELECT a FROM t ORDER BY id", []).rows.flat()).toEqual(values);
    expect(file.value("SELECT count(*) FROM t WHERE typeof(a) = 'integer'")).toBe(5);
  });

  test("of bytes are the reader's own Uint8Array", () => {
    const file = withRows(0);
    file.call(() => file.database.exec("INSERT INTO t (a) VALUES (?)", [Uint8Array.of(1, 2, 3)]));
    const value = file.value("SELECT a FROM t") as Uint8Array;
    expect(value.constructor).toBe(Uint8Array);
    expect(value).toEqual(Uint8Array.of(1, 2, 3));
    expect(value.buffer.byteLength).toBe(3);
    expect(file.database.all("SELECT x'', 9007199254740992", []).rows).toEqual([[new Uint8Array(0), 2 ** 53]]);
  });

  test("that are integers beyond ±2^53 are an error, never a rounded number", () => {
    const file = withRows(1);
    for (const integer of ["9007199254740993", "-9007199254740993", "9223372036854775807"]) {
      for (const read of ["one", "all"] as const) {
        const error = errorOf(() => file.database[read](`SELECT 1 AS small, ${integer} AS big`, []));
        expect([error.code, error.message]).toEqual([
          "sql_error",
          expect.stringContaining(`big is the integer ${integer}`),
        ]);
      }
      const cursor = file.database.each(`SELECT ${integer}`, []);
      expect(errorOf(() => cursor.next()).code).toBe("sql_error");
    }
    expect(file.value("SELECT 9007199254740992")).toBe(2 ** 53);
    expect(file.value("SELECT 9007199254740993.0")).toBe(2 ** 53);
  });

  test("of RETURNING that cannot be read exactly undo their statement", () => {
    const file = withRows(1);
    file.call(() => {
      const update = "UPDATE t SET a = 9007199254740993 RETURNING a";
      expect(errorOf(() => file.database.all(update, [])).code).toBe("sql_error");
    });
    expect(file.value("SELECT a FROM t WHERE id = 1")).toBe(10);
  });
});

describe("each", () => {
  test("streams without a bound while nothing else runs", () => {
    const { database } = withRows(50, { SQL_ROWS_MAX: 5 });
    const cursor = database.each("SELECT id FROM t ORDER BY id", []);
    const seen: unknown[] = [];
    for (let row = cursor.next(); row !== undefined; row = cursor.next()) seen.push(row[0]);
    expect(seen).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
    expect(cursor.next()).toBeUndefined();
  });

  test("sees the rows as they were when a loop deletes and inserts what it iterates", () => {
    const file = withRows(5);
    const seen: unknown[] = [];
    file.call(() => {
      const cursor = file.database.each("SELECT id FROM t ORDER BY id", []);
      for (let row = cursor.next(); row !== undefined; row = cursor.next()) {
        seen.push(row[0]);
        file.database.exec("DELETE FROM t WHERE id >= ?", [row[0] ?? null]);
        file.database.exec("INSERT INTO t (id) VALUES (?)", [100 + seen.length]);
      }
    });
    expect(seen).toEqual([1, 2, 3, 4, 5]);
  });

  test("nests, the same statement in itself", () => {
    const { database } = withRows(3);
    const pairs: string[] = [];
    const outer = database.each("SELECT id FROM t", []);
    for (let a = outer.next(); a !== undefined; a = outer.next()) {
      const inner = database.each("SELECT id FROM t", []);
      for (let b = inner.next(); b !== undefined; b = inner.next()) pairs.push(`${a[0]}${b[0]}`);
    }
    expect(pairs).toEqual(["11", "12", "13", "21", "22", "23", "31", "32", "33"]);
  });

  test("beyond the bound fails the loop that runs other statements, not those statements", () => {
    const file = withRows(20, { SQL_ROWS_MAX: 5 });
    file.call(() => {
      const cursor = file.database.each("SELECT id FROM t ORDER BY id", []);
      expect(cursor.next()).toEqual([1]);
      file.database.exec("DELETE FROM t WHERE id = 20", []);
      expect(errorOf(() => cursor.next()).code).toBe("too_large");
    });
    expect(file.value("SELECT count(*) FROM t")).toBe(19);
  });

  test("that is left half way holds nothing once it is closed", () => {
    const { database } = withRows(5);
    const cursor = database.each("SELECT id FROM t", []);
    cursor.next();
    expect(database.checkpointTruncate()).toBe(false);
    cursor.close();
    expect(cursor.next()).toBeUndefined();
    expect(database.checkpointTruncate()).toBe(true);
  });

  test("that was left open does not keep a burst from committing, nor the file from closing", () => {
    const file = withRows(5);
    file.call(() => {
      file.database.each("SELECT id FROM t", []).next();
    });
    file.database.each("SELECT id FROM t", []).next();
    file.reopen();
    expect(file.value("SELECT count(*) FROM t")).toBe(5);
  });

  test("reports a fault that only a later row brings", () => {
    const { database } = withRows(3);
    const cursor = database.each("SELECT json_extract(CASE id WHEN 3 THEN '{' ELSE '{}' END, '$') FROM t", []);
    expect(cursor.next()).toEqual(["{}"]);
    expect(cursor.next()).toEqual(["{}"]);
    expect(errorOf(() => cursor.next()).message).toMatch(/malformed JSON/);
    expect(cursor.next()).toBeUndefined();
  });
});

describe("bounds", () => {
  test("all refuses more rows than SQL_ROWS_MAX, and more bytes than CALL_MEMORY_BYTES", () => {
    const { database } = withRows(6, { SQL_ROWS_MAX: 5, CALL_MEMORY_BYTES: 1_048_576 });
    expect(database.all("SELECT id FROM t LIMIT 5", []).rows).toHaveLength(5);
    expect(errorOf(() => database.all("SELECT id FROM t", [])).code).toBe("too_large");
    expect(errorOf(() => database.all("SELECT zeroblob(600000) FROM t LIMIT 2", [])).code).toBe("too_large");
    const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    expect(errorOf(() => database.all(endless, [])).code).toBe("too_large");
  });

  test("a RETURNING beyond the bound undoes its statement", () => {
    const file = withRows(6, { SQL_ROWS_MAX: 5 });
    file.call(() => {
      expect(errorOf(() => file.database.all("DELETE FROM t RETURNING id", [])).code).toBe("too_large");
    });
    expect(file.value("SELECT count(*) FROM t")).toBe(6);
  });

  test("many different statements do not pile up, and all of them work", () => {
    const { database } = withRows(1);
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 300; n++) expect(database.one(`SELECT ${n}`, []).rows).toEqual([[n]]);
    }
  });
});

describe("the schema", () => {
  test("a statement prepared before a migration sees its columns afterwards, and after its rollback", () => {
    const file = withRows(1);
    const columns = () => file.database.all("SELECT * FROM t", []).columns;
    expect(columns()).toEqual(["id", "a", "b"]);
    file.database.begin();
    file.database.savepoint();
    file.database.migrate("ALTER TABLE t ADD COLUMN c");
    expect(columns()).toEqual(["id", "a", "b", "c"]);
    file.database.rollbackTo();
    file.database.commit();
    expect(columns()).toEqual(["id", "a", "b"]);
  });

  test("lists the class's own tables only", () => {
    const file = withRows(1);
    file.migrate("CREATE VIEW v AS SELECT 1", "CREATE TABLE sequenced (id INTEGER PRIMARY KEY AUTOINCREMENT)");
    file.call(() => {
      file.tables.store.set("a", 1);
      file.database.exec("INSERT INTO sequenced DEFAULT VALUES", []);
    });
    expect(file.database.tableNames()).toEqual(["sequenced", "t", "v"]);
  });
});

describe("the file", () => {
  test("has pages of 1024 bytes, a WAL that only the owner checkpoints, and no index file beside it", () => {
    const file = withRows(2_000);
    expect(file.folder.list(".").sort()).toEqual(["object.db", "object.db-wal"]);
    const walBytes = () => file.folder.stat("object.db-wal")?.sizeBytes ?? 0;
    expect(walBytes()).toBeGreaterThan(40 * 1_024);
    expect(file.database.checkpointTruncate()).toBe(true);
    expect(walBytes()).toBe(0);
    expect(file.folder.stat("object.db")?.sizeBytes).toBe(file.database.sizeBytes());
    expect(file.database.sizeBytes()).toBe(file.database.pageCount() * 1_024);
  });

  test("is not checkpointed inside a transaction", () => {
    const { database } = withRows(1);
    database.begin();
    expect(database.checkpointTruncate()).toBe(false);
    database.rollback();
  });

  test("serialises to what the file holds after a checkpoint", () => {
    const file = withRows(100);
    const bytes = file.database.serialize();
    file.database.checkpointTruncate();
    file.database.close();
    expect(Buffer.from(bytes).equals(file.folder.readFile("object.db") ?? new Uint8Array())).toBe(true);
  });

  test("loses its WAL when it is closed, and keeps what was in it", () => {
    const file = withRows(3);
    file.database.close();
    file.database.close();
    expect(file.folder.list(".")).toEqual(["object.db"]);
    file.reopen();
    expect(file.value("SELECT count(*) FROM t")).toBe(3);
    expect(file.folder.list(".")).not.toContain("object.db-shm");
  });

  test("gives memory back and goes on", () => {
    const file = withRows(3);
    file.database.shrinkMemory();
    file.call(() => file.database.exec("INSERT INTO t (a) VALUES (1)", []));
    expect(file.value("SELECT count(*) FROM t")).toBe(4);
  });

  test("is closed for good: a statement on it is a fault of the program", () => {
    const { database } = withRows(1);
    database.close();
    expect(errorOf(() => database.all("SELECT 1", [])).code).toBe("internal");
  });
});

test("a write outside a transaction is a fault of the program", () => {
  const { database } = withRows(1);
  expect(errorOf(() => database.exec("DELETE FROM t", [])).code).toBe("internal");
  expect(errorOf(() => database.all("DELETE FROM t RETURNING id", [])).code).toBe("internal");
});
