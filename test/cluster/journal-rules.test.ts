import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EntryRun } from "../../src/cluster/entry-run.js";
import {
  begun,
  decideEntry,
  decideNotice,
  decidePromise,
  type HeldObject,
  haveSeq,
  mayForget,
} from "../../src/cluster/journal-rules.js";

const JOURNAL = "journal-a";

type Held = HeldObject<number>;

/** Anything that may arrive, in any order; each entry carries the epoch of its sender. */
type Message =
  | {
      readonly kind: "entry";
      readonly epoch: number;
      readonly covered: number;
      readonly afterSeq: number;
      readonly toSeq: number;
    }
  | { readonly kind: "notice"; readonly epoch: number; readonly covered: number }
  | { readonly kind: "promise"; readonly epoch: number; readonly journal: string };

const epoch = fc.integer({ min: 1, max: 5 });
const seq = fc.nat(8);
const message: fc.Arbitrary<Message> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.tuple(epoch, seq, seq, fc.integer({ min: 1, max: 3 })).map(([of, covered, afterSeq, seqs]) => ({
      kind: "entry" as const,
      epoch: of,
      covered,
      afterSeq,
      toSeq: afterSeq + seqs,
    })),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("notice" as const), epoch, covered: seq }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("promise" as const),
      epoch,
      journal: fc.constantFrom(JOURNAL, JOURNAL, JOURNAL, "its-old-disk"),
    }),
  },
);

function decide(held: Held, message: Message) {
  if (message.kind === "entry") return decideEntry(JOURNAL, held, { ...message, payload: message.epoch });
  if (message.kind === "notice") return decideNotice(JOURNAL, held, message);
  return decidePromise(JOURNAL, held, message);
}

/** Runs all messages through one journal and shows each step to `look`. */
function atEachStep(
  look: (step: { before: Held; after: Held; message: Message; answer: ReturnType<typeof decide>["answer"] }) => void,
) {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 40 }), fc.nat(2), (messages, recordEpoch) => {
      let held = begun<number>(recordEpoch);
      for (const one of messages) {
        const { held: after, answer } = decide(held, one);
        look({ before: held, after, message: one, answer });
        held = after;
      }
    }),
    { numRuns: 500 },
  );
}

/** Epochs of whoever committed the seqs from `base` to where the tail ends; undefined where a seq is missing. */
function writersOf({ base, entries }: Held): (number | undefined)[] {
  const writers: (number | undefined)[] = [];
  const all = [...entries];
  for (let at = base + 1; at <= haveSeq({ base, entries }); at++) {
    writers.push(all.findLast(({ afterSeq, toSeq }) => afterSeq < at && at <= toSeq)?.payload);
  }
  return writers;
}

const entry = (of: number, covered: number, afterSeq: number, toSeq: number) => ({
  epoch: of,
  covered,
  afterSeq,
  toSeq,
  payload: of,
});

function heldAfter(...messages: Parameters<typeof entry>[]): Held {
  return messages.reduce((held, one) => decideEntry(JOURNAL, held, entry(...one)).held, begun<number>(0));
}

