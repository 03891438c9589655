/**
 * Which bucket the writes of a data folder are in. The folder is a cache of its bucket: whoever comes back to the folder and
 * names none means the same one, not an empty one beside it, in which a second history would begin unseen.
 */
import path from "node:path";
import { sqliteLocation, sqliteUrl } from "./bucket/sqlite-location.js";
import type { Folder } from "./world/folder.js";
import type { Logger } from "./world/logger.js";

/** A bucket's URL holds no secret, so this file does not either. */
const RECORD = "bucket.url";
const OWN_FILE = "bucket.db";

/** @param given what the user said, if anything */
export function bucketUrlOf(folder: Folder, given: string | undefined): string {
  return given ?? recorded(folder) ?? ownUrl(folder);
}

/** To be told once a node has opened the bucket. One in memory ends with its process: nobody can come back to it. */
export function rememberBucket(folder: Folder, url: string, log: Logger): void {
  if (url.startsWith("memory:")) return;
  const [now, own] = [fromAnywhere(url), ownUrl(folder)];
  const before = recorded(folder) ?? (folder.stat(OWN_FILE) && own);
  if (now === before) return;
  if (before !== undefined && placeOf(before) !== placeOf(now)) {
    log.warn({ before, now }, "the writes of this data folder were in another bucket before, and still are there");
  }
  if (now === own) folder.remove(RECORD);
  else folder.replaceFile(RECORD, Buffer.from(`${now}\n`, "utf8"));
}

function recorded(folder: Folder): string | undefined {
  const bytes = folder.readFile(RECORD);
  return bytes && Buffer.from(bytes).toString("utf8").trim();
}

function ownUrl(folder: Folder): string {
  return `sqlite:${folder.absolute(OWN_FILE)}`;
}

/** The same bucket, however it is used. */
function placeOf(url: string): string {
  return sqliteLocation(url)?.path ?? url;
}

/** A relative path means another file in another working directory. */
function fromAnywhere(url: string): string {
  const location = sqliteLocation(url);
  return location === undefined ? url : sqliteUrl({ ...location, path: path.resolve(location.path) });
}
