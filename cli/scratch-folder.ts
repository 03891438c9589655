/** A folder of a command's own, for as long as it runs. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { storageError } from "../src/world/folder.js";

/** @throws MoonportError `storage_*`: a machine may have no temporary folder that it can write to */
export function scratchFolder(command: string): string {
  const beginning = path.join(os.tmpdir(), `moonport-${command}-`);
  try {
    return fs.mkdtempSync(beginning);
  } catch (cause) {
    throw storageError("create folder", beginning, cause);
  }
}
