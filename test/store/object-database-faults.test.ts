import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { errorOf, ObjectFile } from "./object-file.js";

const TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";
const isRoot = process.getuid?.() === 0;

/** A file system of its own; mounting one is root's alone, so the tests on it are skipped, and named so, for everyone else. */
function smallDisk(kib: number): string {
  const mount = temporaryFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${kib}k`, "tmpfs", mount]);
  onTestFinished(() => void execFileSync("umount", ["-l", mount]));
  return mount;
}

function fillUntilRefused(file: ObjectFile, bytes: number): void {
  for (;;) file.database.exec("INSERT INTO t (a) VALUES (zeroblob(?))", [bytes]);
}

/** What holds of a database whose transaction ended under its calls. */
function expectDoomed(file: ObjectFile): void {
  const { database } = file;
  expect(database.doomed).toBe(true);
  for (const action of [
    () => database.exec("INSERT INTO t (a) VALUES (1)", []),
    () => database.all("SELECT 1", []),
    () => file.tables.store.set("a", 1),
    () => database.savepoint(),
    () => database.commit(),
    () => database.begin(),
  ]) {
    expect(errorOf(action).code).toBe("call_doomed");
  }
  // The owner's way out: end the call, end the burst, close; none of it may throw.
  database.rollbackTo();
  database.rollback();
}

describe("a database that reaches OBJECT_BYTES_MAX", () => {
  test.each([500, 100_000])(
    "dooms the burst with object_full, rows of %i bytes, and keeps what was committed",
    (bytes) => {
      const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
      file.migrate(TABLE);
      file.call(() => file.database.exec("INSERT INTO t (a) VALUES ('kept')", []));
      file.database.begin();
      file.database.savepoint();
      const error = errorOf(() => fillUntilRefused(file, bytes));
      expect(error.code).toBe("object_full");
      expect(error.message).toMatch(/OBJECT_BYTES_MAX/);
      expectDoomed(file);
      file.reopen();
      expect(file.value("SELECT count(*) FROM t")).toBe(1);
      expect(file.folder.list(".").sort()).toEqual(["object.db", "object.db-wal"]);
      file.call(() => file.database.exec("DELETE FROM t", []));
    },
  );

  test("is object_full at the commit too, where an index of words writes what it has gathered", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
    file.migrate("CREATE VIRTUAL TABLE words USING fts5(text, content='')");
    file.database.begin();
    const text = Array.from({ length: 9_000 }, (_, n) => `word${n}`).join(" ");
    file.database.exec("INSERT INTO words (rowid, text) VALUES (1, ?)", [text]);
    const error = errorOf(() => file.database.commit());
    expect([error.code, error.message]).toEqual(["object_full", expect.stringMatching(/OBJECT_BYTES_MAX/)]);
    expectDoomed(file);
    file.reopen();
    file.call(() => file.database.exec("INSERT INTO words (rowid, text) VALUES (1, 'word')", []));
  });

  test("has the kernel's spare room once, and is full for everything else as before", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
    file.migrate(TABLE);
    const note = (): void =>
      file.call(() => file.database.withSpareRoom(() => file.tables.store.setVolatile("n", "x")));
    for (let bytes = 10_000; bytes > 10; bytes /= 2) {
      try {
        for (;;) file.call(() => file.database.exec("INSERT INTO t (a) VALUES (zeroblob(?))", [bytes]));
      } catch {
        file.reopen();
      }
    }
    note();
    expect(file.database.pageCount()).toBeGreaterThan(64);
    // Room that was given is nobody else's.
    file.database.begin();
    expect(errorOf(() => file.database.exec("INSERT INTO t (a) VALUES (zeroblob(2000))", [])).code).toBe("object_full");
    file.reopen();
    const noteMore = (n: number): void =>
      file.call(() => file.database.withSpareRoom(() => file.tables.store.setVolatile(`n${n}`, "x".repeat(5_000))));
    const refused = errorOf(() => Array.from({ length: 100 }, (_, n) => noteMore(n)));
    expect(refused.code).toBe("object_full");
    file.reopen();
    expect(file.database.pageCount()).toBeGreaterThan(64 + 200);
    expect(file.database.pageCount()).toBeLessThanOrEqual(64 + 256);
  });

  test("is full for the kernel's own rows too", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
    file.database.begin();
    const value = "x".repeat(10_000);
    expect(errorOf(() => Array.from({ length: 20 }, (_, n) => file.tables.store.set(`k${n}`, value))).code).toBe(
      "object_full",
    );
    expectDoomed(file);
  });

  test("forgets what it remembered of the doomed transaction", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
    file.migrate(TABLE);
    file.call(() => file.tables.store.set("a", "committed"));
    file.database.begin();
    file.tables.store.set("a", "doomed");
    errorOf(() => fillUntilRefused(file, 100_000));
    file.reopen();
    expect(file.tables.store.get("a")).toBe("committed");
  });
});

describe.skipIf(!isRoot)("a full disk (needs root to mount a small one)", () => {
  test("at the commit is storage_full, dooms the database, and leaves what was committed before", () => {
    const file = new ObjectFile({}, smallDisk(256));
    file.migrate(TABLE);
    file.call(() => file.database.exec("INSERT INTO t (a) VALUES ('kept')", []));
    file.database.begin();
    file.database.exec("INSERT INTO t (a) VALUES (zeroblob(400000))", []);
    expect(errorOf(() => file.database.commit()).code).toBe("storage_full");
    expectDoomed(file);
    file.reopen();
    expect(file.database.all("SELECT a FROM t", []).rows).toEqual([["kept"]]);
    file.call(() => file.database.exec("INSERT INTO t (a) VALUES ('space again')", []));
    expect(file.value("SELECT count(*) FROM t")).toBe(2);
  });

  test("inside a transaction that outgrows the page cache is storage_full, not object_full", () => {
    const file = new ObjectFile({}, smallDisk(1_024));
    file.migrate(TABLE);
    file.database.begin();
    file.database.savepoint();
    expect(errorOf(() => fillUntilRefused(file, 10_000)).code).toBe("storage_full");
    expectDoomed(file);
    file.reopen();
    expect(file.value("SELECT count(*) FROM t")).toBe(0);
    file.database.verify();
  });

  test("at a checkpoint is storage_full and loses nothing; the checkpoint succeeds once there is space", () => {
    const root = smallDisk(512);
    const file = new ObjectFile({}, root);
    file.migrate(TABLE);
    file.call(() => file.database.exec("INSERT INTO t (a) VALUES (zeroblob(200000))", []));
    const ballast = path.join(root, "ballast");
    fs.writeFileSync(ballast, new Uint8Array(200 * 1_024));
    expect(errorOf(() => file.database.checkpointTruncate()).code).toBe("storage_full");
    expect(file.value("SELECT sum(length(a)) FROM t")).toBe(200_000);
    fs.rmSync(ballast);
    expect(file.database.checkpointTruncate()).toBe(true);
    file.database.verify();
    expect(file.value("SELECT sum(length(a)) FROM t")).toBe(200_000);
  });

  test("refuses to make a new object, in words that say so", () => {
    const root = smallDisk(64);
    fs.writeFileSync(path.join(root, "ballast"), new Uint8Array(60 * 1_024));
    expect(
      errorOf(() => new ObjectFile({}, root).migrate(TABLE, "INSERT INTO t (a) VALUES (zeroblob(9000))")).code,
    ).toBe("storage_full");
  });

  test("that became read-only is storage_readonly, for objects that are there and for new ones", () => {
    const root = smallDisk(1_024);
    const file = new ObjectFile({}, root);
    file.migrate(TABLE);
    file.database.close();
    execFileSync("mount", ["-o", "remount,ro", root]);
    expect(errorOf(() => file.reopen()).code).toBe("storage_readonly");
    expect(errorOf(() => new ObjectFile({}, root, "other.db")).code).toBe("storage_readonly");
  });
});

describe("an index of words that was told of other rows than it indexes", () => {
  const DOCUMENTS = ["alpha beta", "gamma delta"];

  function indexed(): ObjectFile {
    const file = new ObjectFile();
    file.migrate(TABLE, "CREATE VIRTUAL TABLE words USING fts5(a, content='t', content_rowid='id')");
    file.call(() => {
      for (const text of DOCUMENTS) {
        file.database.exec("INSERT INTO t (a) VALUES (?)", [text]);
        file.database.exec("INSERT INTO words (rowid, a) SELECT id, a FROM t WHERE a = ?", [text]);
      }
    });
    return file;
  }

  const wrong = (file: ObjectFile): void => {
    for (let n = 0; n < 3; n++) {
      file.database.exec("INSERT INTO words (words, rowid, a) VALUES ('delete', 1, 'other words than those')", []);
    }
  };

  test("fails the statement that finds it, which is undone alone, and nothing is doomed", () => {
    const file = indexed();
    file.call(() => {
      file.database.exec("INSERT INTO t (a) VALUES ('before')", []);
      expect(errorOf(() => wrong(file)).code).toBe("sql_error");
      expect(file.database.doomed).toBe(false);
      file.database.exec("INSERT INTO t (a) VALUES ('after')", []);
    });
    file.reopen();
    expect(file.value("SELECT count(*) FROM t WHERE a IN ('before', 'after')")).toBe(2);
    file.database.verify();
  });

  test("fails a read whose row is gone, in a transaction and outside", () => {
    const file = indexed();
    file.call(() => file.database.exec("DELETE FROM t WHERE id = 2", []));
    const read = (): unknown => file.database.all("SELECT a FROM words WHERE words MATCH 'gamma'", []);
    expect(errorOf(read).code).toBe("sql_error");
    file.call(() => {
      expect(errorOf(read).code).toBe("sql_error");
      file.database.exec("INSERT INTO t (a) VALUES ('after')", []);
    });
    expect(file.value("SELECT count(*) FROM t")).toBe(2);
  });
});

describe("a table that has given its highest id", () => {
  const HIGHEST = "9223372036854775807";

  test.each([
    ["one row", "INSERT INTO n (a) VALUES (1)", "ended"],
    ["what may be ignored", "INSERT OR IGNORE INTO n (a) VALUES (1)", "ended"],
    ["a row that is returned", "INSERT INTO n (a) VALUES (1) RETURNING a", "ended"],
    ["a row of a trigger", "INSERT INTO t (a) VALUES (1)", "ended"],
    ["several rows, of which the last takes an id", "INSERT INTO n (id, a) VALUES (7, 1), (NULL, 2)", "goes on"],
  ])("refuses %s with sql_error, whatever SQLite makes of the transaction", (_, sql, transaction) => {
    for (const how of [`INSERT INTO n VALUES (${HIGHEST}, 0)`, `UPDATE n SET id = ${HIGHEST}`]) {
      const file = new ObjectFile();
      file.migrate(
        TABLE,
        "CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
        "INSERT INTO n (a) VALUES ('first')",
        how,
        "CREATE TRIGGER numbers AFTER INSERT ON t WHEN new.a = 1 BEGIN INSERT INTO n (a) VALUES (new.a); END",
      );
      file.database.begin();
      file.database.savepoint();
      file.database.exec("INSERT INTO t (a) VALUES ('before')", []);
      const error = errorOf(() => file.database.exec(sql, []));
      expect([error.code, error.message]).toEqual(["sql_error", expect.stringContaining(HIGHEST)]);
      if (transaction === "ended") {
        expectDoomed(file);
      } else {
        file.database.exec("INSERT INTO t (a) VALUES ('after')", []);
        file.database.release();
        file.database.commit();
        expect(file.value("SELECT group_concat(a) FROM t")).toBe("before,after");
      }
    }
  });

  test("is not taken for the reason where the object is full, or the other way round", () => {
    const file = new ObjectFile({ OBJECT_BYTES_MAX: 64 * 1_024 });
    file.migrate(TABLE, "CREATE TABLE n (id INTEGER PRIMARY KEY AUTOINCREMENT, a)", "INSERT INTO n (a) VALUES (1)");
    file.database.begin();
    expect(errorOf(() => fillUntilRefused(file, 10_000)).code).toBe("object_full");
  });
});

describe("a damaged file", () => {
  function damaged(damage: (bytes: Buffer) => void): ObjectFile {
    const file = new ObjectFile();
    file.migrate(TABLE, "CREATE INDEX t_a ON t (a)");
    file.call(() => {
      for (let n = 0; n < 200; n++) file.database.exec("INSERT INTO t (a) VALUES (?)", [`row ${n}`]);
    });
    file.database.close();
    const absolute = file.folder.absolute(file.path);
    const bytes = fs.readFileSync(absolute);
    damage(bytes);
    fs.writeFileSync(absolute, bytes);
    return file;
  }

  test("that is no database is object_corrupt when it is opened", () => {
    const file = damaged((bytes) => bytes.fill(7, 0, 100));
    expect(errorOf(() => file.reopen()).code).toBe("object_corrupt");
  });

  test("is found by verify, and by a statement that meets the damage", () => {
    const file = damaged((bytes) => bytes.fill(0xff, 3 * 1_024, 9 * 1_024));
    file.reopen();
    expect(errorOf(() => file.database.verify()).code).toBe("object_corrupt");
    file.database.begin();
    expect(errorOf(() => file.database.all("SELECT a FROM t ORDER BY a", [])).code).toBe("object_corrupt");
    expectDoomed(file);
  });

  test.each([
    ["a commit", (file: ObjectFile) => file.database.commit()],
    ["a rollback", (file: ObjectFile) => file.database.rollback()],
    ["starting over", (file: ObjectFile) => file.database.startOver()],
    ["a savepoint's rollback", (file: ObjectFile) => file.database.rollbackTo()],
    ["a statement", (file: ObjectFile) => file.database.exec("INSERT INTO t (a) VALUES (1)", [])],
    ["a statement of the kernel", (file: ObjectFile) => file.tables.store.setVolatile("a", 1)],
  ])("dooms the transaction also where %s has an open cursor read its rest", (what, action) => {
    // The first rows are whole.
    const file = damaged((bytes) => bytes.fill(0xff, bytes.length / 2));
    file.reopen();
    // As on a connection in use, on which all of these are prepared.
    for (const ends of ["commit", "rollback"] as const) {
      file.database.begin();
      file.database.savepoint();
      file.database.rollbackTo();
      expect(file.tables.store.get("a")).toBeUndefined();
      file.database[ends]();
    }
    file.database.begin();
    if (what.startsWith("a savepoint")) file.database.savepoint();
    const cursor = file.database.each("SELECT id, a FROM t NOT INDEXED", []);
    expect(cursor.next()).toEqual([1, "row 0"]);
    try {
      action(file);
    } catch (error) {
      expect((error as MoonportError).code).toBe("call_doomed");
    }
    expectDoomed(file);
    expect(errorOf(() => cursor.next()).code).toBe("object_corrupt");
  });

  test("that is whole passes verify", () => {
    const file = damaged(() => {});
    file.reopen();
    file.database.verify();
  });
});

test("opening what must exist and does not is an error that names the file", () => {
  const file = new ObjectFile();
  const open = () => file.databaseAt("missing.db");
  expect(errorOf(open).code).toBe("storage_readonly");
  expect(errorOf(open).message).toMatch(/missing\.db/);
  expect(file.folder.list(".")).not.toContain("missing.db");
});

test("a file that is open already cannot be opened a second time, and says so at once", () => {
  const file = new ObjectFile();
  file.migrate(TABLE);
  const error = errorOf(() => file.databaseAt(file.path));
  expect([error.code, error.message]).toEqual(["storage_failed", expect.stringMatching(/another connection holds/)]);
});

test("a folder where the file should be is no database", () => {
  const file = new ObjectFile();
  file.folder.ensureDirectory("folder.db");
  expect(errorOf(() => file.databaseAt("folder.db")).code).toBe("storage_readonly");
});
