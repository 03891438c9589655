/**
 * Plain values as JSON text, both ways: the one encoding of the HTTP door and of the CLI.
 *
 * JSON has no bytes, so bytes travel as `{"$bytes": "<base64>"}`. A table whose only key is really called `$bytes` gains a
 * second dollar sign on the way out and loses it on the way in, so that every value comes back as what it was.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { PlainObject, PlainValue } from "../values.js";
import { fromBase64, toBase64 } from "./base64.js";
import { jsonFaultAt, lineAndColumn } from "./json-fault.js";

/** `$bytes`, `$$bytes`, ...: the names that the encoding above gives a meaning to. */
const MARK = /^\$+bytes$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * @param what names the text in messages: "the body"
 * @param depthMax arrays and tables that may stand inside each other, the outermost included
 * @throws MoonportError `bad_json` with the position, `too_deep`, `bad_value`
 */
export function parseWireJson(text: string, what: string, depthMax: number): PlainValue {
  return fromWire(parse(text, what), what, depthMax);
}

/**
 * The same for a text whose outermost fields matter even when something inside is at fault.
 * @throws MoonportError `bad_json` with the position
 */
export function readWireJson(
  text: string,
  what: string,
  depthMax: number,
): { readonly value: PlainValue; readonly fault: MoonportError | undefined } {
  const raw = parse(text, what);
  try {
    return { value: fromWire(raw, what, depthMax), fault: undefined };
  } catch (fault) {
    return { value: raw, fault: asMoonportError(fault) };
  }
}

/** The value as JSON text. */
export function wireJson(value: PlainValue): string {
  return JSON.stringify(toWire(value));
}

/** The value with its bytes made text: what JSON.stringify may be given. The same object when there is nothing to change. */
export function toWire(value: PlainValue): PlainValue {
  if (value === null || typeof value !== "object") return value;
  if (value instanceof Uint8Array) return { $bytes: toBase64(value) };
  if (Array.isArray(value)) return mapArray(value, toWire);
  const mark = soleMark(value);
  if (mark !== undefined) return { [`$${mark}`]: toWire(value[mark] as PlainValue) };
  return mapObject(value, toWire);
}

function parse(text: string, what: string): PlainValue {
  try {
    // What JSON.parse returns is a plain value by construction: own properties only, `__proto__` among them.
    return JSON.parse(text) as PlainValue;
  } catch (cause) {
    throw notJson(text, what, cause);
  }
}

function notJson(text: string, what: string, cause: unknown): MoonportError {
  const position = Math.max(jsonFaultAt(text), 0);
  const { line, column } = lineAndColumn(text, position);
  const found =
    position >= text.length ? "it ends too early" : `unexpected ${JSON.stringify(characterAt(text, position))}`;
  return MoonportError.of("bad_json", `${what} is not JSON: ${found} at line ${line}, column ${column}`, {
    cause,
    details: { position, line, column },
  });
}

function characterAt(text: string, position: number): string {
  return String.fromCodePoint(text.codePointAt(position) ?? 0);
}

function fromWire(value: PlainValue, what: string, depthLeft: number): PlainValue {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw MoonportError.of("bad_value", `${what} holds a number beyond what a double can be`);
  }
  if (value === null || typeof value !== "object" || value instanceof Uint8Array) return value;
  const mark = Array.isArray(value) ? undefined : soleMark(value);
  if (mark === "$bytes") return bytesOf((value as PlainObject)[mark] as PlainValue, what);
  if (depthLeft <= 0) throw MoonportError.of("too_deep", `${what} is nested deeper than the limit`);
  const convert = (inner: PlainValue): PlainValue => fromWire(inner, what, depthLeft - 1);
  if (Array.isArray(value)) return mapArray(value, convert);
  if (mark !== undefined) return { [mark.slice(1)]: convert(value[mark] as PlainValue) };
  return mapObject(value, convert);
}

function bytesOf(text: PlainValue, what: string): Uint8Array {
  if (typeof text !== "string" || !BASE64.test(text)) {
    throw MoonportError.of("bad_value", `${what} holds {"$bytes": ...} without base64 text`, {
      hint: 'a table whose only key is really called "$bytes" is written with one dollar sign more',
    });
  }
  return fromBase64(text);
}

function soleMark(value: PlainObject): string | undefined {
  let sole: string | undefined;
  for (const key in value) {
    if (sole !== undefined) return undefined;
    sole = key;
  }
  return sole !== undefined && MARK.test(sole) ? sole : undefined;
}

/** A copy only if an element changed: most values hold no bytes. */
function mapArray(value: readonly PlainValue[], convert: (inner: PlainValue) => PlainValue): PlainValue {
  let copy: PlainValue[] | undefined;
  for (let index = 0; index < value.length; index++) {
    const before = value[index] as PlainValue;
    const after = convert(before);
    if (after === before) continue;
    copy ??= [...value];
    copy[index] = after;
  }
  return copy ?? (value as PlainValue[]);
}

function mapObject(value: PlainObject, convert: (inner: PlainValue) => PlainValue): PlainValue {
  let copy: [string, PlainValue][] | undefined;
  const entries = Object.entries(value);
  for (const [index, [key, before]] of entries.entries()) {
    const after = convert(before);
    if (after === before) continue;
    copy ??= entries;
    copy[index] = [key, after];
  }
  // fromEntries defines own properties, whatever their name.
  return copy === undefined ? value : Object.fromEntries(copy);
}
