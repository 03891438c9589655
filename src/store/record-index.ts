/**
 * Where records stand by the print of their ids: an open-addressed table in memory, eight bytes a slot, at most some sixteen
 * bytes a record.
 *
 * It only ever says where to look: a print that two ids share leads to both, and whoever asks compares. Records are forgotten by
 * their number, the oldest first, which costs nothing until the table is full and what is left of it moves to another.
 */

/** A power of two, as every size of the table. */
const SLOTS_MIN = 32;
/** Numbers stand as offsets to a base this far below the first: above 0, which is an empty slot, whichever way they go on. */
const BASE_DISTANCE = 2 ** 30;

export class RecordIndex {
  #prints: Int32Array = new Int32Array(0);
  #offsets: Int32Array = new Int32Array(0);
  #base = 0;
  /** Slots that are not empty, those of forgotten records too. */
  #used = 0;
  #forgottenThrough = 0;

  /** Slots there are, which is what it costs. */
  get slots(): number {
    return this.#prints.length;
  }

  add(print: number, number: number): void {
    // Three quarters full, chains of slots grow long.
    if (this.#used >= (this.#prints.length / 4) * 3) this.#move(number);
    this.#put(print, number - this.#base);
  }

  /** What `look` finds at one of the numbers that stand under the print; undefined when there is none, or it finds nothing. */
  find<T>(print: number, look: (number: number) => T | undefined): T | undefined {
    const mask = this.#prints.length - 1;
    if (mask < 0) return undefined;
    for (let slot = print & mask; this.#offsets[slot] !== 0; slot = (slot + 1) & mask) {
      if (this.#prints[slot] !== print) continue;
      const number = this.#base + (this.#offsets[slot] as number);
      const found = number > this.#forgottenThrough ? look(number) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Records up to this number are no more. */
  forgetThrough(number: number): void {
    this.#forgottenThrough = number;
  }

  /** To a table in which what is left fills five eighths at most, so that the next move is far. */
  #move(nextNumber: number): void {
    const prints = this.#prints;
    const offsets = this.#offsets;
    const oldBase = this.#base;
    const isLeft = (slot: number): boolean =>
      offsets[slot] !== 0 && oldBase + (offsets[slot] as number) > this.#forgottenThrough;
    let left = 0;
    for (let slot = 0; slot < prints.length; slot++) if (isLeft(slot)) left++;
    let slots = SLOTS_MIN;
    while (slots * 5 < left * 8) slots *= 2;
    this.#prints = new Int32Array(slots);
    this.#offsets = new Int32Array(slots);
    this.#base = nextNumber - BASE_DISTANCE;
    this.#used = 0;
    for (let slot = 0; slot < prints.length; slot++) {
      if (isLeft(slot)) this.#put(prints[slot] as number, oldBase + (offsets[slot] as number) - this.#base);
    }
  }

  #put(print: number, offset: number): void {
    const mask = this.#prints.length - 1;
    let slot = print & mask;
    while (this.#offsets[slot] !== 0) slot = (slot + 1) & mask;
    this.#prints[slot] = print;
    this.#offsets[slot] = offset;
    this.#used++;
  }
}
