/**
 * The subscriptions and live views of one WebSocket: what the hub delivers, as frames.
 *
 * An event is encoded once for each codec, however many subscribers it has; a subscription adds its number. A socket whose
 * buffer is full takes no more live events: its subscriptions end, and the socket with them.
 */
import type { Principal } from "../auth/contract.js";
import type { LastingRight } from "../auth/lasting-right.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { Delivery, EndReason, LiveEvent, Sink, Subscription } from "../realtime/contract.js";
import type { FrameCodec } from "../wire/codec.js";
import type { ServerFrame } from "../wire/frames.js";
import { problemOf } from "../wire/problem.js";
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

export class SocketSubscriptions {
  readonly #options: SocketSubscriptionsOptions;
  readonly #all = new Map<number, SocketSubscription>();

  constructor(options: SocketSubscriptionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#all.size;
  }

  has(id: number): boolean {
    return this.#all.has(id);
  }

  /**
   * @param right what it rests on
   * @throws MoonportError `socket_full`
   */
  begin(id: number, right: LastingRight, subscribe: (sink: Sink) => Promise<Subscription>): void {
    const { subscriptionsMax } = this.#options;
    if (this.#all.size >= subscriptionsMax) {
      throw MoonportError.of("socket_full", `the socket has ${subscriptionsMax} subscriptions and views`, {
        hint: "unsubscribe from what is not looked at, or open another socket",
      });
    }
    const subscription = new SocketSubscription(id, right, this.#options, () => this.#all.delete(id));
    this.#all.set(id, subscription);
    subscribe(subscription).then(
      (handle) => subscription.stands(handle),
      (error: unknown) => subscription.refused(asMoonportError(error)),
    );
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
}

class SocketSubscription implements Sink {
  readonly #id: number;
  readonly #right: LastingRight;
  readonly #options: SocketSubscriptionsOptions;
  readonly #forget: () => void;
  /** Of an event's frame. */
  readonly #head: Uint8Array;
  #handle: Subscription | undefined;
  #isClosed = false;

  constructor(id: number, right: LastingRight, options: SocketSubscriptionsOptions, forget: () => void) {
    this.#id = id;
    this.#right = right;
    this.#options = options;
    this.#forget = forget;
    this.#head = options.codec.eventHead(id);
  }

  stands(handle: Subscription): void {
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
    if (this.#handle === undefined) this.refused(refusal);
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
