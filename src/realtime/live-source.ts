/**
 * What the hub asks of objects, of this node or of others. Everything that a source answers is durable (G1), and nothing stays
 * awake for it.
 */
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { PlainValue } from "../values.js";
import type { Landing, ReadingCall } from "./contract.js";

export interface StoredEvents {
  /** In order, from the first one asked for that is still kept. */
  readonly events: Landing["events"];
  /** Number of the oldest event still kept; `last + 1` when none is. */
  readonly first: number;
  /** Number of the object's last event, 0 before the first. */
  readonly last: number;
  /** Whether the object has content now. */
  readonly exists: boolean;
}

/** A reading method's value, and where the object stood at that very instant. */
export interface Evaluated {
  readonly value: PlainValue;
  /** Number of the last event the value contains. */
  readonly number: number;
  readonly seq: number;
}

/** Whoever watches an object, as the source tells it of what happens elsewhere. */
export interface Watcher {
  landed(landing: Landing): void;
  /**
   * The object has been found, for the first time or again: what landed until now may not have been told. Everything after
   * `last` is told from now on, until it is found again.
   */
  found(position: Pick<StoredEvents, "last" | "exists">): void;
}

export interface Watch {
  /** Whether the object is this node's, so that whatever lands was told in the moment in which it can be read. */
  readonly isHere: boolean;
  /** Nothing is told afterwards. Idempotent. */
  stop(): void;
}

export interface LiveSource {
  /** @throws MoonportError `app_not_found`, `class_not_found`, `class_invalid` */
  checkClass(object: ObjectIdentity): void;
  /** @throws MoonportError as {@link checkClass}, `method_not_found`, `not_a_reading_method` */
  checkReading(object: ObjectIdentity, method: string): void;
  /** Of the object's class as it is served now; undefined when there is none. */
  classVersion(object: ObjectIdentity): string | undefined;
  /** At most `limit` events with a number above `after`. @throws MoonportError `not_durable_yet`, `bucket_failed`, `storage_*` */
  events(object: ObjectIdentity, after: number, limit: number): Promise<StoredEvents>;
  /** @throws MoonportError as {@link checkReading} and {@link events}, and whatever the method throws */
  evaluate(object: ObjectIdentity, reading: ReadingCall, caller: Caller): Promise<Evaluated>;
  /** From now on, wherever the object lives and moves to. What lands on this node the node itself tells. */
  watch(object: ObjectIdentity, watcher: Watcher): Watch;
}
