/**
 * How long the main thread has been silent, counted so that a process which was stopped as a whole (SIGSTOP, a laptop that
 * slept) is not taken for one that hangs: the watching thread counts its own rounds, and a round in which it did not run
 * itself counts no more than a round that was a little late.
 */

/** A round may be late by this factor, on a machine with more to do than cores, and still count in full. */
const LATENESS = 2;

export class Silence {
  readonly #roundMs: number;
  #beats: number | undefined;
  #silentMs = 0;

  constructor(roundMs: number) {
    this.#roundMs = roundMs;
  }

  /**
   * After each round.
   * @param beats how often the main loop has come round in all
   * @param elapsedMs since the round before
   * @returns for how long it has been silent
   */
  after(beats: number, elapsedMs: number): number {
    const isSilent = beats === this.#beats;
    this.#beats = beats;
    this.#silentMs = isSilent ? this.#silentMs + Math.min(elapsedMs, this.#roundMs * LATENESS) : 0;
    return this.#silentMs;
  }
}

/** How often the main loop beats, and the watching thread looks: twenty times within the bound, at least twice a second. */
export function roundMsOf(stallMs: number): number {
  return Math.max(5, Math.min(500, Math.floor(stallMs / 20)));
}
