/** The Lua files of one app, read from its folder. */
import { MoonportError } from "./errors.js";
import { checkAppName } from "./identity.js";
import type { ClassSource, ModuleSource, UnitSource } from "./lua/contract.js";
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

const SOURCE_BYTES_MAX = 1024 * 1024;
/** Folders within folders in `lib/`: a link that leads back up ends somewhere. */
const MODULE_DEPTH_MAX = 8;

/**
 * Reads `classes/*.lua`, `units/*.lua` and `lib/` of an app's folder. A file that is too large or not UTF-8 is listed, and harms no
 * other.
 * @throws MoonportError `bad_name` for the app's name, `storage_*`
 */
export function readAppSource(app: string, folder: Folder): AppSource {
  checkAppName(app);
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
  const bases = folder.list(under).filter((name) => name.endsWith(".lua"));
  for (const base of bases.sort()) {
    const file = `${under}/${base}`;
    const name = nameOf(file, kind);
    const bytes = folder.readFile(file) ?? new Uint8Array();
    const text = bytes.length > SOURCE_BYTES_MAX ? undefined : decodeUtf8(bytes);
    if (text !== undefined) files.push({ name, file, text });
    else unreadable.push({ kind, name, file, error: cannotRead(kind, file, bytes.length) });
  }
  return { files, unreadable };
}

/** `classes/Auction.lua` is `Auction`, `lib/money/rates.lua` is `money.rates`. */
function nameOf(file: string, kind: UnreadableFile["kind"]): string {
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

function cannotRead(kind: UnreadableFile["kind"], file: string, bytes: number): MoonportError {
  const why =
    bytes > SOURCE_BYTES_MAX ? `has ${bytes} bytes; a ${kind} file may have ${SOURCE_BYTES_MAX}` : "is not UTF-8 text";
  return MoonportError.of(kind === "unit" ? "unit_invalid" : "class_invalid", `${file} ${why}`, { details: { file } });
}
