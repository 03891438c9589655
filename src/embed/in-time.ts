/** The program's way with time: whoever has waited long enough is answered, whatever becomes of what it asked for. */
import { MoonportError } from "../errors.js";
import type { World } from "../world/world.js";

export interface TimedCall {
  readonly timeoutMs: number | undefined;
  readonly callId: string;
  /** Of a call, its object. */
  readonly object?: string;
}

/** What never began the node says itself when the time is up, of an object on another node a little later. */
const LAST_WORD_MS = 100;

/**
 * The outcome if it comes in time. What nothing is heard of by then has begun, and runs to its end.
 * @throws MoonportError `outcome_unknown`
 */
export function inTime<T>(
  { timers }: Pick<World, "timers">,
  { timeoutMs, ...named }: TimedCall,
  start: () => Promise<T>,
): Promise<T> {
  if (timeoutMs === undefined) return start();
  return new Promise((resolve, reject) => {
    const late = (): void => {
      const message = `no answer within ${timeoutMs} ms: it may have run, or still runs`;
      const hint = "ask again with the same call id to learn what became of it";
      reject(MoonportError.of("outcome_unknown", message, { ...named, hint, details: { callId: named.callId } }));
    };
    const timer = timers.after(timeoutMs + LAST_WORD_MS, late);
    start()
      .then(resolve, reject)
      .finally(() => timer.cancel());
  });
}
