/** When an object that was woken is to be woken next. Pure: time comes in, nothing is read from a clock. */
import type { Woken } from "../object/work.js";

/** An object whose clock is behind says that nothing is due yet: it is asked again no sooner than this. */
const AGAIN_MS_MIN = 10;

/**
 * The object says both in how long, and at which time by the wall clock of its node. While the clocks of the two nodes agree these
 * are the same. While they do not the sooner one counts, and one that has passed here and not there is asked about again: clocks
 * are set right, and nobody tells when.
 *
 * @param nowMs wall clock of the shard's node
 * @param waitMaxMs as late as a timer may be after a step of a clock
 * @returns wall clock; null when it wants not to be woken
 */
export function lookAgainMs({ ran, inMs, dueMs }: Woken, nowMs: number, waitMaxMs: number): number | null {
  if (inMs === null || dueMs === null) return null;
  const byDelayMs = nowMs + Math.max(inMs, ran > 0 ? 0 : AGAIN_MS_MIN);
  const hasPassed = dueMs <= nowMs;
  return Math.ceil(Math.min(byDelayMs, hasPassed ? nowMs + waitMaxMs : dueMs));
}
