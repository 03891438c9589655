/** A unit run from the program: the request made of what the program says, as the HTTP door makes one of what comes in. */

import type { UnitRequest } from "../node-api.js";
import { plainCopy } from "../plain-copy.js";
import { callerOf, checkUnitCall, checkUnitOptions, type UnitCall, type UnitOptions } from "./options.js";

export interface NamedUnit {
  readonly app: string;
  readonly unit: string;
}

/** @throws MoonportError `bad_option`, `bad_value`, `too_deep` */
export function unitRequestOf(
  { app, unit }: NamedUnit,
  asked: UnitCall,
  options: UnitOptions & { readonly callId: string },
  depthMax: number,
): UnitRequest {
  checkUnitCall(asked);
  checkUnitOptions(options);
  const { callId, timeoutMs, signal } = options;
  const body = asked.body === undefined ? undefined : plainCopy(asked.body, "the body", depthMax);
  return {
    app,
    unit,
    method: asked.method ?? (body === undefined ? "GET" : "POST"),
    path: asked.path ?? "/",
    query: { ...asked.query },
    headers: lowerCase(asked.headers ?? {}),
    caller: callerOf(options.as),
    callId,
    ...(body !== undefined && { body }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(signal !== undefined && { signal }),
  };
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
