/**
 * One subscription to an object's events, as a loop reads it. It knows the number it has come to, and asks from there again
 * after a loss: nothing is lost and nothing comes twice. What the node no longer kept is told as a gap.
 *
 * It holds a bounded number of items for its reader. When they are not read it asks the node to pause, and resumes by number
 * once half of them are; a reader that falls behind what the node keeps gets a gap, never a silent loss.
 */
import { MoonportError } from "../errors.js";
import { ItemQueue } from "../item-queue.js";
import type { ReadingCall, SubscribeFrom } from "../realtime/contract.js";
import type { PlainValue } from "../values.js";
import type { ClientFrame, FrameTarget } from "../wire/frames.js";
import type { Watch, WatchEntry, Watches, WatchFrame } from "./watch.js";

export type SubscriptionItem =
  /** `atMs`: wall clock of the call that emitted it, milliseconds. */
  | {
      readonly kind: "event";
      readonly number: number;
      readonly name: string;
      readonly data: PlainValue;
      readonly atMs: number;
    }
  /** The reading method's value, which contains everything up to event `number`. */
  | { readonly kind: "snapshot"; readonly value: PlainValue; readonly number: number }
  /**
   * The node no longer keeps the events `from` to `first - 1`; `first` is the next. Where both are a number that was read before,
   * the object counts lower than it did: what follows are other events.
   */
  | { readonly kind: "gap"; readonly from: number; readonly first: number }
  /** The object is gone; the last item. `after`: the number of its last event. */
  | { readonly kind: "destroyed"; readonly after: number };

/** What a `for await` loop reads. Leaving the loop ends the subscription. */
export interface Subscription extends AsyncIterableIterator<SubscriptionItem, undefined> {
  /** The number to resume after: of the last item that was read, or where it began; undefined until that is known. */
  readonly after: number | undefined;
  /** Resolves with the number it begins after, once the node has agreed; rejects when it refuses. */
  readonly ready: Promise<number>;
  /** Ends it; a loop that waits is left. Idempotent. */
  close(): void;
}

export interface SubscriptionRequest {
  readonly target: FrameTarget;
  readonly from: SubscribeFrom;
  readonly names: readonly string[] | undefined;
  readonly snapshotAfterGap: ReadingCall | undefined;
  readonly bufferMax: number;
  readonly signal: AbortSignal | undefined;
}

/** What is to be asked for next. */
type Position =
  | { readonly kind: "start" }
  | { readonly kind: "after"; readonly number: number }
  /** A gap was told, and the snapshot that stands for it has not come yet. */
  | { readonly kind: "snapshot_owed"; readonly reading: ReadingCall };

export class LiveSubscription implements Subscription, Watch {
  readonly ready: Promise<number>;
  readonly #request: SubscriptionRequest;
  readonly #queue: ItemQueue<SubscriptionItem>;
  readonly #entry: WatchEntry;
  #settleReady: { resolve(number: number): void; reject(error: MoonportError): void } | undefined;
  #position: Position = { kind: "start" };
  #after: number | undefined;

  constructor(request: SubscriptionRequest, watches: Watches) {
    this.#request = request;
    this.#after = request.from.kind === "after" ? request.from.number : undefined;
    this.#queue = new ItemQueue(request.bufferMax, () => this.#closed());
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    // Who does not look at `ready` learns of a refusal from the loop.
    this.ready.catch(() => {});
    this.#entry = watches.add(this, request.signal);
    if (request.signal?.aborted) this.close();
  }

  get after(): number | undefined {
    return this.#after;
  }

  async next(): Promise<IteratorResult<SubscriptionItem, undefined>> {
    const result = await this.#queue.next();
    if (!result.done) this.#after = numberOf(result.value);
    return result;
  }

  async return(): Promise<IteratorResult<SubscriptionItem, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  close(): void {
    this.#queue.close();
  }

  request(id: number): ClientFrame {
    const { target, names, snapshotAfterGap } = this.#request;
    return {
      type: "subscribe",
      id,
      ...target,
      from: this.#from(),
      ...(names !== undefined && { names }),
      ...(snapshotAfterGap !== undefined && { snapshotAfterGap }),
    };
  }

  take(frame: Exclude<WatchFrame, { type: "error" | "ended" }>): void {
    switch (frame.type) {
      case "subscribed":
        this.#countsFrom(frame.after);
        return this.#begun(frame.after);
      case "snapshot":
        this.#countsFrom(frame.number);
        this.#push({ kind: "snapshot", value: frame.value, number: frame.number });
        return this.#begun(frame.number);
      case "event": {
        if (this.#isPast(frame.number)) return;
        const { number, name, data, atMs } = frame;
        return this.#push({ kind: "event", number, name, data, atMs });
      }
      case "gap":
        if (this.#isPast(frame.first - 1)) return;
        return this.#gap(frame.from, frame.first);
    }
  }

  fail(error: MoonportError): void {
    this.#queue.end(error);
    this.#settleReady?.reject(error);
  }

  destroyed(after: number): void {
    this.#queue.push({ kind: "destroyed", after });
    this.#queue.end();
  }

  #closed(): void {
    this.#entry.close();
    this.#settleReady?.reject(MoonportError.of("caller_gone", "the subscription was closed before it began"));
  }

  #from(): SubscribeFrom {
    switch (this.#position.kind) {
      case "start":
        return this.#request.from;
      case "after":
        return this.#position;
      case "snapshot_owed":
        return { kind: "snapshot", reading: this.#position.reading };
    }
  }

  /** An object that counts lower than this has come, in a bucket of an earlier state, say, has not told of what comes next. */
  #countsFrom(number: number): void {
    if (this.#position.kind === "after" && number < this.#position.number) this.#gap(number + 1, number + 1);
  }

  #begun(after: number): void {
    if (this.#position.kind === "start") {
      this.#position = { kind: "after", number: after };
      this.#after = after;
    }
    this.#settleReady?.resolve(after);
    this.#settleReady = undefined;
  }

  #isPast(number: number): boolean {
    return this.#position.kind === "after" && number <= this.#position.number;
  }

  #gap(from: number, first: number): void {
    const reading = this.#request.snapshotAfterGap;
    this.#push({ kind: "gap", from, first });
    if (reading !== undefined) this.#position = { kind: "snapshot_owed", reading };
  }

  #push(item: SubscriptionItem): void {
    this.#position = { kind: "after", number: numberOf(item) };
    this.#queue.push(item);
    if (!this.#queue.isFull) return;
    this.#entry.pause();
    void this.#queue.room()?.then(() => this.#entry.resume());
  }
}

/** The last event that is dealt with once this item has been read. */
function numberOf(item: SubscriptionItem): number {
  switch (item.kind) {
    case "event":
    case "snapshot":
      return item.number;
    case "gap":
      return item.first - 1;
    case "destroyed":
      return item.after;
  }
}
