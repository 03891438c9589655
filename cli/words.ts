/** Words of a command line as what they name: an object, an argument. */
import { isDay } from "../src/durations.js";
import { isOwn, MoonportError } from "../src/errors.js";
import { identityOf, type ObjectIdentity } from "../src/identity.js";
import type { PointInTime } from "../src/node-api.js";
import { SETTINGS } from "../src/settings/settings.js";
import type { PlainValue, SqlValue } from "../src/values.js";
import { CALL_ID_GRAMMAR, isCallId } from "../src/wire/call-id.js";
import { parseWireJson } from "../src/wire/wire-json.js";
import { silentLogger } from "../src/world/logger.js";
import { realWorld } from "../src/world/real-world.js";
import { uuidv7 } from "../src/world/world.js";

/** `Class/key`; a key may hold slashes itself. @throws MoonportError `bad_option`, `bad_name`, `bad_key` */
export function objectOf(app: string, word: string): ObjectIdentity {
  const slash = word.indexOf("/");
  if (slash < 0) {
    throw MoonportError.of("bad_option", `"${word}" names no object`, { hint: "an object is Class/key: Counter/a" });
  }
  return identityOf(app, word.slice(0, slash), word.slice(slash + 1));
}

/**
 * JSON where it parses as JSON, else the word itself.
 * @throws MoonportError `bad_value` for a whole number that a double cannot hold exactly, `too_deep`
 */
export function argumentOf(word: string): PlainValue {
  const value = parsedWord(word);
  const lossy = typeof value === "string" ? undefined : wholeNumbersIn(word).find(isLossy);
  if (lossy !== undefined) throw inexact(lossy);
  return value;
}

function parsedWord(word: string): PlainValue {
  try {
    return parseWireJson(word, `"${word}"`, SETTINGS.VALUE_DEPTH_MAX.max);
  } catch (error) {
    if (isOwn(error, "bad_json")) return word;
    throw error;
  }
}

/** @throws MoonportError `bad_value` for what SQLite has no type for */
export function sqlParameterOf(word: string): SqlValue {
  const value = parsedWord(word);
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) return word;
  return argumentOf(word) as SqlValue;
}

/**
 * The id given, or a new one.
 * @throws MoonportError `bad_option` for what the header that carries an id over HTTP does not take
 */
export function callIdOf(id: string | undefined): string {
  if (id === undefined) return uuidv7(realWorld(process.cwd(), silentLogger));
  if (isCallId(id)) return id;
  throw MoonportError.of("bad_option", `--id takes ${CALL_ID_GRAMMAR}`);
}

const DAY_MS = 86_400_000;

/**
 * A seq, or a time: `2026-01-31T14:03:20Z`, `2026-01-31 14:03:20` by this machine's clock, `14:03:20` the last time it was that.
 * @throws MoonportError `bad_option`
 */
export function pointOf(word: string, nowMs: number): PointInTime {
  if (/^[0-9]{1,15}$/.test(word)) return { seq: Number(word) };
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(word);
  const atMs = clock === null ? Date.parse(word) : clockMs(clock.slice(1), nowMs);
  if (Number.isFinite(atMs) && (clock !== null || (/^\d{4}-\d{2}-\d{2}/.test(word) && isDay(word)))) {
    return { atMs };
  }
  throw MoonportError.of("bad_option", `--at "${word}" is neither a seq nor a time`, {
    hint: "42, 2026-01-31T14:03:20Z, '2026-01-31 14:03:20' or 14:03:20",
  });
}

function clockMs(parts: readonly (string | undefined)[], nowMs: number): number {
  const [hours = 0, minutes = 0, seconds = 0] = parts.map((part) => Number(part ?? 0));
  if (hours > 23 || minutes > 59 || seconds > 59) return Number.NaN;
  const atMs = new Date(nowMs).setHours(hours, minutes, seconds, 0);
  return atMs > nowMs ? atMs - DAY_MS : atMs;
}

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*/g;

/** Of a JSON text: an id such as 12345678901234567890 would silently become another one, however deep it stands. */
function wholeNumbersIn(json: string): string[] {
  return (json.match(STRING_OR_NUMBER) ?? []).filter((token) => /^-?[0-9]+$/.test(token));
}

function isLossy(digits: string): boolean {
  return !Number.isSafeInteger(Number(digits));
}

function inexact(digits: string): MoonportError {
  return MoonportError.of("bad_value", `${digits} is a whole number beyond 2^53, which would lose digits`, {
    hint: `as text it is '"${digits}"'`,
  });
}
