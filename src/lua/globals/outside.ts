/** `settle()` and `fetch(url, options)`: what units have and methods have not. */
import { MoonportError } from "../../errors.js";
import type { FetchCall } from "../contract.js";
import type { LuaFunction, LuaState, Table, TValue } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { isTable } from "../runtime.js";
import { waitFor } from "../waits.js";
import { encodeJson } from "./moonport.js";
import { Arguments } from "./read-arguments.js";

const USAGE = "fetch(url, { method =, headers =, body = or json =, timeout = })";

export function unitFunctions(machine: Machine): Record<string, LuaFunction> {
  const args = new Arguments(machine);
  return {
    settle: (L) => {
      refuseMethods(machine, L, "settle", "a method's reply waits for its own writes anyway");
      return waitFor(machine, L, "settle", { kind: "settle" });
    },
    fetch: (L) => {
      refuseMethods(machine, L, "fetch", "only a unit reaches the network");
      return waitFor(machine, L, "fetch", { kind: "fetch", ...fetchCall(machine, args, L) });
    },
  };
}

/** The code of a module is for units and methods alike. */
function refuseMethods({ runtime }: Machine, L: LuaState, name: string, why: string): void {
  if (runtime.running(L, name).objectHost !== undefined) throw runtime.fail(L, `'${name}' is not for methods: ${why}`);
}

function fetchCall(machine: Machine, args: Arguments, L: LuaState): FetchCall {
  const { runtime, values } = machine;
  const url = args.text(L, 1, USAGE);
  const options = args.options(L, 2, USAGE, ["method", "headers", "body", "json", "timeout"]);
  const headers = fetchHeaders(machine, L, options.get("headers"));
  const json = options.get("json");
  const body = options.get("body");
  if (json !== undefined && body !== undefined) throw runtime.fail(L, `${USAGE}: give either body or json`);
  if (json !== undefined) headers["content-type"] ??= "application/json";
  const sent = json !== undefined ? encodeJson(values.toPlain(json, "json")) : fetchBody(machine, L, body);
  const timeout = options.get("timeout");
  return {
    url,
    method: (args.optionText(L, options, "method", USAGE) ?? (sent === undefined ? "GET" : "POST")).toUpperCase(),
    headers,
    body: sent,
    timeoutMs: timeout === undefined ? undefined : args.durationMs(L, timeout, USAGE),
  };
}

function fetchBody(
  { runtime, values }: Machine,
  L: LuaState,
  body: TValue | undefined,
): string | Uint8Array | undefined {
  if (body === undefined) return undefined;
  const plain = values.toPlain(body, "body");
  if (typeof plain === "string" || plain instanceof Uint8Array) return plain;
  throw runtime.fail(L, `${USAGE}: body is text or a blob; json takes any value`);
}

function fetchHeaders({ runtime, values }: Machine, L: LuaState, given: TValue | undefined): Record<string, string> {
  if (given === undefined) return {};
  if (!isTable(given)) throw runtime.fail(L, `${USAGE}: headers are a table from names to texts`);
  const headers: Record<string, string> = Object.create(null);
  const plain = values.toPlain(runtime.tableValue(given.value as Table), "headers");
  for (const [name, value] of Object.entries(plain as object)) {
    if (typeof value !== "string" && typeof value !== "number") {
      throw MoonportError.of("bad_value", `${USAGE}: header ${name} is neither text nor a number`);
    }
    headers[name.toLowerCase()] = String(value);
  }
  return headers;
}
