/** The Lua files of one app, read from its folder. */
import { MoonportError } from "./errors.js";
import { checkAppName } from "./identity.js";
import type { ClassSource } from "./lua/contract.js";
import type { Folder } from "./world/folder.js";

export interface AppSource {
  readonly app: string;
  readonly classes: readonly ClassSource[];
}

const SOURCE_BYTES_MAX = 1024 * 1024;

/**
 * Reads `classes/*.lua` of an app's folder.
 * @throws MoonportError `class_invalid` for a file that is too large or not UTF-8, `bad_name` for the app's name
 */
export function readAppSource(app: string, folder: Folder): AppSource {
  checkAppName(app);
  const names = folder.list("classes").filter((name) => name.endsWith(".lua"));
  return { app, classes: names.sort().map((name) => readClass(app, folder, name)) };
}

function readClass(app: string, folder: Folder, name: string): ClassSource {
  const file = `classes/${name}`;
  const bytes = folder.readFile(file) ?? new Uint8Array();
  if (bytes.length > SOURCE_BYTES_MAX) {
    throw MoonportError.of(
      "class_invalid",
      `${file} has ${bytes.length} bytes; a class file may have ${SOURCE_BYTES_MAX}`,
    );
  }
  return { app, name: name.slice(0, -".lua".length), file, text: decodeUtf8(file, bytes) };
}

function decodeUtf8(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw MoonportError.of("class_invalid", `${file} is not UTF-8 text`, { cause });
  }
}
