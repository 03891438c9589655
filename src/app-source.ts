/** The Lua files of one app, read from its folder. */
import { MoonportError } from "./errors.js";
import { checkAppName } from "./identity.js";
import type { ClassSource, UnitSource } from "./lua/contract.js";
import type { Folder } from "./world/folder.js";

/** A file that cannot be read as text. */
export interface UnreadableFile {
  readonly kind: "class" | "unit";
  readonly name: string;
  readonly file: string;
  readonly error: MoonportError;
}

export interface AppSource {
  readonly app: string;
  readonly classes: readonly ClassSource[];
  readonly units?: readonly UnitSource[];
  readonly unreadable?: readonly UnreadableFile[];
}

const SOURCE_BYTES_MAX = 1024 * 1024;

/**
 * Reads `classes/*.lua` and `units/*.lua` of an app's folder. A file that is too large or not UTF-8 is listed, and harms no
 * other.
 * @throws MoonportError `bad_name` for the app's name, `storage_*`
 */
export function readAppSource(app: string, folder: Folder): AppSource {
  checkAppName(app);
  const classes = readLuaFiles(folder, "classes", "class");
  const units = readLuaFiles(folder, "units", "unit");
  return {
    app,
    classes: classes.files.map((file) => ({ app, ...file })),
    units: units.files.map((file) => ({ kind: "unit", app, ...file })),
    unreadable: [...classes.unreadable, ...units.unreadable],
  };
}

type LuaText = Omit<ClassSource, "app">;

function readLuaFiles(
  folder: Folder,
  under: string,
  kind: UnreadableFile["kind"],
): { files: LuaText[]; unreadable: UnreadableFile[] } {
  const files: LuaText[] = [];
  const unreadable: UnreadableFile[] = [];
  const bases = folder.list(under).filter((name) => name.endsWith(".lua"));
  for (const base of bases.sort()) {
    const file = `${under}/${base}`;
    const name = base.slice(0, -".lua".length);
    const bytes = folder.readFile(file) ?? new Uint8Array();
    const text = bytes.length > SOURCE_BYTES_MAX ? undefined : decodeUtf8(bytes);
    if (text !== undefined) files.push({ name, file, text });
    else unreadable.push({ kind, name, file, error: cannotRead(kind, file, bytes.length) });
  }
  return { files, unreadable };
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function cannotRead(kind: UnreadableFile["kind"], file: string, bytes: number): MoonportError {
  const why =
    bytes > SOURCE_BYTES_MAX ? `has ${bytes} bytes; a ${kind} file may have ${SOURCE_BYTES_MAX}` : "is not UTF-8 text";
  return MoonportError.of(`${kind}_invalid`, `${file} ${why}`, { details: { file } });
}
