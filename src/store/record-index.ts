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
  /** Print and offset of each slot, side by side: what one look needs comes into the processor together. */
  #table = new Int32Array(0);
  #slots = 0;
  #base = 0;
  /** Slots that are not empty, those of forgotten records too. */
  #used = 0;
  #forgottenThrough = 0;

  /** Slots there are, which is what it costs. */
  get slots(): number {
    return this.#slots;
  }

  add(print: number, number: number): void {
    // Three quarters full, chains of slots grow long.
    if (this.#used * 4 >= this.#slots * 3) this.#move(number);
    this.#put(print, number - this.#base);
  }

  /** What `look` finds at one of the numbers that stand under the print; undefined when there is none, or it finds nothing. */
  find<T>(print: number, look: (number: number) => T | undefined): T | undefined {
    const mask = this.#slots - 1;
    if (mask < 0) return undefined;
    for (let slot = print & mask; this.#offset(slot) !== 0; slot = (slot + 1) & mask) {
      if (this.#table[slot * 2] !== print) continue;
      const number = this.#base + this.#offset(slot);
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
    const left: { readonly print: number; readonly number: number }[] = [];
    for (let slot = 0; slot < this.#slots; slot++) {
      const number = this.#base + this.#offset(slot);
      if (this.#offset(slot) === 0 || number <= this.#forgottenThrough) continue;
      left.push({ print: this.#table[slot * 2] as number, number });
    }
    this.#slots = SLOTS_MIN;
    while (this.#slots * 5 < left.length * 8) this.#slots *= 2;
    this.#table = new Int32Array(this.#slots * 2);
    this.#base = nextNumber - BASE_DISTANCE;
    this.#used = 0;
    for (const { print, number } of left) this.#put(print, number - this.#base);
  }

  #put(print: number, offset: number): void {
    const mask = this.#slots - 1;
    let slot = print & mask;
    while (this.#offset(slot) !== 0) slot = (slot + 1) & mask;
    this.#table[slot * 2] = print;
    this.#table[slot * 2 + 1] = offset;
    this.#used++;
  }

  #offset(slot: number): number {
    return this.#table[slot * 2 + 1] as number;
  }
}
