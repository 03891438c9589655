/** How the embedded bucket's file is opened and laid out, and what an SQLite error means for the request that met it. */
import path from "node:path";
import SqliteDatabase, { type Database } from "better-sqlite3";
import { makeDirectoryDurably } from "../world/directories.js";
import type { StorageFault } from "./sqlite-protocol.js";

/** "MpBk": marks the file as a bucket of ours. */
const APPLICATION_ID = 0x4d70426b;
const FORMAT = 1;

/**
 * `objects` holds small values in the row, so that a page holds many; a larger value lies in `parts` and the row names
 * its body. Body and part make one integer key, so parts are appended densely without an index of their own. `bodies`
 * lists those that no row names: being staged (touched_ms) or waiting to be swept (null).
 */
const SCHEMA = `
  CREATE TABLE objects (
    key TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    body INTEGER NOT NULL,
    bytes BLOB
  ) WITHOUT ROWID;
  CREATE TABLE parts (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
  CREATE TABLE bodies (body INTEGER PRIMARY KEY, touched_ms INTEGER);
  CREATE TABLE counter (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL);
  INSERT INTO counter VALUES (1, 0);
`;

/** The file is not one that this version can use. */
class UnusableFile extends Error {}

export function openBucketFile(
  file: string,
  options: { readonly busyTimeoutMs: number; readonly write: boolean },
): Database {
  if (options.write) makeDirectoryDurably(path.dirname(path.resolve(file)));
  const database = new SqliteDatabase(file, {
    timeout: options.busyTimeoutMs,
    fileMustExist: !options.write,
    readonly: !options.write,
  });
  try {
    if (options.write) prepareFile(database);
    else if (!isBucket(database)) throw new UnusableFile("the file is not a bucket");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function prepareFile(database: Database): void {
  const mode = database.pragma("journal_mode = WAL", { simple: true });
  if (mode !== "wal") throw new UnusableFile(`the file system does not support SQLite's WAL (journal mode ${mode})`);
  database.pragma("synchronous = FULL");
  database.pragma("cache_size = -16000");
  // 16 MB: pages that many groups rewrite, manifests above all, are then copied into the file once. Measured: a quarter more puts.
  database.pragma("wal_autocheckpoint = 4000");
  database.pragma("journal_size_limit = 67108864");
  database.transaction(() => ensureSchema(database)).immediate();
}

function ensureSchema(database: Database): void {
  if (isBucket(database)) return;
  const application = database.pragma("application_id", { simple: true });
  const tables = database.prepare("SELECT count(*) FROM sqlite_schema").pluck().get();
  if (application !== 0 || tables !== 0) throw new UnusableFile("the file is some other SQLite database");
  database.exec(SCHEMA);
  database.pragma(`application_id = ${APPLICATION_ID}`);
  database.pragma(`user_version = ${FORMAT}`);
}

/** @throws UnusableFile for one of another version */
function isBucket(database: Database): boolean {
  if (database.pragma("application_id", { simple: true }) !== APPLICATION_ID) return false;
  const format = database.pragma("user_version", { simple: true });
  if (format === FORMAT) return true;
  throw new UnusableFile(`the bucket has format ${format}; this version reads format ${FORMAT}`);
}

const FAULTS: readonly (readonly [string, StorageFault])[] = [
  ["SQLITE_FULL", "full"],
  ["SQLITE_READONLY", "readonly"],
  ["SQLITE_BUSY", "busy"],
  ["SQLITE_CORRUPT", "corrupt"],
  ["SQLITE_NOTADB", "corrupt"],
  ["SQLITE_IOERR", "failed"],
  ["SQLITE_CANTOPEN", "failed"],
  ["ENOSPC", "full"],
  ["EROFS", "readonly"],
  ["EACCES", "readonly"],
  ["EPERM", "readonly"],
];

/** What an error of SQLite or of the file system says about the storage; nothing when it says nothing. */
export function storageFaultOf(error: unknown): StorageFault | undefined {
  const code = String((error as { readonly code?: unknown } | undefined)?.code ?? "");
  return FAULTS.find(([prefix]) => code.startsWith(prefix))?.[1];
}
