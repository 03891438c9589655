/** Journals that do not do what docs/cluster.md promises of them. */
import * as broken from "../../model/broken-journals.js";
import { replacing } from "./replacing.js";
import { only, type Variant } from "./variant.js";

/** No clock is to save a protocol that is broken: whoever looks at one believes that others are dead. */
const LEAPS = { readShare: 0, objects: 2 } as const;

export const JOURNALS: Record<string, Variant> = {
  "a journal ignores epochs": {
    breaks: "An entry is taken from an epoch below the promised one (J1).",
    replaces: [replacing("cluster/journal-rules", () => ({ decideEntry: broken.ignoringEpochs as never }))],
    plan: { ...LEAPS, nodes: 3, ...only({ clock_leap: 4, crash: 1, cut_one_way: 2, slow_link: 2 }) },
    seed: 1,
    caughtBy: "history",
  },
  "a newer epoch goes on behind an old tail": {
    breaks: "An entry of a newer epoch is appended to the tail of an older one where the numbers fit (J2).",
    replaces: [replacing("cluster/journal-rules", () => ({ decideEntry: broken.continuingBySeq as never }))],
    seed: 1,
    caughtBy: "history",
  },
  "a tail starts afresh within an epoch": {
    breaks: "An entry that begins at the told coverage erases the tail, also within an epoch (J3).",
    replaces: [replacing("cluster/journal-rules", () => ({ decideEntry: broken.startingAfresh as never }))],
    // Entries are sent again although the first of them are on their way, and somebody claims in the middle of that.
    plan: {
      ...LEAPS,
      nodes: 2,
      settings: { LINK_REQUEST_MS: 60, COVER_MS: 200, FLIGHT_HEDGE_MS: 2_000 },
      strikeMs: 500,
      ...only({ clock_leap: 2, slow_link: 3 }),
    },
    seed: 1,
    caughtBy: "history",
  },
  "a journal drops one entry too many": {
    breaks: "Word of the bucket's coverage drops the entry after it too (J4).",
    replaces: [replacing("cluster/journal-rules", () => ({ decideNotice: broken.droppingTooMuch as never }))],
    seed: 1,
    caughtBy: "landed",
  },
  "a journal promises nothing": {
    breaks: "A claimer is handed the tail, and the owner before it is listened to as before (J5).",
    replaces: [replacing("cluster/journal-rules", () => ({ decidePromise: broken.promisingNothing as never }))],
    plan: { ...LEAPS, nodes: 3, ...only({ clock_leap: 4, crash: 1, cut_one_way: 2, slow_link: 2 }) },
    seed: 1,
    caughtBy: "landed",
  },
  "a tail is let go when it has been handed over": {
    breaks: "With its promise a journal drops its tail, although the claim may come to nothing (J5).",
    replaces: [replacing("cluster/journal-rules", () => ({ decidePromise: broken.lettingGo as never }))],
    seed: 1,
    caughtBy: "error",
  },
  "a lost disk answers as the old one": {
    breaks:
      "A journal promises whatever name it is asked by: one that was made anew speaks for the one that was lost (J5).",
    replaces: [replacing("cluster/journal-rules", () => ({ decidePromise: broken.answeringForOthers as never }))],
    plan: {
      nodes: 2,
      objects: 3,
      ...only({ disk_lost: 4, crash: 3, cut: 2, bucket_gone: 2 }),
      settings: { COVER_MS: 2_000 },
    },
    seed: 1,
    caughtBy: "history",
  },
  "a promise is forgotten with the entries": {
    breaks: "A journal that has forgotten an object begins it as if nothing had ever been promised (J6).",
    replaces: [replacing("cluster/journal-rules", () => ({ begun: () => broken.beginningAtNothing(0) as never }))],
    plan: {
      ...LEAPS,
      nodes: 3,
      objects: 12,
      settings: { JOURNAL_OBJECTS_MAX: 1, COVER_MS: 50 },
      strikeMs: 500,
      ...only({ clock_leap: 4, cut: 4, cut_one_way: 2 }),
    },
    seed: 1,
    caughtBy: "landed",
  },
  "a journal answers before its sync": {
    breaks: "An entry is acknowledged when it is written, before the disk has it.",
    replaces: [
      replacing("journal/batch", ({ Batch }) => ({
        Batch: class extends Batch {
          // In the next turn, as one that had nothing to wait for.
          override readonly waiters = new EagerWaiters();
        },
      })),
    ],
    plan: { diskSyncMs: 25 },
    seed: 1,
    caughtBy: "landed",
  },
  "a tail is read back through shared bytes": {
    breaks:
      "Payloads of a tail that is handed over are views into the buffer through which the file is read (seed 33's bug).",
    replaces: [
      replacing("journal/read-back", (original) => {
        let shared = Buffer.alloc(0);
        class FilesReader extends original.FilesReader {
          override entry(at: Parameters<InstanceType<typeof original.FilesReader>["entry"]>[0]) {
            const record = super.entry(at);
            if (shared.length < record.payload.length) shared = Buffer.alloc(record.payload.length * 2);
            shared.set(record.payload);
            return { ...record, payload: shared.subarray(0, record.payload.length) };
          }
        }
        return { FilesReader };
      }),
    ],
    seed: 1,
    caughtBy: "error",
  },
};

class EagerWaiters extends Array<{ durable(): void; failed(error: never): void }> {
  override push(...waiters: { durable(): void; failed(error: never): void }[]): number {
    for (const waiter of waiters) waiter.durable();
    return 0;
  }
}
