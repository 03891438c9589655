/**
 * The entries that a journal holds for one object: a run in order of seq, without a hole, as an immutable value.
 *
 * Values made from one another share one array, so that appending and dropping cost the same however long the run is: a
 * hot object's tail grows by thousands of entries between two writes of its manifest. Only the longest of those that share
 * may append in place; any other copies first.
 */
import { assert } from "../errors.js";

/** What continues an object at `afterSeq` and brings it to `toSeq`: seqs afterSeq + 1 to toSeq. */
export interface SeqRange {
  readonly afterSeq: number;
  readonly toSeq: number;
}

export class EntryRun<E extends SeqRange> {
  readonly #items: E[];
  readonly #start: number;
  readonly #end: number;

  private constructor(items: E[], start: number, end: number) {
    this.#items = items;
    this.#start = start;
    this.#end = end;
  }

  static of<E extends SeqRange>(...entries: readonly E[]): EntryRun<E> {
    return EntryRun.from(entries);
  }

  /** However many: as the arguments of a call they are bounded by the stack, and a tail is bounded by the journal alone. */
  static from<E extends SeqRange>(entries: Iterable<E>): EntryRun<E> {
    let run = new EntryRun<E>([], 0, 0);
    for (const entry of entries) run = run.appended(entry);
    return run;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  /** Where the run ends; undefined when it is empty. */
  get lastSeq(): number | undefined {
    return this.#start === this.#end ? undefined : this.#items[this.#end - 1]?.toSeq;
  }

  at(index: number): E {
    assert(index >= 0 && index < this.length, "an index within the run");
    return this.#items[this.#start + index] as E;
  }

  appended(entry: E): EntryRun<E> {
    const last = this.lastSeq ?? entry.afterSeq;
    assert(entry.afterSeq <= last && entry.toSeq > last, "an entry continues the run it is appended to");
    const isLongest = this.#items.length === this.#end;
    const items = isLongest ? this.#items : this.#items.slice(this.#start, this.#end);
    items.push(entry);
    return new EntryRun(items, isLongest ? this.#start : 0, items.length);
  }

  /** Without the entries that end at or below `seq`. One that reaches beyond stays whole. */
  droppedThrough(seq: number): EntryRun<E> {
    const start = this.#firstBeyond(seq);
    if (start === this.#start) return this;
    const kept = this.#end - start;
    if (start <= kept) return new EntryRun(this.#items, start, this.#end);
    return new EntryRun(this.#items.slice(start, this.#end), 0, kept);
  }

  *[Symbol.iterator](): Generator<E, void, undefined> {
    for (let index = this.#start; index < this.#end; index++) yield this.#items[index] as E;
  }

  /** Index of the first entry that ends beyond `seq`, by halving: entries' ends rise. */
  #firstBeyond(seq: number): number {
    let [low, high] = [this.#start, this.#end];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#items[middle] as E).toSeq <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
