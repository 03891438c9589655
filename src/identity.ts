/**
 * Who an object is: `<app>/<Class>/<key>`, the grammar of its parts, and the partition it belongs to.
 */
import { hash } from "node:crypto";
import { MoonportError } from "./errors.js";

export interface ObjectIdentity {
  readonly app: string;
  readonly className: string;
  readonly key: string;
  /** `app/Class/key`; unique, and the form that logs and errors show. */
  readonly id: string;
}

export const DEFAULT_APP = "default";
/** The app of Moonport's own objects; no caller from outside reaches it. */
export const SYSTEM_APP = "system";
export const PARTITION_COUNT = 256;
export const KEY_BYTES_MAX = 256;

const APP = /^[a-z][a-z0-9-]{0,62}$/;
const CLASS = /^[A-Z][A-Za-z0-9]{0,62}$/;
const UNIT = /^[a-z][a-z0-9_-]{0,62}$/;
const METHOD = /^[a-z_][A-Za-z0-9_]{0,62}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** @throws MoonportError `bad_name` or `bad_key` */
export function identityOf(app: string, className: string, key: string): ObjectIdentity {
  checkAppName(app);
  checkClassName(className);
  checkKey(key);
  return { app, className, key, id: `${app}/${className}/${key}` };
}

/** The object of an id; keys may hold slashes. @throws MoonportError `bad_name`, `bad_key` */
export function objectOfId(id: string): ObjectIdentity {
  const [, app = "", className = "", key = ""] = /^([^/]*)\/([^/]*)\/(.*)$/s.exec(id) ?? [];
  return identityOf(app, className, key);
}

export function checkAppName(app: string): void {
  if (!APP.test(app)) {
    throw MoonportError.of("bad_name", `"${clip(app)}" is no app name`, {
      hint: "an app is a lower-case letter followed by up to 62 lower-case letters, digits or dashes",
    });
  }
}

/** Of an app that is to be served, deployed or checked. @throws MoonportError `bad_name` */
export function checkUsersAppName(app: string): void {
  checkAppName(app);
  if (app !== SYSTEM_APP) return;
  throw MoonportError.of("bad_name", `"${app}" is the app of Moonport's own objects`, {
    hint: "give yours another name",
  });
}

export function checkClassName(className: string): void {
  if (!CLASS.test(className)) {
    throw MoonportError.of("bad_name", `"${clip(className)}" is no class name`, {
      hint: "a class is a capital letter followed by up to 62 letters or digits",
    });
  }
}

export function checkMethodName(method: string): void {
  if (!METHOD.test(method)) {
    throw MoonportError.of("bad_name", `"${clip(method)}" is no method name`, {
      hint: "a method is a lower-case letter followed by letters, digits or underscores",
    });
  }
}

export function checkUnitName(unit: string): void {
  if (!UNIT.test(unit)) {
    throw MoonportError.of("bad_name", `"${clip(unit)}" is no unit name`, {
      hint: "a unit is a lower-case letter followed by up to 62 lower-case letters, digits, dashes or underscores",
    });
  }
}

export function checkKey(key: string): void {
  const bytes = Buffer.byteLength(key, "utf8");
  if (bytes === 0 || bytes > KEY_BYTES_MAX) {
    throw MoonportError.of("bad_key", `a key is 1 to ${KEY_BYTES_MAX} bytes of UTF-8; this one has ${bytes}`);
  }
  if (CONTROL.test(key)) throw MoonportError.of("bad_key", "a key may not hold control characters");
  if (!key.isWellFormed()) throw MoonportError.of("bad_key", "a key must be well-formed Unicode text");
}

/** Of ids that were asked for lately: a claim alone asks eight times. */
const partitions = new Map<string, number>();
const PARTITIONS_KNOWN_MAX = 32_768;

/** SHA-1 of `app/Class/key` as a big-endian integer mod 256, which is its last byte. */
export function partitionOf(id: string): number {
  const known = partitions.get(id);
  if (known !== undefined) return known;
  const partition = Number.parseInt(hash("sha1", id, "hex").slice(-2), 16);
  if (partitions.size >= PARTITIONS_KNOWN_MAX) partitions.clear();
  partitions.set(id, partition);
  return partition;
}

function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
