/**
 * What SQLite and its binding throw, as coded errors: whose fault it is and what happens next.
 *
 * A statement's own fault is `sql_error` and carries SQLite's text; the disk's and the file's faults are the operator's.
 */
import { type ErrorCode, MoonportError } from "../errors.js";

/** Result codes by their beginning: the extended ones (`SQLITE_IOERR_WRITE`) share their family's fate. */
const FAMILIES: readonly (readonly [prefix: string, code: ErrorCode, sentence: string])[] = [
  ["SQLITE_READONLY", "storage_readonly", "the object's file is not writable"],
  ["SQLITE_CANTOPEN", "storage_readonly", "the object's file cannot be opened"],
  ["SQLITE_PERM", "storage_readonly", "the object's file may not be accessed"],
  ["SQLITE_AUTH", "storage_readonly", "the object's file may not be accessed"],
  // What an exclusive lock on a file that could only be opened for reading comes to.
  ["SQLITE_IOERR_LOCK", "storage_readonly", "the object's file cannot be locked for writing"],
  ["SQLITE_FULL", "storage_full", "the disk is full"],
  ["SQLITE_IOERR", "storage_failed", "reading or writing the object's file failed"],
  ["SQLITE_NOMEM", "storage_failed", "SQLite ran out of memory"],
  ["SQLITE_BUSY", "storage_failed", "another connection holds the object's file"],
  ["SQLITE_LOCKED", "storage_failed", "the object's file is locked"],
  ["SQLITE_PROTOCOL", "storage_failed", "the object's file is locked"],
  // What an index of words or of boxes finds of its own rows: it was told of others than those that it indexes. No page is damaged.
  ["SQLITE_CORRUPT_VTAB", "sql_error", "an index does not fit what it indexes"],
  ["SQLITE_CORRUPT", "object_corrupt", "the object's file is damaged"],
  ["SQLITE_NOTADB", "object_corrupt", "the object's file is not a database"],
  ["SQLITE_FORMAT", "object_corrupt", "the object's file is not a database"],
];

/** The `code` of an SQLite error, empty for anything else. */
export function sqliteCode(thrown: unknown): string {
  const code = thrown instanceof Error ? (thrown as { readonly code?: unknown }).code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : "";
}

/** @param operation what was tried, for the message: `commit`, `open /path`, or nothing for a statement of class code */
export function codedSqliteError(thrown: unknown, operation?: string): MoonportError {
  if (thrown instanceof MoonportError) {
    return sqliteCode(thrown.cause) === "" ? thrown : codedSqliteError(thrown.cause, operation);
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const code = sqliteCode(thrown);
  const where = operation === undefined ? "" : `${operation}: `;
  if (code === "") return bindingError(thrown, `${where}${message}`);
  const family = FAMILIES.find(([prefix]) => code.startsWith(prefix));
  const details = { sqlite: code };
  if (family === undefined) {
    return MoonportError.of("sql_error", `${where}${message}`, { cause: thrown, details });
  }
  return MoonportError.of(family[1], `${where}${family[2]} (${message})`, { cause: thrown, details });
}

/** The binding itself refuses some values with a TypeError or RangeError; anything else is a fault of ours. */
function bindingError(thrown: unknown, message: string): MoonportError {
  const isTheirs = thrown instanceof TypeError || thrown instanceof RangeError;
  return MoonportError.of(isTheirs ? "sql_error" : "internal", message, { cause: thrown });
}
