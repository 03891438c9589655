/**
 * How many requests may be under way, and from when, after what the store has answered: decisions only.
 *
 * A store that throttles asks for fewer requests. Repeating what it refused sends more, so the bound is shared by all of a
 * bucket's requests: each refusal halves it and opens a pause in which nothing leaves, each success lets it grow by one
 * request a round (as TCP does). Requests that left together are refused together; they count once, or one burst would
 * end at a bound of one.
 */

export interface Throttle {
  /** Requests that may be under way, a fraction while it grows. */
  readonly window: number;
  /** Nothing leaves before this. */
  readonly notBeforeMs: number;
  /** Length of the last pause of our own making; 0 since a success. */
  readonly pauseMs: number;
  /** What left by then tells nothing new. */
  readonly cutAtMs: number;
}

const FIRST_PAUSE_MS = 100;

export function openThrottle(requestsMax: number): Throttle {
  return { window: requestsMax, notBeforeMs: 0, pauseMs: 0, cutAtMs: Number.NEGATIVE_INFINITY };
}

/** @param sentMs when the request left */
export function afterSuccess(throttle: Throttle, requestsMax: number, sentMs: number): Throttle {
  if (sentMs <= throttle.cutAtMs) return throttle;
  if (throttle.window >= requestsMax && throttle.pauseMs === 0) return throttle;
  return { ...throttle, window: Math.min(requestsMax, throttle.window + 1 / throttle.window), pauseMs: 0 };
}

export interface Refusal {
  readonly nowMs: number;
  /** When the request left. */
  readonly sentMs: number;
  /** What the store asked for. */
  readonly retryAfterMs: number | undefined;
  readonly pauseMaxMs: number;
  /** Random, in [0, 1): nodes that were refused together do not come back together. */
  readonly fraction: number;
}

export function afterRefusal(throttle: Throttle, refusal: Refusal): Throttle {
  const { nowMs, sentMs, pauseMaxMs, fraction } = refusal;
  const askedMs = Math.min(refusal.retryAfterMs ?? 0, pauseMaxMs);
  if (sentMs <= throttle.cutAtMs) {
    return { ...throttle, notBeforeMs: Math.max(throttle.notBeforeMs, nowMs + askedMs) };
  }
  const pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, throttle.pauseMs * 2), pauseMaxMs);
  return {
    window: Math.max(1, Math.floor(throttle.window / 2)),
    notBeforeMs: Math.max(throttle.notBeforeMs, nowMs + Math.max(askedMs, pauseMs * (0.5 + fraction / 2))),
    pauseMs,
    cutAtMs: nowMs,
  };
}
