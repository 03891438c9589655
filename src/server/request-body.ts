/** What a request brings as JSON: arguments, in its body or in its query. */
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import { parseWireJson } from "../wire/wire-json.js";
import type { HttpRequest } from "./http-handler.js";

/** An array is the arguments, a table the only one; no body, no arguments. */
export function bodyArguments(settings: Settings, request: HttpRequest): readonly PlainValue[] {
  const body = bodyValue(settings, request);
  return body === undefined ? [] : argumentsOf(body, "the body");
}

export function queryArguments(settings: Settings, text: string | undefined): readonly PlainValue[] {
  if (text === undefined) return [];
  return argumentsOf(parseArguments(text, "args", settings), "args");
}

function argumentsOf(value: PlainValue, what: string): readonly PlainValue[] {
  if (Array.isArray(value)) return value;
  if (typeof value === "object" && value !== null) return [value];
  throw MoonportError.of("bad_request", `${what} is neither an array of arguments nor one table`, {
    hint: "put a single argument into brackets: [25]",
  });
}

export function bodyValue(settings: Settings, { body, headers }: HttpRequest): PlainValue | undefined {
  if (body === undefined || body.length === 0) return undefined;
  const type = (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw MoonportError.of("bad_request", `the body is ${type === "" ? "of no stated type" : type}, not JSON`, {
      hint: "send Content-Type: application/json",
    });
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    throw MoonportError.of("bad_request", `a body with Content-Encoding ${encoding} is not taken`);
  }
  return parseArguments(utf8(body), "the body", settings);
}

/** VALUE_DEPTH_MAX holds for each argument; the brackets around them are not part of any. */
export function parseArguments(text: string, what: string, settings: Settings): PlainValue {
  const around = text.trimStart().startsWith("[") ? 1 : 0;
  return parseWireJson(text, what, settings.VALUE_DEPTH_MAX + around);
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw MoonportError.of("bad_json", "the body is not UTF-8 text", { cause });
  }
}
