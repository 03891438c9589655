/**
 * Subscriptions and live views, as doors ask for them and as the hub answers.
 *
 * Everything here is told after it landed (G1). Events of an object are numbered from 1 without gaps; a number is never given
 * twice, so a subscriber that remembers the last number it saw resumes with nothing lost and nothing doubled, across
 * reconnect, eviction and restart.
 */
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { PlainValue } from "../values.js";

export interface ReadingCall {
  readonly method: string;
  readonly args: readonly PlainValue[];
}

export type SubscribeFrom =
  /** Events from now on. */
  | { readonly kind: "now" }
  /** Events with a number above this one. */
  | { readonly kind: "after"; readonly number: number }
  /** A reading method's value, with the number of the last event it contains; then the events after it. */
  | { readonly kind: "snapshot"; readonly reading: ReadingCall };

export interface SubscribeRequest {
  readonly object: ObjectIdentity;
  readonly from: SubscribeFrom;
  /** Only events of these names; all when absent. Numbers keep counting all. */
  readonly names?: readonly string[];
  /** Sent after a gap, in place of what is no longer kept. */
  readonly snapshotAfterGap?: ReadingCall;
  readonly caller: Caller;
}

/** One event, shared by all who receive it: a door keeps what it encoded under a key of its own in `encoded`. */
export interface LiveEvent {
  readonly number: number;
  readonly name: string;
  readonly data: PlainValue;
  /** Wall clock of the call that emitted it, milliseconds. */
  readonly atMs: number;
  readonly encoded: Map<string, Uint8Array | string>;
}

export type EndReason =
  /** The object was destroyed; a later life goes on counting where this one ended. */
  | "destroyed"
  /** The node is stopping: connect again, elsewhere or later. */
  | "stopping"
  /** The subscriber did not keep up with its bounded buffer. */
  | "slow"
  /** The object's events could not be read (its bucket or disk fails): subscribe again, later. */
  | "failed"
  /** Said by doors: the subscriber's token does not allow it any more, or says something else of it. */
  | "withdrawn";

export type Delivery =
  /**
   * The first answer: the subscription stands, events above `after` follow. Later only where the object turns out to count lower
   * than what was told of it, as when its bucket was put back to an earlier state: then what follows are other events.
   */
  | { readonly kind: "subscribed"; readonly after: number }
  | { readonly kind: "snapshot"; readonly value: PlainValue; readonly number: number }
  | { readonly kind: "event"; readonly event: LiveEvent }
  /** Events `from` to `first - 1` are no longer kept; `first` is the next. */
  | { readonly kind: "gap"; readonly from: number; readonly first: number }
  /**
   * A live view's value changed (or is the first). `seq`: the object's seq it was computed at. All viewers of a value get this
   * one object: a door may keep its encoding in a WeakMap.
   */
  | { readonly kind: "view"; readonly value: PlainValue; readonly seq: number }
  /** A view's method failed; the view stays and is tried again with the next landed write. */
  | { readonly kind: "view_failed"; readonly error: Error }
  /** Nothing follows. `after`: the last number that was delivered or passed over, to resume from. `error`: why it `failed`. */
  | { readonly kind: "ended"; readonly reason: EndReason; readonly after: number; readonly error?: Error };

/** Where a door takes deliveries. Called synchronously, in order; one that throws is closed. */
export interface Sink {
  deliver(delivery: Delivery): void;
  /**
   * Asked before each event of a catch-up and each snapshot, which is then told in the same tick: resolves when there may be
   * room again; undefined when there is room now. Live events do not wait: a sink that cannot take one says so by {@link isFull}.
   */
  room(): Promise<void> | undefined;
  /** Asked before each live event: a full sink's subscription ends with reason `slow`. */
  isFull(): boolean;
}

export interface Subscription {
  /** Number of the last event delivered or passed over: what to resume from. 0 for a view. */
  readonly after: number;
  /** Nothing is delivered afterwards. Idempotent. */
  close(): void;
}

export interface ViewRequest {
  readonly object: ObjectIdentity;
  readonly reading: ReadingCall;
  readonly caller: Caller;
}

/** What a node offers beside {@link NodeApi}: what goes on instead of ending with an answer. */
export interface LiveApi {
  /**
   * Resolves when the request is accepted; after that the sink is told, `subscribed` (or a snapshot before it) first. A
   * number beyond the object's last event counts as now: `subscribed.after` is then the real last.
   * @throws MoonportError `class_not_found`, `method_not_found`, `not_a_reading_method`, `subscriptions_full`,
   * `node_stopping`, whatever the snapshot's reading method throws
   */
  subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription>;
  /**
   * A reading method's value, now and after each landed write that changed it; coalesced. Goes on across the object's
   * destruction, with what the method says of an object that does not exist. A slow viewer misses values, never the last.
   * @throws MoonportError as {@link subscribe}; a method that fails is told as `view_failed`
   */
  view(request: ViewRequest, sink: Sink): Promise<Subscription>;
}

/** One landed flight, as the hub hears of it. */
export interface Landing {
  readonly object: ObjectIdentity;
  /** Last seq it carried. */
  readonly seq: number;
  /** Events it made durable, in order. */
  readonly events: readonly Omit<LiveEvent, "encoded">[];
  /** It carried the object's tombstone. */
  readonly destroyed: boolean;
}
