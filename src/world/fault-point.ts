/**
 * Named places on the way of a call and of what follows from it, at which a crash loses different things (docs/testing.md).
 *
 * Passing one does nothing, unless the program that was started is that of the drill (test/crash-drill/node.ts): no flag, setting or
 * variable of a node's environment arms one.
 */
export type FaultPoint =
  /** Put into its object's mailbox. */
  | "call.waits"
  /** Writes in the middle of a method. */
  | "method.writes"
  /** After COMMIT, nothing of it has left. */
  | "burst.committed"
  /** A journal has said that it holds a flight, and that was not counted yet. */
  | "flight.acknowledged"
  /** Enough journals hold it, or the bucket; nobody was told. */
  | "flight.released"
  /** Replies have left, the bucket is about to be written. */
  | "leg.begins"
  /** What a manifest will name stands in the bucket. The detail is its key. */
  | "leg.bodyWritten"
  /** The manifest has landed. */
  | "leg.landed"
  /** A compaction has landed, what it left behind is there. */
  | "collection.begins"
  /** Part of what was left behind is gone. */
  | "collection.deleted"
  /** Everything of an object that is handed over has landed; its record still names this node as the owner. */
  | "handover.landed"
  | "handover.released"
  /** A claim has raised the epoch, and asked no journal. */
  | "claim.raised"
  /** It has the promises, and was not completed. */
  | "claim.promised"
  /** A past state was made, and takes no place yet. */
  | "restore.made"
  /** The object was claimed anew for it. */
  | "restore.claimed"
  | "restore.landed"
  /** An object is about to stand in the owing list, or does. */
  | "owing.adds"
  | "owing.listed"
  /** A wake time is about to be told to its shard, or was. */
  | "wake.registers"
  | "wake.registered"
  /** Due timers have run, and the shard does not know of it. */
  | "wake.ran"
  /** A message is about to be delivered, or was, and still stands in its outbox. */
  | "message.sends"
  | "message.sent"
  /** A delayed command is about to be tried; was carried out; its outcome stands in its shard. The detail is the command's id. */
  | "delivery.begun"
  | "delivery.done"
  | "delivery.noted"
  /** Rows are about to be told to a shard of their directory, or were. The detail is the first row's object. */
  | "rows.tell"
  | "rows.told";

type Passed = (point: FaultPoint, detail: string) => void;

let passed: Passed | undefined;

/** @param detail the object's id, where the point says nothing else */
export function faultPoint(point: FaultPoint, detail: string): void {
  passed?.(point, detail);
}

/** For the drill alone. */
export function watchFaultPoints(watcher: Passed): void {
  passed = watcher;
}
