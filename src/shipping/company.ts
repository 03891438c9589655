/**
 * How long a flight waits for those whom the one before it has answered.
 *
 * Who is answered mostly calls again. A flight that left at the very landing of the one before would carry only those who came
 * too late for that one, and the answered would come too late for it: two crowds that take turns, each held up by the other's
 * flight, and twice the flights. So it waits until as many stand at the gate as before the landing. Then they are one crowd, a
 * landing leaves nobody behind, and nothing waits any more.
 *
 * The wait is short beside the flight that it saves, and where they do not come back it is not tried again for a while.
 */

/** Of the time that the last flight took. */
const WAIT_SHARE = 0.5;
/** Landings without a wait after one in vain. */
const LANDINGS_ALONE = 16;

export class Company {
  readonly #waitMaxMs: number;
  #aloneFor = 0;

  constructor(waitMaxMs: number) {
    this.#waitMaxMs = waitMaxMs;
  }

  /** A flight has landed and left others behind: how long the next one waits. 0: not at all. */
  waitMs(flightMs: number): number {
    if (this.#aloneFor === 0) return Math.min(flightMs * WAIT_SHARE, this.#waitMaxMs);
    this.#aloneFor--;
    return 0;
  }

  /** The time is up, and most of those that were waited for have not come. */
  missed(): void {
    this.#aloneFor = LANDINGS_ALONE;
  }
}
