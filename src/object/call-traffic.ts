/**
 * Whether somebody who calls is alone with the node: then a bucket may write at once what else it would leave to its thread
 * (bucket/lone-writer.ts), and holds up nobody.
 */

/** His own before, and one that he reads with in between. */
const ENDED_OF_ONE = 2;
/** Two who take turns are alone at times, and not for so many calls in a row. */
const ALONE_FOR = 4;

export class CallTraffic {
  #open = 0;
  #endedSince = 0;
  #begunAlone = 0;

  begun(): void {
    this.#open++;
    this.#begunAlone = this.#open === 1 ? this.#begunAlone + 1 : 0;
  }

  ended(): void {
    this.#open--;
    this.#endedSince++;
  }

  /** Whether no other call is open, the last ones did not overlap, and hardly one has ended since this was last asked. */
  isLone(): boolean {
    const endedSince = this.#endedSince;
    this.#endedSince = 0;
    return this.#open <= 1 && this.#begunAlone >= ALONE_FOR && endedSince <= ENDED_OF_ONE;
  }
}