describe("a journal", () => {
  it("listens to no epoch below what it has promised, and its promise never falls (J1)", () => {
    atEachStep(({ before, after, message, answer }) => {
      const isForAnother = message.kind === "promise" && message.journal !== JOURNAL;
      expect(answer.kind === "refused").toBe(!isForAnother && message.epoch < before.promised);
      if (answer.kind === "refused") {
        expect(after).toBe(before);
        expect(answer.promised).toBe(before.promised);
      }
      expect(after.promised).toBeGreaterThanOrEqual(before.promised);
      expect(after.promised).toBeGreaterThanOrEqual(after.tailEpoch);
    });
  });

  it("has promised the epoch of whatever it has accepted (J1)", () => {
    atEachStep(({ after, message, answer }) => {
      if (
        answer.kind === "ack" ||
        answer.kind === "duplicate" ||
        answer.kind === "noted" ||
        answer.kind === "promised"
      ) {
        expect(after.promised).toBe(message.epoch);
      }
    });
  });

  it("holds one epoch's line and nothing else, without a hole (J2)", () => {
    atEachStep(({ after }) => {
      expect(writersOf(after).every((writer) => writer === after.tailEpoch)).toBe(true);
    });
  });

  it("starts a newer epoch at the coverage that its owner tells, without the old tail (J2)", () => {
    atEachStep(({ before, after, message, answer }) => {
      if (message.kind === "promise" || answer.kind === "refused" || message.epoch <= before.tailEpoch) return;
      const isGap = message.kind === "entry" && message.afterSeq > message.covered;
      expect(answer.kind === "gap").toBe(isGap);
      expect(after).toMatchObject({ tailEpoch: message.epoch, base: message.covered });
      expect(after.entries.length).toBe(answer.kind === "ack" ? 1 : 0);
    });
  });

  it("loses nothing within an epoch but what is covered: its base and its end only rise (J3)", () => {
    atEachStep(({ before, after }) => {
      if (after.tailEpoch !== before.tailEpoch) return;
      expect(after.base).toBeGreaterThanOrEqual(before.base);
      expect(haveSeq(after)).toBeGreaterThanOrEqual(haveSeq(before));
    });
  });

  it("takes exactly what continues it, and tells what it has (J3)", () => {
    atEachStep(({ before, after, message, answer }) => {
      if (message.kind !== "entry" || answer.kind === "refused" || message.epoch !== before.tailEpoch) return;
      const { afterSeq, toSeq, covered } = message;
      const have = Math.max(haveSeq(before), covered);
      if (toSeq <= have) expect(answer).toMatchObject({ kind: "duplicate", have });
      else if (afterSeq <= have) expect(answer).toMatchObject({ kind: "ack", have: toSeq });
      else expect(answer).toMatchObject({ kind: "gap", have });
      expect(haveSeq(after)).toBe(answer.kind === "ack" ? toSeq : have);
    });
  });

  it("acknowledges only what it holds, to the epoch that it holds it for", () => {
    atEachStep(({ after, message, answer }) => {
      if (answer.kind !== "ack" && answer.kind !== "duplicate") return;
      expect(answer.have).toBe(haveSeq(after));
      expect(after.tailEpoch).toBe(message.epoch);
    });
  });

  it("says in every answer which journal speaks, and to which epoch", () => {
    atEachStep(({ message, answer }) => expect(answer).toMatchObject({ journal: JOURNAL, epoch: message.epoch }));
  });

  it("takes what follows a gap's `have` when that is sent next", () => {
    atEachStep(({ after, message, answer }) => {
      if (message.kind !== "entry" || answer.kind !== "gap") return;
      const { epoch, covered, toSeq } = message;
      const again = decideEntry(JOURNAL, after, entry(epoch, covered, answer.have, toSeq));
      expect(again.answer).toMatchObject({ kind: "ack", have: toSeq });
    });
  });

  it("a late duplicate does not bring back the start that the tail has left behind (J3)", () => {
    const held = heldAfter([1, 0, 0, 1], [1, 0, 1, 2], [1, 1, 2, 3]);
    const late = decideEntry(JOURNAL, held, entry(1, 0, 0, 1));
    expect(late.held).toBe(held);
    expect(late.answer).toMatchObject({ kind: "duplicate", have: 3 });
  });

  it("a flight that overlaps what is held is appended whole (J3)", () => {
    const held = heldAfter([1, 0, 0, 2]);
    const { held: after, answer } = decideEntry(JOURNAL, held, entry(1, 0, 1, 4));
    expect(answer).toMatchObject({ kind: "ack", have: 4 });
    expect([...after.entries].map(({ afterSeq, toSeq }) => [afterSeq, toSeq])).toEqual([
      [0, 2],
      [1, 4],
    ]);
  });

  it("drops what its own epoch's owner says is covered, and keeps what reaches beyond (J4)", () => {
    const held = heldAfter([1, 0, 0, 2], [1, 0, 2, 4]);
    const { held: after, answer } = decideNotice(JOURNAL, held, { epoch: 1, covered: 3 });
    expect(answer).toMatchObject({ kind: "noted", base: 3 });
    expect([...after.entries].map(({ toSeq }) => toSeq)).toEqual([4]);
    expect(decideNotice(JOURNAL, after, { epoch: 1, covered: 2 }).held).toBe(after);
  });

  it("word of a newer epoch's coverage ends the old tail (J4)", () => {
    const held = heldAfter([1, 0, 0, 2]);
    const { held: after } = decideNotice(JOURNAL, held, { epoch: 3, covered: 1 });
    expect(after).toEqual({ promised: 3, tailEpoch: 3, base: 1, entries: EntryRun.of() });
  });

  it("hands over its tail with a promise and keeps it; asked again, it answers again (J5)", () => {
    atEachStep(({ before, after, message, answer }) => {
      if (answer.kind !== "promised") return;
      const { promised: _, ...tail } = before;
      expect(answer.tail).toEqual({ ...tail, have: haveSeq(before) });
      expect(after).toEqual({ ...before, promised: message.epoch });
      expect(decidePromise(JOURNAL, after, { epoch: message.epoch, journal: JOURNAL })).toEqual({
        held: after,
        answer,
      });
    });
  });

  it("does not answer for a disk that it has lost (J5)", () => {
    atEachStep(({ before, after, message, answer }) => {
      if (message.kind !== "promise" || message.journal === JOURNAL) return;
      expect(answer).toEqual({ kind: "other_journal", journal: JOURNAL, epoch: message.epoch });
      expect(after).toBe(before);
    });
  });

  it("begins, and begins again, with the record's epoch as its promise (J6)", () => {
    const held = begun<number>(4);
    expect(decideEntry(JOURNAL, held, entry(3, 0, 0, 1)).answer).toMatchObject({ kind: "refused", promised: 4 });
    expect(decidePromise(JOURNAL, held, { epoch: 3, journal: JOURNAL }).answer.kind).toBe("refused");
    expect(decideEntry(JOURNAL, held, entry(4, 0, 0, 1)).answer).toMatchObject({ kind: "ack", have: 1 });
    expect(decidePromise(JOURNAL, held, { epoch: 4, journal: JOURNAL }).answer.kind).toBe("promised");
  });

  it("never forgets an entry (J6)", () => {
    atEachStep(({ after }) => expect(mayForget(after)).toBe([...after.entries].length === 0));
  });

  it("an entry without a seq is a programming mistake", () => {
    expect(() => decideEntry(JOURNAL, begun<number>(0), entry(1, 0, 2, 2))).toThrow(/at least one seq/);
  });
});
