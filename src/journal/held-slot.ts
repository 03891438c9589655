/** What the journal keeps in memory of one object: its state, where that is on the disk, and how far the disk has it. */
import type { HeldObject, JournalEntry } from "../cluster/journal-rules.js";
import type { Batch } from "./batch.js";
import type { Payload } from "./contract.js";
import type { Head, StoredPlace } from "./records.js";

/** An entry's payload, which leaves memory when it is written. */
export interface KeptPayload {
  at: { readonly kind: "waiting"; readonly bytes: Payload } | StoredPlace;
  /** What its frame takes. */
  frameBytes: number;
  /** Dropped entries may still be on their way to a claimer. */
  isHeld: boolean;
}

export type KeptEntry = JournalEntry<KeptPayload>;

export interface HeldSlot {
  readonly object: string;
  held: HeldObject<KeptPayload>;
  /** The head that records say, written or on their way; undefined while none does. */
  recorded: Head | undefined;
  /** The newest file with a record that says all of `recorded`; 0 while there is none. */
  headFile: number;
  /** With which everything is durable that answers about the object rest on; undefined when it is. */
  batch: Batch | undefined;
}

export function newSlot(object: string, held: HeldObject<KeptPayload>): HeldSlot {
  return { object, held, recorded: undefined, headFile: 0, batch: undefined };
}
