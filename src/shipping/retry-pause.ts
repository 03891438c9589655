/** How long to wait before a flight that failed is tried again: the back-off, and at least what the bucket asks for. */
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";

export type RetrySettings = Pick<
  Settings,
  "OBJECT_SHIP_BACKOFF_MS" | "OBJECT_SHIP_BACKOFF_MAX_MS" | "BUCKET_PAUSE_MAX_MS"
>;

/**
 * @param failures consecutive failures so far, at least 1
 * @param fraction in [0, 1), from the world's randomness
 */
export function retryPauseMs(failures: number, error: unknown, settings: RetrySettings, fraction: number): number {
  const { OBJECT_SHIP_BACKOFF_MS, OBJECT_SHIP_BACKOFF_MAX_MS, BUCKET_PAUSE_MAX_MS } = settings;
  const pauseMs = backoffMs(failures, OBJECT_SHIP_BACKOFF_MS, OBJECT_SHIP_BACKOFF_MAX_MS, fraction);
  const askedMs = error instanceof MoonportError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(pauseMs, Math.min(askedMs, BUCKET_PAUSE_MAX_MS));
}
