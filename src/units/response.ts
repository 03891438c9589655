/** What a unit returned, as the response that leaves: checked, so that nothing it says can break the protocol it leaves by. */
import { MoonportError } from "../errors.js";
import type { UnitResponse } from "../node-api.js";
import type { PlainObject, PlainValue } from "../values.js";
import { wireJson } from "../wire/wire-json.js";

const FIELDS = ["status", "headers", "body"];
const HEADERS_MAX = 64;
const HEADER_BYTES_MAX = 16 * 1024;
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
/** The connection's and the node's own. */
const RESERVED =
  /^(connection|keep-alive|transfer-encoding|content-length|upgrade|trailer|te|date|proxy-.*|moonport-.*)$/;
const JSON_TYPE = /^application\/(?:[a-z0-9.-]+\+)?json\b/i;
const WITHOUT_BODY = [204, 304];

/**
 * A table of nothing but status, headers and body is a response, anything else a value that is sent as JSON with status 200.
 * @throws MoonportError `unit_response_invalid`
 */
export function responseOf(returned: PlainValue): UnitResponse {
  if (!isResponse(returned)) return whole(200, {}, returned);
  const { status = 200, body = null } = returned;
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599) {
    throw invalid(
      `status is ${JSON.stringify(status)}`,
      "a status is a whole number from 200 to 599; to send a table as it is, put it into body",
    );
  }
  return whole(status, headersOf(returned.headers ?? {}), body);
}

function isResponse(value: PlainValue): value is PlainObject {
  if (!isMap(value)) return false;
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => FIELDS.includes(name));
}

function whole(status: number, headers: Record<string, string>, body: PlainValue): UnitResponse {
  if (WITHOUT_BODY.includes(status)) {
    if (body !== null) throw invalid(`a response of status ${status} has no body`);
    return { status, headers, body: "" };
  }
  const type = headers["content-type"];
  if (type === undefined) {
    if (body instanceof Uint8Array) return { status, headers: typed(headers, "application/octet-stream"), body };
    return { status, headers: typed(headers, "application/json; charset=utf-8"), body: wireJson(body) };
  }
  // Whoever names the type has written the body in it.
  if (typeof body === "string" || body instanceof Uint8Array) return { status, headers, body };
  if (JSON_TYPE.test(type)) return { status, headers, body: wireJson(body) };
  if (body === null) return { status, headers, body: "" };
  throw invalid(`a body of type ${type} is text or a blob`);
}

function typed(headers: Record<string, string>, type: string): Record<string, string> {
  return { ...headers, "content-type": type };
}

function headersOf(given: PlainValue): Record<string, string> {
  if (!isMap(given)) throw invalid("headers are a table from names to texts");
  const headers: Record<string, string> = {};
  let bytes = 0;
  for (const [name, value] of Object.entries(given)) {
    const lower = name.toLowerCase();
    const text = typeof value === "number" ? String(value) : value;
    if (!HEADER_NAME.test(lower)) throw invalid(`${JSON.stringify(name)} is no header name`);
    if (RESERVED.test(lower)) throw invalid(`the header ${lower} is not a unit's to set`);
    if (Object.hasOwn(headers, lower)) throw invalid(`the header ${lower} is given twice`);
    if (typeof text !== "string" || !HEADER_VALUE.test(text)) {
      throw invalid(`the header ${lower} is not one line of printable ASCII`);
    }
    bytes += lower.length + text.length;
    Object.defineProperty(headers, lower, { value: text, enumerable: true, configurable: true, writable: true });
  }
  if (Object.keys(headers).length > HEADERS_MAX) throw invalid(`more than ${HEADERS_MAX} headers`);
  if (bytes > HEADER_BYTES_MAX) throw invalid(`headers of more than ${HEADER_BYTES_MAX} bytes`);
  return headers;
}

function isMap(value: PlainValue): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function invalid(what: string, hint?: string): MoonportError {
  return MoonportError.of("unit_response_invalid", what, hint === undefined ? {} : { hint });
}
