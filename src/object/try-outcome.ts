/**
 * What follows from a try to deliver that failed. Pure.
 *
 * - The class's own doing counts: after DELAY_ATTEMPTS_MAX of these the command is a dead letter. What the fleet does to it (a
 *   node that stops, a class that does not load during a deploy, a full mailbox) does not count, and is tried until
 *   DELAY_RETRY_FOR_MS are over.
 * - While nobody knows what a try came to, the next one carries its call id, so that the receiver does nothing twice (W2). A
 *   receiver that has forgotten ids of that time refuses it; then an operator has to say whether it is to run.
 * - A call id gets old: after a try that certainly did nothing the next may have a fresh one.
 */
import { type ErrorCode, isOwn, type MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";

/** How a try ended. */
export type TryOutcome =
  | { kind: "done" }
  | {
      kind: "again";
      untilMs: number;
      counts: boolean;
      doubtful: boolean;
      /** The next try is made under a fresh call id. */
      renew: boolean;
      error: { code: string; message: string };
    }
  | { kind: "dead"; doubtful: boolean; error: { code: string; message: string } };

/** A run before the try that failed. */
export interface TriedRun {
  readonly tries: number;
  /** Of those, how many count. */
  readonly attempts: number;
  /** Wall clock of the first of them. */
  readonly beganMs: number;
  /** When the call id of the try was made. */
  readonly callIdMs: number;
  /** What an earlier try under this call id came to is not known. */
  readonly doubtful: boolean;
}

export type TrySettings = Pick<
  Settings,
  "DELAY_ATTEMPTS_MAX" | "DELAY_BACKOFF_MS" | "DELAY_BACKOFF_MAX_MS" | "DELAY_RETRY_FOR_MS" | "CALL_ID_RETENTION_MS"
>;

/** The method may have run. */
const DOUBTFUL: readonly ErrorCode[] = ["outcome_unknown", "not_durable_yet", "link_broken", "internal"];
/** A release that is being put right: no doing of the method. */
const OF_THE_RELEASE: readonly ErrorCode[] = [
  "app_not_found",
  "class_not_found",
  "method_not_found",
  "class_invalid",
  "migration_failed",
  "migration_mismatch",
  "hook_failed",
];

/** @param fraction in [0, 1) */
export function afterFailure(
  run: TriedRun,
  error: MoonportError,
  nowMs: number,
  settings: TrySettings,
  fraction: number,
): Exclude<TryOutcome, { kind: "done" }> {
  const told = { code: error.code, message: error.message };
  const isExpired = isOwn(error, "id_expired");
  if (isExpired && run.doubtful) return { kind: "dead", doubtful: true, error: told };
  const counts = !isExpired && isOfMethod(error);
  // That it ran and threw says that the receiver had no record of an earlier try; a try that did not get there says nothing.
  const doubtful = isDoubtful(error) || (run.doubtful && !counts);
  const attempts = run.attempts + (counts ? 1 : 0);
  const isOver = nowMs - run.beganMs >= settings.DELAY_RETRY_FOR_MS;
  if (attempts >= settings.DELAY_ATTEMPTS_MAX || isOver) return { kind: "dead", doubtful, error: told };
  const { DELAY_BACKOFF_MS, DELAY_BACKOFF_MAX_MS } = settings;
  const pauseMs = backoffMs(run.tries + 1, DELAY_BACKOFF_MS, DELAY_BACKOFF_MAX_MS, fraction);
  // Its pause as well: where the receiver's clock is ahead, it may refuse the next id too.
  const renew = isExpired || (!doubtful && nowMs - run.callIdMs > settings.CALL_ID_RETENTION_MS / 2);
  return { kind: "again", untilMs: nowMs + Math.ceil(pauseMs), counts, doubtful, renew, error: told };
}

/** A refusal that says that an earlier try did all there was to do: its receiver has ended since. */
export function hasRunBefore(error: MoonportError, callId: string): boolean {
  return isOwn(error, "id_expired") && error.details?.callId === callId && error.details?.hasRun === true;
}

export function isDoubtful(error: MoonportError): boolean {
  return isOwn(error, ...DOUBTFUL);
}

/** Whether it failed by the method's own doing: trying again at once would end alike. */
export function isOfMethod(error: MoonportError): boolean {
  if (error.source === "class") return true;
  if (error.retryable || isOwn(error, ...OF_THE_RELEASE)) return false;
  const { group } = error.entry;
  return group === "class" || group === "refuse";
}
