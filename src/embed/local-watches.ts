/**
 * Subscriptions and views of an object in this process. The wire between their client side and the node are function calls,
 * so a subscription here resumes, pauses and tries again exactly as one over a socket does, by the same code.
 */
import type { Wire } from "../client/lane.js";
import { Watches, type WatchFrame } from "../client/watch.js";
import { asMoonportError, assert } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { Delivery, LiveApi, Sink, Subscription } from "../realtime/contract.js";
import type { ClientFrame } from "../wire/frames.js";
import { problemOf } from "../wire/problem.js";
import type { World } from "../world/world.js";

type SubscribeFrame = Extract<ClientFrame, { type: "subscribe" }>;
type ViewFrame = Extract<ClientFrame, { type: "view" }>;

interface Asked {
  subscription: Subscription | undefined;
  isClosed: boolean;
}

/** What watches one object on behalf of one caller. */
export function localWatches(live: LiveApi, world: World, object: ObjectIdentity, caller: Caller): Watches {
  const watches: Watches = new Watches(world, new LocalWire(live, object, caller, (frame) => watches.take(frame)));
  return watches;
}

class LocalWire implements Wire {
  readonly isUp = true;
  readonly #live: LiveApi;
  readonly #object: ObjectIdentity;
  readonly #caller: Caller;
  readonly #take: (frame: WatchFrame) => void;
  readonly #asked = new Map<number, Asked>();
  #lastId = 0;

  constructor(live: LiveApi, object: ObjectIdentity, caller: Caller, take: (frame: WatchFrame) => void) {
    this.#live = live;
    this.#object = object;
    this.#caller = caller;
    this.#take = take;
  }

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  send(frame: ClientFrame): void {
    switch (frame.type) {
      case "subscribe":
        void this.#ask(frame.id, (sink) => this.#subscribe(frame, sink));
        break;
      case "view":
        void this.#ask(frame.id, (sink) => this.#view(frame, sink));
        break;
      case "unsubscribe":
        this.#close(frame.id);
        break;
      default:
        assert(false, `a local wire carries no ${frame.type}`);
    }
  }

  #subscribe({ from = { kind: "now" }, names, snapshotAfterGap }: SubscribeFrame, sink: Sink): Promise<Subscription> {
    const request = {
      object: this.#object,
      from,
      caller: this.#caller,
      ...(names !== undefined && { names }),
      ...(snapshotAfterGap !== undefined && { snapshotAfterGap }),
    };
    return this.#live.subscribe(request, sink);
  }

  #view({ method, args = [] }: ViewFrame, sink: Sink): Promise<Subscription> {
    return this.#live.view({ object: this.#object, reading: { method, args }, caller: this.#caller }, sink);
  }

  async #ask(id: number, begin: (sink: Sink) => Promise<Subscription>): Promise<void> {
    const asked: Asked = { subscription: undefined, isClosed: false };
    this.#asked.set(id, asked);
    try {
      asked.subscription = await begin(this.#sink(id, asked));
      if (asked.isClosed) asked.subscription.close();
    } catch (error) {
      this.#asked.delete(id);
      if (!asked.isClosed) this.#take({ type: "error", id, error: problemOf(asMoonportError(error)) });
    }
  }

  /** It is never full: its reader's side closes it in time, and asks again from where it was. */
  #sink(id: number, asked: Asked): Sink {
    return {
      deliver: (delivery) => {
        if (asked.isClosed) return;
        if (delivery.kind === "ended") this.#asked.delete(id);
        this.#take(frameOf(id, delivery));
      },
      room: () => undefined,
      isFull: () => false,
    };
  }

  #close(id: number): void {
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id);
    asked.isClosed = true;
    asked.subscription?.close();
  }
}

/** What a delivery holds is shared by all who get it, and this one goes to a program that may change it: it gets a copy. */
function frameOf(id: number, delivery: Delivery): WatchFrame {
  switch (delivery.kind) {
    case "subscribed":
      return { type: "subscribed", id, after: delivery.after };
    case "snapshot":
      return { type: "snapshot", id, value: structuredClone(delivery.value), number: delivery.number };
    case "event": {
      const { number, name, data, atMs } = delivery.event;
      return { type: "event", id, number, name, data: structuredClone(data), atMs };
    }
    case "gap":
      return { type: "gap", id, from: delivery.from, first: delivery.first };
    case "view":
      return { type: "view", id, value: structuredClone(delivery.value), seq: delivery.seq };
    case "view_failed":
      return { type: "view_failed", id, error: problemOf(asMoonportError(delivery.error)) };
    case "ended":
      return { type: "ended", id, reason: delivery.reason, after: delivery.after };
  }
}
