/** The Lua files of one app, read from its folder. */
import { MoonportError } from "./errors.js";
import { checkAppName } from "./identity.js";
import type { ClassSource } from "./lua/contract.js";
import type { Folder } from "./world/folder.js";

/** A file that cannot be read as a class. */
export interface UnreadableClass {
  readonly name: string;
  readonly file: string;
  readonly error: MoonportError;
}

export interface AppSource {
  readonly app: string;
  readonly classes: readonly ClassSource[];
  readonly unreadable?: readonly UnreadableClass[];
}

const SOURCE_BYTES_MAX = 1024 * 1024;

/**
 * Reads `classes/*.lua` of an app's folder. A file that is too large or not UTF-8 is listed, and harms no other.
 * @throws MoonportError `bad_name` for the app's name, `storage_*`
 */
export function readAppSource(app: string, folder: Folder): AppSource {
  checkAppName(app);
  const classes: ClassSource[] = [];
  const unreadable: UnreadableClass[] = [];
  const files = folder.list("classes").filter((name) => name.endsWith(".lua"));
  for (const base of files.sort()) {
    const file = `classes/${base}`;
    const name = base.slice(0, -".lua".length);
    const bytes = folder.readFile(file) ?? new Uint8Array();
    const text = bytes.length > SOURCE_BYTES_MAX ? undefined : decodeUtf8(bytes);
    if (text !== undefined) classes.push({ app, name, file, text });
    else unreadable.push({ name, file, error: cannotRead(file, bytes.length) });
  }
  return { app, classes, unreadable };
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function cannotRead(file: string, bytes: number): MoonportError {
  const why =
    bytes > SOURCE_BYTES_MAX ? `has ${bytes} bytes; a class file may have ${SOURCE_BYTES_MAX}` : "is not UTF-8 text";
  return MoonportError.of("class_invalid", `${file} ${why}`, { details: { file } });
}
