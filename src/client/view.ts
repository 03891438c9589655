/**
 * A live view of a reading method, as a loop reads it: its value now, and each time it changed. A reader that is slower than
 * the changes gets the newest value only, so there is nothing to be behind of.
 */
import { asMoonportError, type MoonportError } from "../errors.js";
import { ItemQueue } from "../item-queue.js";
import type { ReadingCall } from "../realtime/contract.js";
import type { PlainValue } from "../values.js";
import type { ClientFrame, FrameTarget } from "../wire/frames.js";
import { errorOf } from "../wire/problem.js";
import { wireJson } from "../wire/wire-json.js";
import type { Watch, WatchEntry, Watches, WatchFrame } from "./watch.js";

/** What a `for await` loop reads. Leaving the loop ends the view. */
export interface View<Value> extends AsyncIterableIterator<Value, undefined> {
  /** Ends it; a loop that waits is left. Idempotent. */
  close(): void;
}

export interface LiveViewRequest {
  readonly target: FrameTarget;
  readonly reading: ReadingCall;
  /** Told when the method failed; the view goes on then, and comes back with the next change. */
  readonly onError: ((error: MoonportError) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

export class LiveView implements View<PlainValue>, Watch {
  readonly #request: LiveViewRequest;
  readonly #queue = new ItemQueue<PlainValue>(1, () => this.#entry.close());
  readonly #entry: WatchEntry;
  /** The last value as text: after a reconnect the node sends it again, changed or not. */
  #last: string | undefined;

  constructor(request: LiveViewRequest, watches: Watches) {
    this.#request = request;
    this.#entry = watches.add(this, request.signal);
    if (request.signal?.aborted) this.close();
  }

  next(): Promise<IteratorResult<PlainValue, undefined>> {
    return this.#queue.next();
  }

  return(): Promise<IteratorResult<PlainValue, undefined>> {
    return this.#queue.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  close(): void {
    this.#queue.close();
  }

  request(id: number): ClientFrame {
    const { target, reading } = this.#request;
    return { type: "view", id, ...target, method: reading.method, args: reading.args };
  }

  take(frame: Exclude<WatchFrame, { type: "error" | "ended" }>): void {
    if (frame.type === "view_failed") {
      this.#failed(errorOf(frame.error) ?? asMoonportError("the node sent an error that is none"));
    }
    if (frame.type !== "view") return;
    const text = wireJson(frame.value);
    if (text === this.#last) return;
    this.#last = text;
    this.#queue.replace(frame.value);
  }

  fail(error: MoonportError): void {
    this.#queue.end(error);
  }

  destroyed(): void {
    this.#queue.end();
  }

  /** What the node may get over by itself ends nothing; what the class refuses ends the loop unless it is looked after. */
  #failed(error: MoonportError): void {
    const { onError } = this.#request;
    if (onError !== undefined) {
      // Whoever is told of it is also told that it is over, were it with the same value as before.
      this.#last = undefined;
      // In a turn of its own: what it throws is not the connection's.
      queueMicrotask(() => onError(error));
    } else if (!error.retryable) {
      this.#entry.close();
      this.#queue.end(error);
    }
  }
}
