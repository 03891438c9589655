/**
 * Where objects live, as far as answers have told: a guess for each, which costs a detour when it is wrong and nothing else.
 * Bounded; the longest unused is forgotten first.
 */
export class Places {
  readonly #placesMax: number;
  readonly #urls = new Map<string, string>();

  constructor(placesMax: number) {
    this.#placesMax = placesMax;
  }

  get size(): number {
    return this.#urls.size;
  }

  of(object: string): string | undefined {
    const url = this.#urls.get(object);
    if (url !== undefined) this.learn(object, url);
    return url;
  }

  learn(object: string, url: string): void {
    this.#urls.delete(object);
    this.#urls.set(object, url);
    if (this.#urls.size <= this.#placesMax) return;
    const [oldest] = this.#urls.keys();
    if (oldest !== undefined) this.#urls.delete(oldest);
  }

  forget(object: string): void {
    this.#urls.delete(object);
  }
}
