/**
 * Units over HTTP: `/v1/{app}/units/{unit}` and every path below it, with GET, POST, PUT, PATCH and DELETE. The unit sees the
 * request and makes the response; only its errors look like those of every other route.
 */
import type { IncomingHttpHeaders } from "node:http";
import { callerOf } from "../auth/principal-calls.js";
import { MoonportError } from "../errors.js";
import { checkAppName, checkUnitName } from "../identity.js";
import type { NodeApi, UnitRequest } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { type PlainValue, setOwn } from "../values.js";
import { UNIT_HEADER } from "../wire/http-headers.js";
import { parseWireJson } from "../wire/wire-json.js";
import type { World } from "../world/world.js";
import type { HttpAnswer, HttpHandler, HttpRequest } from "./http-handler.js";
import { callIdOf, timeoutOf } from "./request-headers.js";
import { allowMethods, type RequestLine, routeNotFound } from "./request-line.js";

export interface UnitsContext {
  readonly node: Pick<NodeApi, "runUnit">;
  readonly settings: Settings;
  readonly world: Pick<World, "clock">;
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/** They prove who calls; code has `caller` instead. */
const WITHHELD = ["authorization", "proxy-authorization"];
const JSON_TYPE = /^application\/(?:[a-z0-9.-]+\+)?json$/;
const TEXT_TYPE = /^(?:text\/.*|application\/(?:x-www-form-urlencoded|(?:[a-z0-9.-]+\+)?xml))$/;

export function unitsHandler(context: UnitsContext): HttpHandler {
  return {
    operation(line) {
      const [version, app = "", units, unit = ""] = line.segments;
      if (version !== "v1" || units !== "units") return undefined;
      if (line.segments.length < 4) throw routeNotFound(line.url);
      allowMethods(line, METHODS);
      return {
        check: (principal) => principal.check({ right: "unit", app, method: unit }),
        answer: (request) => run(context, app, unit, request),
      };
    },
  };
}

async function run(context: UnitsContext, app: string, unit: string, request: HttpRequest): Promise<HttpAnswer> {
  checkAppName(app);
  checkUnitName(unit);
  const { line, headers, principal, caller } = request;
  const callId = callIdOf(headers);
  const timeoutMs = timeoutOf(headers, context.world.clock.wallMs());
  const body = bodyOf(context, request);
  const wanted: UnitRequest = {
    app,
    unit,
    method: line.method,
    path: `/${line.segments.slice(4).join("/")}`,
    query: queryOf(line),
    headers: headersOf(headers),
    caller: callerOf(principal),
    signal: caller.signal,
    ...(body !== undefined && { body }),
    ...(callId !== undefined && { callId }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
  const response = await context.node.runUnit(wanted);
  const { status } = response;
  return { kind: "whole", status, body: response.body, headers: { ...response.headers, [UNIT_HEADER]: unit } };
}

function queryOf({ query }: RequestLine): UnitRequest["query"] {
  const names = [...new Set(query.keys())];
  return Object.fromEntries(
    names.map((name) => {
      const values = query.getAll(name);
      return [name, values.length === 1 ? (values[0] as string) : values];
    }),
  );
}

/** Bounded by the door, which takes no more headers than the platform does. */
function headersOf(given: IncomingHttpHeaders): UnitRequest["headers"] {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || WITHHELD.includes(name)) continue;
    const text = Array.isArray(value) ? value.join(", ") : value;
    setOwn(headers, name, Buffer.from(text, "latin1").toString("utf8").toWellFormed());
  }
  return headers;
}

/** JSON as a value, text as text, anything else as bytes. */
function bodyOf({ settings }: UnitsContext, { body, headers }: HttpRequest): PlainValue | undefined {
  if (body === undefined || body.length === 0) return undefined;
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    throw MoonportError.of("bad_request", `a body with Content-Encoding ${encoding} is not taken`);
  }
  const type = (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (JSON_TYPE.test(type)) {
    const text = textOf(body);
    if (text === undefined) throw MoonportError.of("bad_json", "the body is not UTF-8 text");
    return parseWireJson(text, "the body", settings.VALUE_DEPTH_MAX);
  }
  const text = TEXT_TYPE.test(type) ? textOf(body) : undefined;
  return text ?? new Uint8Array(body);
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
