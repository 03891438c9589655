/**
 * Errors as RFC 9457 problem documents, both ways: what the HTTP door sends and what its client turns back.
 *
 * An error that went over the wire comes out with the same code, message, source and fields; only its cause stays at home.
 */
import { ERROR_CODES, type ErrorCode, type ErrorOptionsBag, MoonportError } from "../errors.js";
import type { PlainValue } from "../values.js";
import { toWire } from "./wire-json.js";

export const PROBLEM_TYPE = "application/problem+json";

export interface Problem {
  /** `urn:moonport:error:<code>`, or `urn:moonport:class-error:<code>` for a code that a class threw. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly retryable: boolean;
  readonly source: "moonport" | "class";
  readonly hint?: string;
  readonly callId?: string;
  /** `app/Class/key`. */
  readonly object?: string;
  readonly retryAfterMs?: number;
  readonly details?: PlainValue;
}

/** A 503 without a better guess asks for one second of patience. */
const RETRY_AFTER_DEFAULT_MS = 1_000;

export function problemOf(error: MoonportError): Problem {
  const { entry, source, code } = error;
  return {
    type: `urn:moonport:${source === "class" ? "class-error" : "error"}:${code}`,
    title: entry.meaning,
    status: entry.status,
    detail: error.message,
    code,
    retryable: entry.retryable,
    source,
    ...present("hint", error.hint),
    ...present("callId", error.callId),
    ...present("object", error.object),
    ...present("retryAfterMs", error.retryAfterMs),
    ...present("details", error.details && plainDetails(error.details)),
  };
}

/** The Retry-After header in whole seconds, for answers that ask to come again. */
export function retryAfterSeconds(error: MoonportError): number | undefined {
  if (!error.retryable || (error.entry.status !== 503 && error.retryAfterMs === undefined)) return undefined;
  return Math.max(1, Math.ceil((error.retryAfterMs ?? RETRY_AFTER_DEFAULT_MS) / 1_000));
}

/** `undefined` when the document is no problem of a Moonport node. */
export function errorOf(document: unknown): MoonportError | undefined {
  if (typeof document !== "object" || document === null) return undefined;
  const problem = document as Partial<Record<keyof Problem, unknown>>;
  const { code, detail } = problem;
  if (typeof code !== "string" || typeof detail !== "string") return undefined;
  const bag = bagOf(problem);
  if (problem.source === "class") return MoonportError.byClass(code, detail, bag);
  if (Object.hasOwn(ERROR_CODES, code)) return MoonportError.of(code as ErrorCode, detail, bag);
  // A newer node knows codes that this client does not.
  return MoonportError.of("internal", detail, { ...bag, details: { ...bag.details, code } });
}

function bagOf(problem: Partial<Record<keyof Problem, unknown>>): ErrorOptionsBag {
  const { hint, callId, object, retryAfterMs, details } = problem;
  return {
    ...present("hint", typeof hint === "string" ? hint : undefined),
    ...present("callId", typeof callId === "string" ? callId : undefined),
    ...present("object", typeof object === "string" ? object : undefined),
    ...present("retryAfterMs", typeof retryAfterMs === "number" ? retryAfterMs : undefined),
    ...present("details", isRecord(details) ? details : undefined),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Details are plain by contract; one that is not must not turn an error's answer into another error. */
function plainDetails(details: Readonly<Record<string, unknown>>): PlainValue {
  try {
    return JSON.parse(JSON.stringify(toWire(details as Record<string, PlainValue>))) as PlainValue;
  } catch {
    return { unreadable: true };
  }
}

function present<K extends string, V>(name: K, value: V | undefined): { readonly [name in K]?: V } {
  return value === undefined ? {} : ({ [name]: value } as { readonly [name in K]?: V });
}
