/**
 * Items on their way from whoever makes them to one `for await` loop: what subscriptions are read from, here and in the
 * client.
 *
 * The maker never waits; it asks `isFull` before it adds more, or waits for `room()`. What was added before the end is still
 * read, then the loop ends, or throws what ended it. Leaving the loop (`break`, `return`, a throw) closes the queue.
 */
export class ItemQueue<T> implements AsyncIterableIterator<T, undefined> {
  readonly #max: number;
  readonly #closed: () => void;
  #items: T[] = [];
  #state: { kind: "open" } | { kind: "ended"; error?: Error } = { kind: "open" };
  readonly #readers: { resolve(result: IteratorResult<T, undefined>): void; reject(error: Error): void }[] = [];
  #room: { promise: Promise<void>; resolve(): void } | undefined;

  /**
   * @param max items that make it full
   * @param closed called once when the reader leaves before the end
   */
  constructor(max: number, closed: () => void) {
    this.#max = max;
    this.#closed = closed;
  }

  get isFull(): boolean {
    return this.#items.length >= this.#max;
  }

  /** Nothing more is taken. */
  get isEnded(): boolean {
    return this.#state.kind === "ended";
  }

  /** Dropped when the queue has ended. */
  push(item: T): void {
    if (this.isEnded) return;
    const reader = this.#readers.shift();
    if (reader !== undefined) reader.resolve({ done: false, value: item });
    else this.#items.push(item);
  }

  /** As `push`, in place of everything not read yet: for values of which only the last one counts. */
  replace(item: T): void {
    if (!this.isEnded) this.#items = [];
    this.push(item);
  }

  /** The loop ends after what is there, by throwing if there is an error. Idempotent: the first end counts. */
  end(error?: Error): void {
    if (this.isEnded) return;
    this.#state = error === undefined ? { kind: "ended" } : { kind: "ended", error };
    for (const reader of this.#readers.splice(0)) this.#finish(reader);
    this.#makeRoom();
  }

  /** Resolves once half of it is free, or it has ended; undefined when there is room now. */
  room(): Promise<void> | undefined {
    if (!this.isFull || this.isEnded) return undefined;
    if (this.#room === undefined) {
      let resolve = (): void => {};
      const promise = new Promise<void>((settle) => {
        resolve = settle;
      });
      this.#room = { promise, resolve };
    }
    return this.#room.promise;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    return new Promise((resolve, reject) => {
      const reader = { resolve, reject };
      if (this.#items.length > 0) {
        resolve({ done: false, value: this.#items.shift() as T });
        if (this.#items.length * 2 <= this.#max) this.#makeRoom();
      } else if (this.isEnded) this.#finish(reader);
      else this.#readers.push(reader);
    });
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  /** Ends it for its reader, at once: what was not read is dropped. Idempotent. */
  close(): void {
    const wasOpen = !this.isEnded;
    this.#items = [];
    this.end();
    this.#state = { kind: "ended" };
    if (wasOpen) this.#closed();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** An error is thrown once; whoever asks again is told that it is over. */
  #finish(reader: { resolve(result: IteratorResult<T, undefined>): void; reject(error: Error): void }): void {
    const error = this.#state.kind === "ended" ? this.#state.error : undefined;
    this.#state = { kind: "ended" };
    if (error === undefined) reader.resolve({ done: true, value: undefined });
    else reader.reject(error);
  }

  #makeRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
