/**
 * The files of a release as they lie in the bucket: one document, named by the hash of its bytes, so that it cannot change.
 *
 * The same files make the same bytes, in whatever order they came. Whatever comes in, from a door or from the bucket, is
 * checked here once: a path names a class, a unit or a module and nothing else, and a text is text.
 */
import { createHash } from "node:crypto";
import { type AppSource, MODULE_DEPTH_MAX, SOURCE_BYTES_MAX } from "../app-source.js";
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { ReleaseFile } from "./contract.js";

export interface Bundle {
  /** SHA-256 of the bytes, in hex. */
  readonly id: string;
  readonly bytes: Uint8Array;
  /** In order of their paths. */
  readonly files: readonly ReleaseFile[];
  /** Of all texts. */
  readonly textBytes: number;
}

export type BundleLimits = Pick<Settings, "RELEASE_BYTES_MAX" | "RELEASE_FILES_MAX">;

const FORMAT = 1;
const SEGMENT = /^[A-Za-z0-9_-]{1,100}$/;
const KINDS = { classes: "class", units: "unit", lib: "module" } as const;

/** @throws MoonportError `bad_release`, `too_large` */
export function bundleOf(files: readonly ReleaseFile[], limits: BundleLimits): Bundle {
  if (files.length === 0) throw badRelease("it has no files", "a release has classes/*.lua, units/*.lua and lib/");
  if (files.length > limits.RELEASE_FILES_MAX) {
    throw tooLarge(`it has ${files.length} files`, "RELEASE_FILES_MAX", limits.RELEASE_FILES_MAX);
  }
  let textBytes = 0;
  const paths = new Set<string>();
  for (const { path, text } of files) {
    checkPath(path);
    if (paths.has(path)) throw badRelease(`${path} is there twice`);
    paths.add(path);
    textBytes += bytesOf(path, text);
    if (textBytes > limits.RELEASE_BYTES_MAX) {
      throw tooLarge(`its files have more than ${limits.RELEASE_BYTES_MAX} bytes`, "RELEASE_BYTES_MAX");
    }
  }
  const sorted = files
    .map(({ path, text }) => ({ path, text }))
    .sort((left, right) => (left.path < right.path ? -1 : 1));
  const document = { format: FORMAT, files: sorted.map(({ path, text }) => [path, text]) };
  const bytes = Buffer.from(JSON.stringify(document), "utf8");
  return { id: hashOf(bytes), bytes, files: sorted, textBytes };
}

/** @param id what the bytes are to be @throws MoonportError `release_damaged` */
export function decodeBundle(id: string, bytes: Uint8Array): Bundle {
  if (hashOf(bytes) !== id) throw damaged(`the release ${id.slice(0, 12)} has other bytes than it was written with`);
  const files = filesIn(bytes);
  if (files === undefined) throw damaged(`the release ${id.slice(0, 12)} has a form that this version does not know`);
  try {
    // Whoever deployed it may have had wider bounds.
    return { ...bundleOf(files, NO_LIMITS), id, bytes };
  } catch (cause) {
    throw damaged(`the release ${id.slice(0, 12)} is none: ${(cause as Error).message}`, cause);
  }
}

/** The app's files as they would be read from its folder. */
export function sourceOf(app: string, files: readonly ReleaseFile[]): AppSource {
  const named = files.map(({ path, text }) => {
    const [folder = "", ...rest] = path.slice(0, -".lua".length).split("/");
    return { kind: KINDS[folder as keyof typeof KINDS], app, name: rest.join("."), file: path, text };
  });
  return {
    app,
    classes: named.flatMap(({ kind, ...file }) => (kind === "class" ? [file] : [])),
    units: named.flatMap(({ kind, ...file }) => (kind === "unit" ? [{ kind, ...file }] : [])),
    modules: named.flatMap(({ kind, ...file }) => (kind === "module" ? [{ kind, ...file }] : [])),
  };
}

/** The way back. @throws MoonportError the first file's that cannot be read */
export function filesOf({ classes, units = [], modules = [], unreadable = [] }: AppSource): ReleaseFile[] {
  for (const { error } of unreadable) throw error;
  return [...classes, ...units, ...modules].map(({ file, text }) => ({ path: file, text }));
}

const NO_LIMITS: BundleLimits = {
  RELEASE_BYTES_MAX: Number.POSITIVE_INFINITY,
  RELEASE_FILES_MAX: Number.POSITIVE_INFINITY,
};

/** No path leads anywhere but to a Lua file in one of the three folders, on whatever system it is once unpacked. */
function checkPath(path: string): void {
  const [folder = "", ...rest] = path.endsWith(".lua") ? path.slice(0, -".lua".length).split("/") : [];
  const depthMax = folder === "lib" ? MODULE_DEPTH_MAX : 1;
  const isPlace = Object.hasOwn(KINDS, folder) && rest.length >= 1 && rest.length <= depthMax;
  if (isPlace && rest.every((segment) => SEGMENT.test(segment) && segment !== "__proto__")) return;
  throw badRelease(
    `${JSON.stringify(path.slice(0, 120))} is no file of an app`,
    "a release has classes/NAME.lua, units/NAME.lua and lib/NAME.lua or lib/FOLDER/NAME.lua",
  );
}

function bytesOf(path: string, text: string): number {
  if (!text.isWellFormed()) throw badRelease(`${path} is not UTF-8 text`);
  const bytes = Buffer.byteLength(text, "utf8");
  if (bytes <= SOURCE_BYTES_MAX) return bytes;
  throw MoonportError.of("too_large", `${path} has ${bytes} bytes; a file may have ${SOURCE_BYTES_MAX}`);
}

function filesIn(bytes: Uint8Array): ReleaseFile[] | undefined {
  try {
    const document = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Record<string, unknown>;
    if (document.format !== FORMAT || !Array.isArray(document.files)) return undefined;
    const files = document.files.map(fileIn);
    return files.every((file) => file !== undefined) ? files : undefined;
  } catch {
    return undefined;
  }
}

function fileIn(pair: unknown): ReleaseFile | undefined {
  const [path, text] = Array.isArray(pair) ? (pair as unknown[]) : [];
  return typeof path === "string" && typeof text === "string" ? { path, text } : undefined;
}

function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function badRelease(what: string, hint?: string): MoonportError {
  return MoonportError.of("bad_release", `this is no release: ${what}`, hint === undefined ? {} : { hint });
}

function tooLarge(what: string, setting: string, max?: number): MoonportError {
  const allowed = max === undefined ? "" : `, and may have ${max}`;
  return MoonportError.of("too_large", `the release is too large: ${what}${allowed}`, {
    hint: `the limit is ${setting}`,
  });
}

function damaged(what: string, cause?: unknown): MoonportError {
  return MoonportError.of("release_damaged", what, { ...(cause !== undefined && { cause }), hint: "deploy it again" });
}
