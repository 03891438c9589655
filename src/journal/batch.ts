/** What shares a sync: records in order, and whoever waits until they are durable. */
import type { MoonportError } from "../errors.js";
import { frameBytesOf, type JournalRecord, type StoredPlace } from "./records.js";

export interface Waiter {
  durable(): void;
  failed(error: MoonportError): void;
}

export interface QueuedRecord {
  readonly record: JournalRecord;
  readonly frameBytes: number;
  readonly written: (place: StoredPlace) => void;
}

export class Batch {
  readonly records: QueuedRecord[] = [];
  readonly waiters: Waiter[] = [];
  /** Done when all waiters were answered. */
  readonly afterwards: (() => void)[] = [];
  /** Of what is not written yet. */
  bytes = 0;
  isDurable = false;

  /** It is on the disk: tells all who wait, and keeps nothing, for objects refer to their last batch for long. */
  settle(): void {
    this.isDurable = true;
    this.records.length = 0;
    for (const waiter of this.waiters.splice(0)) waiter.durable();
    for (const run of this.afterwards.splice(0)) run();
  }

  fail(error: MoonportError): void {
    this.records.length = 0;
    this.afterwards.length = 0;
    for (const waiter of this.waiters.splice(0)) waiter.failed(error);
  }

  /** @param written told as soon as it can be read back, which is before it is durable; returns what its frame takes */
  add(record: JournalRecord, written: (place: StoredPlace) => void): number {
    const frameBytes = frameBytesOf(record);
    this.records.push({ record, frameBytes, written });
    this.bytes += frameBytes;
    return frameBytes;
  }
}
