/** The bounded queue of one object's waiting work, in arrival order. Taking from it costs the same however long it is. */
import { MoonportError } from "../errors.js";

export class Mailbox<T> {
  readonly #object: string;
  readonly #max: number;
  #items: (T | undefined)[] = [];
  #head = 0;

  constructor(object: string, max: number) {
    this.#object = object;
    this.#max = max;
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  /** @throws MoonportError `mailbox_full`: nothing is dropped silently */
  put(item: T): void {
    if (this.size >= this.#max) {
      throw MoonportError.of("mailbox_full", `${this.#object} has ${this.size} calls waiting`, {
        object: this.#object,
        hint: "try again shortly, or spread the load over more keys",
        retryAfterMs: 1_000,
      });
    }
    this.#items.push(item);
  }

  take(): T | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length || this.#head >= 1_024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  takeAll(): T[] {
    const all = this.#items.slice(this.#head) as T[];
    this.#items = [];
    this.#head = 0;
    return all;
  }
}
