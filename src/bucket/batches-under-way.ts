/**
 * The batches that a thread of the embedded bucket has been given and has not answered, and when it is given another.
 *
 * A thread that has little to do gets what there is at once. While it works, what arrives gathers: the more share a
 * transaction, the cheaper each is. A crowd need not wait for an answer, though. It is made in one long step, in which no
 * answer can be heard, and the thread would have nothing to do until its end: then both take turns where they could work side
 * by side (measured: 1.2 times as many writes to a thousand objects at 256 in flight).
 *
 * The bounds are for a thread that hangs, which can pile up no more, and for the answers of reads, which stand in memory.
 */

/** As many leave whenever something waits. */
const AT_ONCE = 2;
/** Further ones hold at least so many requests. */
const CROWD_REQUESTS = 32;
const BATCHES_MAX = 16;
const REQUESTS_MAX = 2_048;
const BYTES_MAX = 16 * 1024 * 1024;

export interface SizedBatch {
  readonly requests: number;
  readonly bytes: number;
}

export class BatchesUnderWay<B extends SizedBatch> {
  readonly #batches = new Map<number, B>();
  #requests = 0;
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#batches.size === 0;
  }

  /** @param waiting requests that no batch has taken */
  mayLeave(waiting: number): boolean {
    const { size } = this.#batches;
    if (waiting === 0 || this.#requests >= REQUESTS_MAX || this.#bytes >= BYTES_MAX) return false;
    return size < AT_ONCE || (size < BATCHES_MAX && waiting >= CROWD_REQUESTS);
  }

  get(number: number): B | undefined {
    return this.#batches.get(number);
  }

  add(number: number, batch: B): void {
    this.#batches.set(number, batch);
    this.#requests += batch.requests;
    this.#bytes += batch.bytes;
  }

  delete(number: number): void {
    const batch = this.#batches.get(number);
    if (batch === undefined) return;
    this.#requests -= batch.requests;
    this.#bytes -= batch.bytes;
    this.#batches.delete(number);
  }

  /** The thread is gone. @returns what it had */
  takeAll(): B[] {
    const batches = [...this.#batches.values()];
    this.#batches.clear();
    this.#requests = 0;
    this.#bytes = 0;
    return batches;
  }
}
