/**
 * What a resident object remembers of timers that took their transaction along. In memory alone: of such a transaction nothing
 * stays in the file, so the timer would be due again at once, for ever, and what is due with it would never run.
 *
 * - Where it is certain which timer it was, its failure is recorded before any other timer runs, in a transaction of its own: it
 *   stays recorded should the next one do the same.
 * - Where it is not (a full-text index writes what it has gathered only with a later savepoint or COMMIT), timers run one at a
 *   time, sharing their transaction with nothing, until none is due. Then it is certain.
 */
import type { MoonportError } from "../errors.js";
import type { RunningTimer } from "./work.js";

export interface FailedTimer {
  readonly run: RunningTimer;
  readonly error: MoonportError;
}

export class TimerFaults {
  #unrecorded: FailedTimer | undefined;
  #isSearching = false;

  /** The one to be recorded. */
  get unrecorded(): FailedTimer | undefined {
    return this.#unrecorded;
  }

  /** Whether timers share their transaction with nothing. */
  get isWary(): boolean {
    return this.#isSearching || this.#unrecorded !== undefined;
  }

  /** @returns whether that is news: what is due can be run again, and will come further */
  doomed(failed: FailedTimer): boolean {
    const isNews = this.#unrecorded === undefined;
    this.#unrecorded = failed;
    return isNews;
  }

  /** One of several calls took the transaction along, timers among them. @returns as {@link doomed} */
  suspected(): boolean {
    const isNews = !this.#isSearching;
    this.#isSearching = true;
    return isNews;
  }

  /** The failure is committed, or is none of a timer that is still set. */
  recorded(): void {
    this.#unrecorded = undefined;
  }

  /** All that were due have run. */
  cleared(): void {
    this.#isSearching = false;
  }
}
