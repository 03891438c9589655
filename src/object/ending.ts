/**
 * The end of an object that was destroyed: its last messages leave, then its tombstone lands, and nothing runs until then. Its
 * file changes no more, so which messages have left is remembered here.
 */
import type { StoredMessage } from "../store/outbox.js";
import { deferred } from "../world/deferred.js";
import type { OpenObject } from "./open-object.js";

export class Ending {
  readonly open: OpenObject;
  readonly #reached = deferred();
  readonly #left = new Set<number>();

  constructor(open: OpenObject) {
    this.open = open;
  }

  /** The last flight is under way, or will be once the messages have left. */
  begin(): void {
    if (!this.open.isDestroyed) this.open.end();
    else if (this.#messagesAtEnd === 0) this.open.endAfterMessages();
  }

  /** Resolves when nothing of the object is left, or its residency has ended. */
  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  closed(): void {
    this.#reached.resolve();
  }

  /** Those that have not left, in their order. */
  messages(limit: number): readonly StoredMessage[] {
    return this.open.tables.outbox
      .read(0, limit + this.#left.size)
      .filter(({ number }) => !this.#left.has(number))
      .slice(0, limit);
  }

  messagesLeft(numbers: readonly number[]): void {
    const isLast = this.#left.size < this.#messagesAtEnd;
    for (const number of numbers) this.#left.add(number);
    if (isLast && this.#left.size >= this.#messagesAtEnd) this.open.endAfterMessages();
  }

  get #messagesAtEnd(): number {
    return this.open.tables.outbox.count;
  }
}
