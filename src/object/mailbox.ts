/**
 * The bounded queue of one object's waiting work, in arrival order. Taking from it costs the same however long it is.
 *
 * What has waited too long, or for nobody, is answered where it stands and leaves its place to others: its turn never comes.
 * It has run nothing, so its answer tells nothing of the object and passes no gate.
 * Deadlines are kept by {@link Deadlines}; who has gone is found whenever the queue is looked through: at a deadline, when it
 * is full, or when a door says so.
 */
import { MoonportError } from "../errors.js";
import { type Deadlines, LOOK_STEP_MS, type Watch } from "../world/deadlines.js";

/** What may wait. */
export interface Waiting {
  /** Monotonic; it waits as long as it takes without. */
  readonly expiresMs?: number;
  reject(error: MoonportError): void;
}

export interface MailboxOptions<T> {
  readonly object: string;
  readonly max: number;
  readonly deadlines: Deadlines;
  /** Why it is not to wait any longer. Never before its `expiresMs` for the time it waits. */
  refusal(item: T, nowMs: number): MoonportError | undefined;
}

export class Mailbox<T extends Waiting> {
  /** Told by doors: somebody whose work may wait here has gone. */
  readonly callerGone: () => void;
  readonly #options: MailboxOptions<T>;
  readonly #watch: Watch;
  #items: (T | undefined)[] = [];
  #head = 0;
  /** A full queue is looked through for every refused call only if it was not just now. */
  #fullLookFromMs = Number.NEGATIVE_INFINITY;

  constructor(options: MailboxOptions<T>) {
    this.#options = options;
    this.#watch = options.deadlines.watch((nowMs) => this.#look(nowMs));
    this.callerGone = () => {
      if (this.size > 0) this.#watch.lookAfter(this.#watch.nowMs);
    };
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  /** @throws MoonportError `mailbox_full`: nothing is dropped silently */
  put(item: T): void {
    const { object, max } = this.#options;
    if (this.size >= max && !this.#findsRoom()) {
      throw MoonportError.of("mailbox_full", `${object} has ${this.size} calls waiting`, {
        object,
        hint: "try again shortly, or spread the load over more keys",
        retryAfterMs: 1_000,
      });
    }
    this.#items.push(item);
    const { expiresMs } = item;
    if (expiresMs !== undefined && expiresMs < this.#watch.dueMs) this.#watch.lookAfter(expiresMs);
  }

  /**
   * The next whose turn has come. What waited too long until now is answered on the way.
   * @param isWanted otherwise it stays where it is, and nothing is taken
   */
  take<Wanted extends T = T>(nowMs: number, isWanted?: (item: T) => item is Wanted): Wanted | undefined {
    for (;;) {
      const item = this.#items[this.#head];
      if (item === undefined) return undefined;
      const error = this.#options.refusal(item, nowMs);
      if (error === undefined && isWanted?.(item) === false) return undefined;
      this.#shift();
      if (error === undefined) return item as Wanted;
      item.reject(error);
    }
  }

  takeAll(): T[] {
    const all = this.#items.slice(this.#head) as T[];
    this.#items = [];
    this.#head = 0;
    return all;
  }

  /** The object leaves memory, its queue empty: nothing keeps it there. */
  close(): void {
    this.#watch.cancel();
  }

  #shift(): void {
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length || this.#head >= 1_024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }

  #findsRoom(): boolean {
    const { nowMs } = this.#watch;
    if (nowMs < this.#fullLookFromMs) return false;
    this.#fullLookFromMs = nowMs + LOOK_STEP_MS;
    this.#look(nowMs);
    return this.size < this.#options.max;
  }

  #look(nowMs: number): number {
    const { refusal } = this.#options;
    const refused: (readonly [T, MoonportError])[] = [];
    const kept: T[] = [];
    let earliestMs = Number.POSITIVE_INFINITY;
    for (let at = this.#head; at < this.#items.length; at++) {
      const item = this.#items[at] as T;
      const error = refusal(item, nowMs);
      if (error === undefined) {
        kept.push(item);
        earliestMs = Math.min(earliestMs, item.expiresMs ?? earliestMs);
      } else refused.push([item, error]);
    }
    if (refused.length > 0) {
      this.#items = kept;
      this.#head = 0;
    }
    // Last, with the queue in order again: whoever hears of it may put something into it.
    for (const [item, error] of refused) item.reject(error);
    return earliestMs;
  }
}
