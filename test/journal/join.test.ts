import fc from "fast-check";
import { expect, it } from "vitest";
import {
  begun,
  decideEntry,
  decideNotice,
  decidePromise,
  type HeldObject,
  type JournalEntry,
} from "../../src/cluster/journal-rules.js";
import { JoinedObject } from "../../src/journal/join.js";

const JOURNAL = "journal-a";

interface Message {
  readonly kind: "entry" | "notice" | "promise";
  readonly epoch: number;
  readonly covered: number;
  readonly afterSeq: number;
  readonly seqs: number;
  /** Whether a base that only rises is recorded at once. */
  readonly isRecorded: boolean;
}

const messages = fc.array(
  fc.record({
    kind: fc.constantFrom<Message["kind"]>("entry", "entry", "entry", "notice", "promise"),
    epoch: fc.integer({ min: 1, max: 4 }),
    covered: fc.nat(8),
    afterSeq: fc.nat(8),
    seqs: fc.integer({ min: 1, max: 3 }),
    isRecorded: fc.boolean(),
  }),
  { maxLength: 40 },
);

type Held = HeldObject<number>;
type Recorded =
  | { readonly kind: "head"; readonly held: Held }
  | { readonly kind: "entry"; readonly epoch: number; readonly base: number; readonly entry: JournalEntry<number> };

function decided(held: Held, message: Message, payload: number) {
  const { kind, epoch, covered, afterSeq, seqs } = message;
  if (kind === "notice") return decideNotice(JOURNAL, held, message);
  if (kind === "promise") return decidePromise(JOURNAL, held, { epoch, journal: JOURNAL });
  return decideEntry(JOURNAL, held, { epoch, covered, afterSeq, toSeq: afterSeq + seqs, payload });
}

/** The last state, and what a journal records on the way: entries with their base, heads that say something new. */
function lived(all: readonly Message[]): { readonly held: Held; readonly records: readonly Recorded[] } {
  let held = begun<number>(1);
  const records: Recorded[] = [{ kind: "head", held }];
  for (const [index, message] of all.entries()) {
    const { held: next, answer } = decided(held, message, index);
    const { length } = next.entries;
    if (answer.kind === "ack") {
      records.push({ kind: "entry", epoch: message.epoch, base: next.base, entry: next.entries.at(length - 1) });
    } else if (next.promised !== held.promised || next.tailEpoch !== held.tailEpoch || message.isRecorded) {
      records.push({ kind: "head", held: next });
    }
    held = next;
  }
  return { held, records };
}

function joined(records: readonly Recorded[]): Held | undefined {
  const object = new JoinedObject<number>();
  for (const record of records) {
    if (record.kind === "head") object.addHead(record.held);
    else object.addEntry(record.epoch, record.base, record.entry);
  }
  return object.held();
}

it("what was recorded is what was held, in whatever order it is read, also where a part of it stands twice", () => {
  const orders = messages.chain((all) => {
    const { held, records } = lived(all);
    const copies = fc.subarray([...records]);
    return copies
      .chain((twice) => fc.shuffledSubarray([...records, ...twice], { minLength: records.length + twice.length }))
      .map((shuffled) => ({ held, shuffled }));
  });
  fc.assert(
    fc.property(orders, ({ held, shuffled }) => {
      const found = joined(shuffled);
      expect(found).toBeDefined();
      if (found === undefined) return;
      expect([found.promised, found.tailEpoch]).toEqual([held.promised, held.tailEpoch]);
      // A base that nobody recorded leaves entries that are covered, and no hole.
      expect(found.base).toBeLessThanOrEqual(held.base);
      expect([...found.entries.droppedThrough(held.base)]).toEqual([...held.entries]);
    }),
    { numRuns: 1_000 },
  );
});

it("entries behind a hole are not a tail", () => {
  const object = new JoinedObject<number>();
  object.addEntry(1, 0, { afterSeq: 0, toSeq: 1, payload: 1 });
  object.addEntry(1, 0, { afterSeq: 2, toSeq: 3, payload: 3 });
  expect(object.held()).toBeUndefined();
});
