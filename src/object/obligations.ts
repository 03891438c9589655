/**
 * What an object owes to the outside when its writes are durable: the time at which its next timer is due, told to its delay
 * shard, the messages in its outbox, and its row, told to its class's directory. Here is what an open object tells of it; who
 * keeps the promises is src/delay, of rows together with src/directory.
 */
import type { ObjectIdentity } from "../identity.js";

/** What is owed once everything through `seq` is durable. */
export interface OwedMark {
  readonly seq: number;
  /** Undefined: no timer is set. */
  readonly nextDueMs: number | undefined;
  /** Number of the last message that is to be sent; 0 when there is none. */
  readonly messagesThrough: number;
  /** Whoever woke the object for its timers is told the same, and goes on asking until it was. */
  readonly isToldToShard: boolean;
}

/** What is about to be named. */
export interface ObligingWrites {
  /** Undefined: of timers and messages only what is owed from before. */
  readonly mark: OwedMark | undefined;
  /** Whether the object's row in its directory becomes another one. */
  readonly changesRow: boolean;
}

export interface Obligations {
  /** An object's file was opened: what it says is durable. Nobody may know of it yet. */
  opened(object: ObjectIdentity, epoch: number, mark: OwedMark): void;
  /**
   * The bucket is about to be told of writes that oblige: undefined when it may be now, else when the object stands in the
   * session's owing list (W1). It stands there at least until the bucket is known to have been told.
   */
  listed(object: ObjectIdentity, epoch: number, writes: ObligingWrites): Promise<void> | undefined;
  /**
   * As {@link listed}, of an object whose file is closed and whose content is to become other than it last said: it stands there at
   * least until it is opened.
   */
  renews(object: ObjectIdentity): Promise<void> | undefined;
  /** The bucket names all that `listed` was asked about. */
  named(object: ObjectIdentity): void;
  /** What the mark says is durable, and may be told (G1). */
  landed(object: ObjectIdentity, epoch: number, mark: OwedMark): void;
}
