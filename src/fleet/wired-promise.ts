/** A journal's answer to a claimer, as it travels. */
import { EntryRun } from "../cluster/entry-run.js";
import type { JournalEntry, PromiseAnswer } from "../cluster/journal-rules.js";
import type { Payload } from "../journal/contract.js";

export type WiredPromise =
  | Exclude<PromiseAnswer<Payload>, { kind: "promised" }>
  | {
      readonly kind: "promised";
      readonly journal: string;
      readonly epoch: number;
      readonly tailEpoch: number;
      readonly base: number;
      readonly have: number;
      readonly entries: readonly JournalEntry<Payload>[];
    };

export function toWire(answer: PromiseAnswer<Payload>): WiredPromise {
  if (answer.kind !== "promised") return answer;
  const { kind, journal, epoch, tail } = answer;
  const { tailEpoch, base, have, entries } = tail;
  return { kind, journal, epoch, tailEpoch, base, have, entries: [...entries] };
}

export function fromWire(wired: WiredPromise): PromiseAnswer<Payload> {
  if (wired.kind !== "promised") return wired;
  const { kind, journal, epoch, tailEpoch, base, have, entries } = wired;
  return { kind, journal, epoch, tail: { tailEpoch, base, have, entries: EntryRun.from(entries) } };
}
