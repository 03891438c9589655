/** How the connection to an object's file is opened. */
import type { Database } from "better-sqlite3";
import type { Settings } from "../settings/settings.js";
import type { Folder } from "../world/folder.js";
import { layEmptyDatabase } from "./empty-database.js";
import { codedSqliteError } from "./sqlite-errors.js";

/** Page size of every object database: the least bytes for small objects, measured. */
export const PAGE_BYTES = 1_024;
const CACHE_KIB = 1_024;

/**
 * Opens and configures the connection.
 * @param mustExist else the file is made where there is none
 * @throws MoonportError `object_corrupt`, `storage_*`
 */
export function connect(
  folder: Folder,
  path: string,
  limits: Pick<Settings, "OBJECT_BYTES_MAX">,
  mustExist: boolean,
): Database {
  let connection: Database | undefined;
  try {
    if (!mustExist) layEmptyDatabase(folder, path, PAGE_BYTES);
    connection = folder.openDatabase(path, { mustExist: true });
    configure(connection, limits);
    return connection;
  } catch (thrown) {
    connection?.close();
    throw codedSqliteError(thrown, `open ${path}`);
  }
}

/** Pages of OBJECT_BYTES_MAX. */
export function pagesMax({ OBJECT_BYTES_MAX }: Pick<Settings, "OBJECT_BYTES_MAX">): number {
  return Math.floor(OBJECT_BYTES_MAX / PAGE_BYTES);
}

function configure(connection: Database, limits: Pick<Settings, "OBJECT_BYTES_MAX">): void {
  const pragmas = [
    // Nobody else has the file; were it so after all, waiting for it would only stop the node's loop.
    "busy_timeout = 0",
    // Before anything that may touch the WAL, so that its index lives in memory and there is no -shm file.
    "locking_mode = EXCLUSIVE",
    `page_size = ${PAGE_BYTES}`,
    "synchronous = OFF",
    "journal_mode = WAL",
    "wal_autocheckpoint = 0",
    `cache_size = -${CACHE_KIB}`,
    "temp_store = MEMORY",
    `max_page_count = ${pagesMax(limits)}`,
  ];
  // In one go: each opening of each object does it.
  connection.exec(pragmas.map((pragma) => `PRAGMA ${pragma};`).join("\n"));
}
