/** What a request says about its call in headers (docs/http.md): its id, how long its caller waits, who may answer. */
import type { IncomingHttpHeaders } from "node:http";
import { MoonportError } from "../errors.js";
import type { Consistency } from "../node-api.js";
import { SETTINGS } from "../settings/settings.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import { CALL_ID_HEADER, CONSISTENCY_HEADER, DEADLINE_HEADER, TIMEOUT_HEADER } from "../wire/http-headers.js";

/** RFC 3339: a date and a time with its offset. `Date.parse` alone takes much else. */
const DATE_TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;
const EPOCH_MS = /^[0-9]{1,15}$/;

/** @throws MoonportError `bad_request` */
export function callIdOf(headers: IncomingHttpHeaders): string | undefined {
  const callId = headers[CALL_ID_HEADER];
  if (callId === undefined) return undefined;
  if (typeof callId !== "string" || !isCallId(callId)) {
    throw MoonportError.of("bad_request", `Idempotency-Key is ${CALL_ID_GRAMMAR}`);
  }
  return callId;
}

/** @throws MoonportError `bad_request` */
export function consistencyOf(headers: IncomingHttpHeaders): Consistency | undefined {
  const consistency = headers[CONSISTENCY_HEADER];
  if (consistency === undefined || consistency === "replica") return consistency;
  throw MoonportError.of("bad_request", "Moonport-Consistency is replica; without it the owner answers");
}

/**
 * How long the caller waits from now, milliseconds: the shorter of its two headers, `undefined` without either.
 * @param nowMs wall clock
 * @throws MoonportError `bad_request`, `deadline_exceeded`
 */
export function timeoutOf(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const timeoutMs = waitOf(headers[TIMEOUT_HEADER]);
  const leftMs = leftOf(headers[DEADLINE_HEADER], nowMs);
  if (timeoutMs === undefined || leftMs === undefined) return timeoutMs ?? leftMs;
  return Math.min(timeoutMs, leftMs);
}

function waitOf(text: string | string[] | undefined): number | undefined {
  if (text === undefined) return undefined;
  const maxMs = SETTINGS.CALL_TIMEOUT_MS.max;
  const timeoutMs = typeof text === "string" && /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
  if (timeoutMs < 1 || timeoutMs > maxMs) {
    throw MoonportError.of("bad_request", `X-Request-Timeout-Ms is a whole number of milliseconds, 1 to ${maxMs}`);
  }
  return timeoutMs;
}

/** A deadline may lie further away than any wait: whoever passes one on does not choose it. */
function leftOf(text: string | string[] | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  const leftMs = Math.floor(momentOf(text) - nowMs);
  if (leftMs < 1) {
    throw MoonportError.of("deadline_exceeded", "the request's deadline had passed when it came; it did not run", {
      hint: "if this comes always, compare the clocks: X-Request-Timeout-Ms needs none",
    });
  }
  return Math.min(leftMs, SETTINGS.CALL_TIMEOUT_MS.max);
}

function momentOf(text: string | string[]): number {
  if (typeof text === "string") {
    if (EPOCH_MS.test(text)) return Number(text);
    const moment = DATE_TIME.test(text) ? Date.parse(text) : Number.NaN;
    if (!Number.isNaN(moment)) return moment;
  }
  throw MoonportError.of(
    "bad_request",
    "X-Request-Deadline is a moment: 2026-01-31T12:00:00.5Z, or milliseconds since 1970",
  );
}
