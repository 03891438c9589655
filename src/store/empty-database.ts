/**
 * The file of an object that has just begun, as SQLite makes it by `PRAGMA journal_mode = WAL` on no file.
 *
 * SQLite makes it under a rollback journal, a file of its own that is gone right after. An object that begins would pay for
 * a third file with it, and where deleted files slow down the making of others, those would pay for it too.
 */
import type { Folder } from "../world/folder.js";

/** Bytes 18 and 19 of the header. */
const WAL_VERSION = 2;
/** Bytes 20 to 23: nothing reserved in a page; the other three have one value. */
const PAYLOAD_FRACTIONS = [0, 64, 32, 32];
const HEADER_BYTES = 100;
const TABLE_LEAF = 13;

/**
 * The only page of a database without tables. https://www.sqlite.org/fileformat.html#the_database_header: every integer is
 * big-endian, what is not set here is 0.
 * @param pageBytes a power of two from 512 to 32,768
 */
export function emptyDatabase(pageBytes: number): Uint8Array {
  const page = Buffer.alloc(pageBytes);
  page.write("SQLite format 3\0", "latin1");
  page.writeUInt16BE(pageBytes, 16);
  page.set([WAL_VERSION, WAL_VERSION, ...PAYLOAD_FRACTIONS], 18);
  // One change so far, one page, of which the header says so since that change.
  page.writeUInt32BE(1, 24);
  page.writeUInt32BE(1, 28);
  page.writeUInt32BE(1, 92);
  // The root of the schema's table: a leaf without cells, whose content would begin at the page's end.
  page[HEADER_BYTES] = TABLE_LEAF;
  page.writeUInt16BE(pageBytes, HEADER_BYTES + 5);
  return page;
}

/** Makes the file where there is none. @throws MoonportError `storage_*` */
export function layEmptyDatabase(folder: Folder, path: string, pageBytes: number): void {
  if (folder.stat(path) !== undefined) return;
  const file = folder.open(path, "write");
  try {
    file.write(emptyDatabase(pageBytes), 0);
  } finally {
    file.close();
  }
}
