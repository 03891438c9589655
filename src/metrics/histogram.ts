/**
 * How often a wait fell between which bounds: plain numbers, read when somebody asks. Recording costs some nanoseconds and makes
 * no garbage, so it may stand on the way of every call.
 */

/** Milliseconds. A hot write is answered within one or two; the gate gives up after ten thousand by default. */
export const WAIT_BOUNDS_MS = [
  0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000,
] as const;

const BOUNDS = Float64Array.from(WAIT_BOUNDS_MS);

export class WaitHistogram {
  /** What was at most each bound and above the one before; the last: above all of them. */
  readonly counts = new Float64Array(BOUNDS.length + 1);
  sumMs = 0;

  record(ms: number): void {
    let at = 0;
    while (at < BOUNDS.length && ms > (BOUNDS[at] as number)) at++;
    this.counts[at] = (this.counts[at] as number) + 1;
    this.sumMs += ms;
  }
}
