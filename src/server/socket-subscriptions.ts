/**
 * The subscriptions and live views of one WebSocket: what the hub delivers, as frames.
 *
 * An event is encoded once for each codec, however many subscribers it has; a subscription adds its number. A socket whose
 * buffer is full takes no more live events: its subscriptions end, and the socket with them. A snapshot waits for room
 * instead. Snapshots are asked for only while they are likely to fit, so that few of them wait in memory.
 */
import type { Principal } from "../auth/contract.js";
import type { LastingRight } from "../auth/lasting-right.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { Delivery, EndReason, LiveEvent, Sink, Subscription } from "../realtime/contract.js";
import type { FrameCodec } from "../wire/codec.js";
import type { ServerFrame } from "../wire/frames.js";
import { problemOf } from "../wire/problem.js";
import { deferred } from "../world/deferred.js";
import type { SocketWriter } from "./socket-writer.js";

export interface SocketSubscriptionsOptions {
  readonly codec: FrameCodec;
  readonly writer: SocketWriter;
  readonly subscriptionsMax: number;
  readonly bufferBytesMax: number;
  send(frame: ServerFrame): void;
  /** A subscriber did not keep up. */
  slow(): void;
}

/** Until one is known, a snapshot is taken for this part of the buffer. */
const SNAPSHOT_GUESS = 1 / 16;
/** Of the largest of the last snapshots, what is kept of it as the guess for the next, each time. */
const SNAPSHOT_GUESS_DECAY = 0.9;

export class SocketSubscriptions {
  readonly #options: SocketSubscriptionsOptions;
  readonly #all = new Map<number, SocketSubscription>();
  /** For their snapshots, in the order they came. */
  readonly #waiting = new Set<SocketSubscription>();
  /** In {@link #all}, or given up while the hub prepares them: that goes on until it is done. */
  #taken = 0;
  /** Snapshots that were asked for and are neither told yet nor, where nobody waits for them any longer, done with. */
  #snapshots = 0;
  #snapshotBytesGuess: number;
  /** Whether {@link #beginWaiting} will be called back when something was taken. */
  #isLooking = false;

  constructor(options: SocketSubscriptionsOptions) {
    this.#options = options;
    this.#snapshotBytesGuess = options.bufferBytesMax * SNAPSHOT_GUESS;
  }

  get size(): number {
    return this.#all.size;
  }

  has(id: number): boolean {
    return this.#all.has(id);
  }

