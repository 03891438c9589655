/**
 * Streams between nodes, both ends. The reader grants items, one window of them at first and then as many as it has read; the
 * side that serves makes none beyond that. So a reader that stops holds up its own stream and nothing else on the link.
 */
import { MoonportError } from "../errors.js";
import { ItemQueue } from "../item-queue.js";
import { deferred } from "../world/deferred.js";

/** What a reader says to the other end. */
export interface StreamControl {
  grant(items: number): void;
  leave(): void;
}

/** The end that reads, once. The stream is asked for at the first read. */
export class StreamReader implements AsyncIterableIterator<unknown, undefined> {
  readonly #window: number;
  readonly #open: (reader: StreamReader) => StreamControl | undefined;
  readonly #queue: ItemQueue<unknown>;
  #state: { readonly kind: "new" } | { readonly kind: "open"; readonly control: StreamControl | undefined } = NEW;
  /** Read, and not granted again yet. */
  #taken = 0;

  /** @param open asks for the stream; undefined when that failed, and the reader was told */
  constructor(window: number, open: (reader: StreamReader) => StreamControl | undefined) {
    this.#window = window;
    this.#open = open;
    this.#queue = new ItemQueue(window, () => this.#control?.leave());
  }

  /** From the other end. @throws MoonportError for more than was granted */
  item(value: unknown): void {
    if (this.#queue.isFull) throw MoonportError.of("bad_request", "a stream brought more than was granted");
    this.#queue.push(value);
  }

  /** What came before is still read. */
  end(error?: MoonportError): void {
    this.#queue.end(error);
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#state.kind === "new" && !this.#queue.isEnded) this.#state = { kind: "open", control: this.#open(this) };
    const result = await this.#queue.next();
    if (result.done !== true) this.#took();
    return result;
  }

  return(): Promise<IteratorResult<unknown, undefined>> {
    return this.#queue.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  get #control(): StreamControl | undefined {
    return this.#state.kind === "open" ? this.#state.control : undefined;
  }

  #took(): void {
    this.#taken += 1;
    if (this.#taken * 2 < this.#window || this.#queue.isEnded) return;
    this.#control?.grant(this.#taken);
    this.#taken = 0;
  }
}

const NEW = { kind: "new" } as const;

/** Where the serving end puts what it makes. */
export interface StreamSink {
  /** @throws MoonportError when it cannot travel */
  item(value: unknown): void;
  end(): void;
  failed(error: unknown): void;
  /** Resolves when there is room on the link; undefined when there is some now. */
  room(): Promise<void> | undefined;
}

/** The end that serves. */
export class ServedStream {
  readonly #iterator: AsyncIterator<unknown>;
  readonly #sink: StreamSink;
  #granted: number;
  #wake: (() => void) | undefined;
  #isLeft = false;

  constructor(iterator: AsyncIterator<unknown>, granted: number, sink: StreamSink) {
    this.#iterator = iterator;
    this.#granted = granted;
    this.#sink = sink;
  }

  /** Resolves when it is over; never throws. */
  async run(): Promise<void> {
    try {
      while (await this.#mayGoOn()) {
        const { done, value } = await this.#iterator.next();
        if (this.#isLeft) return;
        if (done === true) return this.#sink.end();
        this.#granted -= 1;
        this.#sink.item(value);
      }
    } catch (error) {
      if (this.#isLeft) return;
      this.#sink.failed(error);
      this.leave();
    }
  }

  grant(items: number): void {
    this.#granted += items;
    this.#wake?.();
  }

  /** Nobody reads any more. Idempotent. */
  leave(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#wake?.();
    void this.#leaveIterator();
  }

  /** At once, not when the next item is there: it may never be. */
  async #leaveIterator(): Promise<void> {
    try {
      await this.#iterator.return?.();
    } catch {
      // Nobody is left to be told.
    }
  }

  async #mayGoOn(): Promise<boolean> {
    while (!this.#isLeft && this.#granted <= 0) {
      const { promise, resolve } = deferred();
      this.#wake = resolve;
      await promise;
      this.#wake = undefined;
    }
    for (let room = this.#sink.room(); room !== undefined && !this.#isLeft; room = this.#sink.room()) await room;
    return !this.#isLeft;
  }
}
