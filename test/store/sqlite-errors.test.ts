import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { codedSqliteError } from "../../src/store/sqlite-errors.js";
import { storageError } from "../../src/world/folder.js";

test.each([
  ["SQLITE_FULL", "storage_full"],
  ["SQLITE_READONLY_DIRECTORY", "storage_readonly"],
  ["SQLITE_CANTOPEN_ISDIR", "storage_readonly"],
  ["SQLITE_PERM", "storage_readonly"],
  ["SQLITE_IOERR_WRITE", "storage_failed"],
  ["SQLITE_IOERR_LOCK", "storage_readonly"],
  ["SQLITE_CORRUPT", "object_corrupt"],
  ["SQLITE_CORRUPT_INDEX", "object_corrupt"],
  ["SQLITE_CORRUPT_VTAB", "sql_error"],
  ["SQLITE_NOTADB", "object_corrupt"],
  ["SQLITE_CONSTRAINT_UNIQUE", "sql_error"],
  ["SQLITE_ERROR", "sql_error"],
  ["SQLITE_MISMATCH", "sql_error"],
  ["SQLITE_RANGE", "sql_error"],
  ["SQLITE_TOOBIG", "sql_error"],
])("%s is %s, with SQLite's words and code", (sqlite, code) => {
  const cause = new Database.SqliteError("what SQLite says", sqlite);
  const error = codedSqliteError(cause, "commit");
  expect(error.code).toBe(code);
  expect(error.message).toMatch(/^commit: .*what SQLite says/);
  expect(error.details).toEqual({ sqlite });
  expect(error.cause).toBe(cause);
});

test("an SQLite error that a folder has wrapped is told apart all the same", () => {
  const wrapped = storageError("open", "a.db", new Database.SqliteError("file is not a database", "SQLITE_NOTADB"));
  expect(codedSqliteError(wrapped, "open a.db").code).toBe("object_corrupt");
});

test("coded errors pass unchanged, the binding's complaints are sql_error, and anything else is a fault of ours", () => {
  const coded = MoonportError.of("too_large", "too many rows");
  expect(codedSqliteError(coded)).toBe(coded);
  expect(codedSqliteError(new RangeError("The bound string, buffer, or bigint is too big")).code).toBe("sql_error");
  expect(codedSqliteError(new Error("unexpected")).code).toBe("internal");
});
