/** The states found so far, by 64 bits of hash, numbered in order of finding; each with the state it was found from. */

export class SeenStates {
  #table = new Int32Array(1 << 16).fill(-1);
  #low = new Uint32Array(1 << 15);
  #high = new Uint32Array(1 << 15);
  #parents = new Int32Array(1 << 15);
  size = 0;

  /** @returns the new state's number, or -1 when it was seen before */
  add(low: number, high: number, parent: number): number {
    const mask = this.#table.length - 1;
    let at = low & mask;
    for (;;) {
      const found = this.#table[at] as number;
      if (found < 0) break;
      if (this.#low[found] === low && this.#high[found] === high) return -1;
      at = (at + 1) & mask;
    }
    const number = this.size++;
    this.#table[at] = number;
    if (number >= this.#low.length) this.#widen();
    this.#low[number] = low;
    this.#high[number] = high;
    this.#parents[number] = parent;
    if (this.size * 2 > this.#table.length) this.#rehash();
    return number;
  }

  isNumbered(number: number, low: number, high: number): boolean {
    return this.#low[number] === low && this.#high[number] === high;
  }

  /** Numbers from the first state to this one. */
  pathTo(number: number): number[] {
    const path: number[] = [];
    for (let at = number; at >= 0; at = this.#parents[at] as number) path.push(at);
    return path.reverse();
  }

  #widen(): void {
    const length = this.#low.length * 2;
    const widened = <T extends Uint32Array | Int32Array>(wider: T, old: T): T => {
      wider.set(old);
      return wider;
    };
    this.#low = widened(new Uint32Array(length), this.#low);
    this.#high = widened(new Uint32Array(length), this.#high);
    this.#parents = widened(new Int32Array(length), this.#parents);
  }

  #rehash(): void {
    const table = new Int32Array(this.#table.length * 2).fill(-1);
    const mask = table.length - 1;
    for (let number = 0; number < this.size; number++) {
      let at = (this.#low[number] as number) & mask;
      while ((table[at] as number) >= 0) at = (at + 1) & mask;
      table[at] = number;
    }
    this.#table = table;
  }
}