  /**
   * @param right what it rests on
   * @param hasSnapshot whether it begins with one
   * @throws MoonportError `socket_full`
   */
  begin(id: number, right: LastingRight, hasSnapshot: boolean, subscribe: (sink: Sink) => Promise<Subscription>): void {
    const { subscriptionsMax } = this.#options;
    if (this.#taken >= subscriptionsMax) {
      throw MoonportError.of("socket_full", `the socket has ${subscriptionsMax} subscriptions and views`, {
        hint: "unsubscribe from what is not looked at, or open another socket",
      });
    }
    const forget = (): void => {
      this.#all.delete(id);
      this.#waiting.delete(subscription);
    };
    const over = (): void => {
      this.#taken--;
    };
    const subscription = new SocketSubscription({ id, right, subscribe, forget, over }, this.#options);
    this.#all.set(id, subscription);
    this.#taken++;
    if (!hasSnapshot) return void subscription.begin();
    this.#waiting.add(subscription);
    this.#beginWaiting();
  }

  end(id: number): void {
    this.#all.get(id)?.close();
  }

  /** The node is stopping: each is told from where to go on elsewhere, or that it does not stand yet. */
  stop(refusal: MoonportError): void {
    for (const subscription of this.#all.values()) subscription.stop(refusal);
  }

  /** Tokens have changed: ends what rests on no right any more, one a step. */
  *renew(now: Principal): Generator<void> {
    for (const subscription of [...this.#all.values()]) {
      subscription.renew(now);
      yield;
    }
  }

  closeAll(): void {
    for (const subscription of this.#all.values()) subscription.close();
  }

  #beginWaiting(): void {
    for (const subscription of this.#waiting) {
      if (!this.#hasRoom()) break;
      this.#waiting.delete(subscription);
      void this.#beginSnapshot(subscription);
    }
    const { writer } = this.#options;
    if (this.#waiting.size === 0 || this.#isLooking || writer.bufferedBytes === 0) return;
    this.#isLooking = true;
    writer.onTaken(() => {
      this.#isLooking = false;
      this.#beginWaiting();
    });
  }

  async #beginSnapshot(subscription: SocketSubscription): Promise<void> {
    this.#snapshots++;
    const bytes = await subscription.begin();
    this.#snapshots--;
    // What was never told says nothing of how large the next will be.
    if (bytes > 0) this.#snapshotBytesGuess = Math.max(bytes, this.#snapshotBytesGuess * SNAPSHOT_GUESS_DECAY);
    this.#beginWaiting();
  }

  #hasRoom(): boolean {
    const { writer, bufferBytesMax } = this.#options;
    return writer.bufferedBytes + this.#snapshots * this.#snapshotBytesGuess < bufferBytesMax;
  }
}

interface SocketSubscriptionParts {
  readonly id: number;
  readonly right: LastingRight;
  readonly subscribe: (sink: Sink) => Promise<Subscription>;
  /** It is closed. */
  readonly forget: () => void;
  /** It is closed, and the hub does nothing for it any more. */
  readonly over: () => void;
}

class SocketSubscription implements Sink {
  readonly #id: number;
  readonly #right: LastingRight;
  readonly #options: SocketSubscriptionsOptions;
  readonly #subscribe: (sink: Sink) => Promise<Subscription>;
  readonly #forget: () => void;
  readonly #over: () => void;
  /** Of an event's frame. */
  readonly #head: Uint8Array;
  /** Bytes of its first frame; 0 where there will be none. */
  readonly #begun = deferred<number>();
  #hasBegun = false;
  /** The hub was asked and has not answered. */
  #isPreparing = false;
  #handle: Subscription | undefined;
  #isClosed = false;

  constructor({ id, right, subscribe, forget, over }: SocketSubscriptionParts, options: SocketSubscriptionsOptions) {
    this.#id = id;
    this.#right = right;
    this.#options = options;
    this.#subscribe = subscribe;
    this.#forget = forget;
    this.#over = over;
    this.#head = options.codec.eventHead(id);
  }

  /** Resolves with the bytes of its first frame, once that is told, or never will be and the hub is done with it. */
  begin(): Promise<number> {
    if (this.#isClosed) return Promise.resolve(0);
    this.#isPreparing = true;
    this.#subscribe(this).then(
      (handle) => this.#answered(() => this.#stands(handle)),
      (error: unknown) => this.#answered(() => this.refused(asMoonportError(error))),
    );
    return this.#begun.promise;
  }

  #answered(take: () => void): void {
    this.#isPreparing = false;
    const wasClosed = this.#isClosed;
    take();
    if (wasClosed) this.#ended();
  }

  #stands(handle: Subscription): void {
    if (this.#isClosed) handle.close();
    else this.#handle = handle;
  }

  refused(error: MoonportError): void {
    if (this.#isClosed) return;
    this.#options.send({ type: "error", id: this.#id, error: problemOf(error) });
    this.close();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#forget();
    this.#handle?.close();
    if (!this.#isPreparing) this.#ended();
  }

  #ended(): void {
    this.#begun.resolve(0);
    this.#over();
  }

  renew(now: Principal): void {
    if (this.#isClosed) return;
    try {
      this.#right.renew(now);
    } catch (error) {
      this.refused(asMoonportError(error));
    }
  }

  stop(refusal: MoonportError): void {
    // Who was told nothing, a snapshot that waits least of all, would go on from where it never stood.
    if (this.#handle === undefined || !this.#hasBegun) this.refused(refusal);
    else this.#endWith("stopping", this.#handle.after);
  }

  #endWith(reason: EndReason, after: number): void {
    this.#options.send({ type: "ended", id: this.#id, reason, after });
    this.close();
  }

  // What the hub asks and tells

  isFull(): boolean {
    return this.#options.writer.bufferedBytes >= this.#options.bufferBytesMax;
  }

  room(): Promise<void> | undefined {
    const { writer, bufferBytesMax } = this.#options;
    if (this.#isClosed || writer.bufferedBytes < bufferBytesMax / 2) return undefined;
    return new Promise((resolve) => {
      const look = (): void => {
        if (this.#isClosed || writer.bufferedBytes < bufferBytesMax / 2) resolve();
        else writer.onTaken(look);
      };
      writer.onTaken(look);
    });
  }

  deliver(delivery: Delivery): void {
    if (this.#isClosed) return;
    if (this.#hasBegun) return this.#tell(delivery);
    if (delivery.kind === "ended") return this.refused(endedUnbegun(delivery));
    this.#hasBegun = true;
    const { writer } = this.#options;
    const before = writer.bufferedBytes;
    this.#tell(delivery);
    this.#begun.resolve(writer.bufferedBytes - before);
  }

  #tell(delivery: Delivery): void {
    const id = this.#id;
    switch (delivery.kind) {
      case "event":
        return this.#event(delivery.event);
      case "subscribed":
        return this.#options.send({ type: "subscribed", id, after: delivery.after });
      case "snapshot":
        return this.#options.send({ type: "snapshot", id, value: delivery.value, number: delivery.number });
      case "gap":
        return this.#options.send({ type: "gap", id, from: delivery.from, first: delivery.first });
      case "view":
        return this.#options.send({ type: "view", id, value: delivery.value, seq: delivery.seq });
      case "view_failed":
        return this.#options.send({ type: "view_failed", id, error: problemOf(asMoonportError(delivery.error)) });
      case "ended":
        this.#endWith(delivery.reason, delivery.after);
        if (delivery.reason === "slow") this.#options.slow();
    }
  }

  #event(event: LiveEvent): void {
    const { codec, writer } = this.#options;
    let body = event.encoded.get(codec.protocol);
    if (typeof body !== "object") {
      body = codec.eventBody(event);
      event.encoded.set(codec.protocol, body);
    }
    writer.send(this.#head, body);
  }
}

/** What ended before it began is asked for again as it was. */
function endedUnbegun({ reason, error }: Extract<Delivery, { kind: "ended" }>): MoonportError {
  if (error !== undefined) return asMoonportError(error);
  return MoonportError.of("node_stopping", `the subscription ended before it began: ${reason}`, {
    retryAfterMs: 1_000,
  });
}
