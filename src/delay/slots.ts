/** How much a node may have under way at once, shared by its shards. Who finds none free is called when there are some. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(max: number) {
    this.#free = max;
  }

  /** Takes up to `wanted`. @returns how many it took; with none, `whenFree` is called once some are free */
  take(wanted: number, whenFree: () => void): number {
    const taken = Math.min(wanted, this.#free);
    this.#free -= taken;
    if (taken === 0 && wanted > 0) this.#waiting.add(whenFree);
    return taken;
  }

  give(count: number): void {
    if (count === 0) return;
    this.#free += count;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const tell of waiting) tell();
  }
}
