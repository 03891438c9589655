/** The Lua files of one app, read from its folder. */
import { MoonportError } from "./errors.js";
import { checkUsersAppName } from "./identity.js";
import type { ClassSource, ModuleSource, TestSource, UnitSource } from "./lua/contract.js";
import type { Folder } from "./world/folder.js";

/** A file that cannot be read as text. */
export interface UnreadableFile {
  readonly kind: "class" | "unit" | "module";
  readonly name: string;
  readonly file: string;
  readonly error: MoonportError;
}

export interface AppSource {
  readonly app: string;
  readonly classes: readonly ClassSource[];
  readonly units?: readonly UnitSource[];
  readonly modules?: readonly ModuleSource[];
  readonly unreadable?: readonly UnreadableFile[];
}

/** Of one file. */
export const SOURCE_BYTES_MAX = 1024 * 1024;
/** Folders within folders in `lib/`: a link that leads back up ends somewhere. */
export const MODULE_DEPTH_MAX = 8;

/**
 * Reads `classes/*.lua`, `units/*.lua` and `lib/` of an app's folder. A file that is too large or not UTF-8 is listed, and harms no
 * other.
 * @throws MoonportError `bad_name` for the app's name, `storage_*`
 */
export function readAppSource(app: string, folder: Folder): AppSource {
  checkUsersAppName(app);
  const classes = readLuaFiles(folder, "classes", "class");
  const units = readLuaFiles(folder, "units", "unit");
  const lib = moduleFolders(folder).map((under) => readLuaFiles(folder, under, "module"));
  return {
    app,
    classes: classes.files.map((file) => ({ app, ...file })),
    units: units.files.map((file) => ({ kind: "unit", app, ...file })),
    modules: lib.flatMap(({ files }) => files).map((file) => ({ kind: "module", app, ...file })),
    unreadable: [classes, units, ...lib].flatMap(({ unreadable }) => unreadable),
  };
}

/**
 * Files of the app's own tests: those named, or all of `tests/*.lua`.
 * @throws MoonportError `bad_option` for a file that is not there, `class_invalid` for one that is no text, `storage_*`
 */
export function readTestSources(app: string, folder: Folder, files: readonly string[]): TestSource[] {
  checkUsersAppName(app);
  const named = files.length > 0 ? files : luaFilesIn(folder, "tests");
  return named.map((file) => {
    if (folder.stat(file) === undefined) throw MoonportError.of("bad_option", `there is no ${file}`);
    const read = readLuaFile(folder, file, "test");
    if (!("text" in read)) throw read.error;
    return { kind: "test", app, ...read };
  });
}

/** `lib` and the folders in it. */
export function moduleFolders(folder: Pick<Folder, "list" | "stat">, under = "lib", depth = 1): string[] {
  if (folder.stat(under)?.isDirectory !== true) return [];
  if (depth > MODULE_DEPTH_MAX) return [];
  const inner = folder.list(under).sort();
  return [under, ...inner.flatMap((name) => moduleFolders(folder, `${under}/${name}`, depth + 1))];
}

type LuaText = Omit<ClassSource, "app">;

function readLuaFiles(
  folder: Folder,
  under: string,
  kind: UnreadableFile["kind"],
): { files: LuaText[]; unreadable: UnreadableFile[] } {
  const files: LuaText[] = [];
  const unreadable: UnreadableFile[] = [];
  for (const file of luaFilesIn(folder, under)) {
    const read = readLuaFile(folder, file, kind);
    if ("text" in read) files.push(read);
    else unreadable.push({ kind, ...read });
  }
  return { files, unreadable };
}

function luaFilesIn(folder: Folder, under: string): string[] {
  const bases = folder.list(under).filter((name) => name.endsWith(".lua"));
  return bases.sort().map((base) => `${under}/${base}`);
}

function readLuaFile(
  folder: Folder,
  file: string,
  kind: UnreadableFile["kind"] | "test",
): LuaText | Omit<UnreadableFile, "kind"> {
  const name = nameOf(file, kind);
  const bytes = folder.readFile(file) ?? new Uint8Array();
  const text = bytes.length > SOURCE_BYTES_MAX ? undefined : decodeUtf8(bytes);
  return text === undefined ? { name, file, error: cannotRead(kind, file, bytes.length) } : { name, file, text };
}

/** `classes/Auction.lua` is `Auction`, `lib/money/rates.lua` is `money.rates`. */
function nameOf(file: string, kind: UnreadableFile["kind"] | "test"): string {
  const inFolder = file.slice(file.indexOf("/") + 1, -".lua".length);
  return kind === "module" ? inFolder.replaceAll("/", ".") : inFolder;
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function cannotRead(kind: UnreadableFile["kind"] | "test", file: string, bytes: number): MoonportError {
  const why =
    bytes > SOURCE_BYTES_MAX ? `has ${bytes} bytes; a ${kind} file may have ${SOURCE_BYTES_MAX}` : "is not UTF-8 text";
  return MoonportError.of(kind === "unit" ? "unit_invalid" : "class_invalid", `${file} ${why}`, { details: { file } });
}
