import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EntryRun } from "../../src/cluster/entry-run.js";
import type { JournalEntry, PromiseAnswer } from "../../src/cluster/journal-rules.js";
import type { OwnershipRecord } from "../../src/cluster/ownership.js";
import { answersNeeded } from "../../src/cluster/quorum.js";
import { chooseTail } from "../../src/cluster/tail-choice.js";

const JOURNALS = ["a", "b", "c", "d", "e"];

interface Fields {
  readonly copies?: number;
  readonly acksToLand?: number;
  readonly tailEpoch?: number;
  readonly covered?: number;
}

/** As the claimer of epoch 5 wrote it. */
function record({ copies = 3, acksToLand = 2, tailEpoch = 3, covered = 4 }: Fields = {}): OwnershipRecord {
  const set = JOURNALS.slice(0, copies).map((journal) => ({ node: `node-${journal}`, journal }));
  return { rid: "r", epoch: 5, owner: "s5", tailEpoch, set, quorum: { copies, acksToLand }, covered, clean: false };
}

function promised(journal: string, tailEpoch: number, base: number, have: number, epoch = 5): PromiseAnswer<number> {
  const list: JournalEntry<number>[] = [];
  for (let seq = base; seq < have; seq++) list.push({ afterSeq: seq, toSeq: seq + 1, payload: tailEpoch });
  return { kind: "promised", journal, epoch, tail: { tailEpoch, base, have, entries: EntryRun.of(...list) } };
}

const anyAnswer = fc
  .tuple(fc.constantFrom(...JOURNALS, "stranger"), fc.integer({ min: 0, max: 4 }), fc.nat(4), fc.nat(5))
  .map(([journal, tailEpoch, base, entries]) => promised(journal, tailEpoch, base, base + entries));

describe("what a claimer goes on from", () => {
  it("holds every write that W journals had acknowledged, whichever N − W + 1 of them answer (C2, C3)", () => {
    const quorum = fc
      .integer({ min: 1, max: 5 })
      .chain((copies) => fc.record({ copies: fc.constant(copies), acksToLand: fc.integer({ min: 1, max: copies }) }));
    const scene = quorum.chain(({ copies, acksToLand }) =>
      fc.record({
        quorum: fc.constant({ copies, acksToLand }),
        haves: fc.array(fc.integer({ min: 4, max: 12 }), { minLength: copies, maxLength: copies }),
        answering: fc.shuffledSubarray(JOURNALS.slice(0, copies), { minLength: copies - acksToLand + 1 }),
      }),
    );
    fc.assert(
      fc.property(scene, ({ quorum: { copies, acksToLand }, haves, answering }) => {
        const landed = [...haves].sort((one, other) => other - one)[acksToLand - 1] as number;
        const answers = answering.map((journal) => promised(journal, 3, 4, haves[JOURNALS.indexOf(journal)] as number));
        const choice = chooseTail(record({ copies, acksToLand }), answers);
        expect(choice.kind === "tail" || choice.kind === "bucket").toBe(true);
        expect(choice).toHaveProperty("throughSeq");
        if ("throughSeq" in choice) expect(choice.throughSeq).toBeGreaterThanOrEqual(landed);
      }),
    );
  });

  it("does not hang on the order of the answers, nor on what others say", () => {
    fc.assert(
      fc.property(fc.uniqueArray(anyAnswer, { selector: ({ journal }) => journal }), fc.nat(), (answers, turn) => {
        const choice = chooseTail(record(), answers);
        const at = turn % (answers.length + 1);
        const turned = [...answers.slice(at), ...answers.slice(0, at)];
        const other = chooseTail(record(), turned);
        expect(other.kind).toBe(choice.kind);
        if ("throughSeq" in choice) expect(other).toHaveProperty("throughSeq", choice.throughSeq);
        const named = answers.filter(({ journal }) => record().set.some((member) => member.journal === journal));
        expect(chooseTail(record(), named)).toEqual(choice);
      }),
    );
  });

  it("is a tail of the record's tailEpoch, the longest, trimmed to what the bucket lacks (C3)", () => {
    fc.assert(
      fc.property(fc.array(anyAnswer, { minLength: 3 }), (answers) => {
        const choice = chooseTail(record(), answers);
        const alive = answers.filter(
          (answer) =>
            answer.kind === "promised" && answer.tail.tailEpoch === 3 && ["a", "b", "c"].includes(answer.journal),
        );
        if (choice.kind === "bucket") expect(choice.throughSeq).toBe(4);
        if (choice.kind !== "tail") return;
        const entries = [...choice.entries];
        expect(entries.every(({ payload, toSeq }) => payload === 3 && toSeq > 4)).toBe(true);
        expect(entries[0]?.afterSeq).toBeLessThanOrEqual(4);
        expect(entries.at(-1)?.toSeq).toBe(choice.throughSeq);
        expect(alive.some(({ journal }) => journal === choice.journal)).toBe(true);
      }),
    );
  });

  it("takes neither the newest promise, nor the newest entries, nor the longest tail of whatever epoch (C3)", () => {
    const answers = [promised("a", 3, 4, 6), promised("b", 4, 4, 9), promised("c", 2, 4, 10)];
    expect(chooseTail(record(), answers)).toMatchObject({ kind: "tail", journal: "a", throughSeq: 6 });
    expect(chooseTail(record(), answers.slice(1))).toEqual({ kind: "bucket", throughSeq: 4 });
  });

  it("waits for N − W + 1 of the recorded journals, and names the members that are missing (C2)", () => {
    const refused = { kind: "refused", journal: "b", epoch: 5, promised: 6 } as const;
    const other = { kind: "other_journal", journal: "c2", epoch: 5 } as const;
    const tooOld = promised("b", 3, 4, 9, 4);
    const twice = [promised("a", 3, 4, 6), promised("a", 3, 4, 6)];
    const choice = chooseTail(record(), [...twice, promised("stranger", 3, 4, 9), refused, other, tooOld]);
    const [, b, c] = record().set;
    expect(choice).toEqual({ kind: "waiting", needed: 2, answered: 1, missing: [b, c] });
    expect(answersNeeded(record().quorum)).toBe(2);
  });

  it("needs no journal when the bucket alone released (W = 0)", () => {
    expect(chooseTail(record({ copies: 1, acksToLand: 0 }), [])).toEqual({ kind: "bucket", throughSeq: 4 });
  });

  it("refuses a tail that starts beyond what the bucket covers (C3)", () => {
    const choice = chooseTail(record(), [promised("a", 3, 5, 8), promised("b", 3, 4, 6)]);
    expect(choice).toEqual({ kind: "broken", journal: "a", base: 5, covered: 4 });
  });

  it("takes a returning node's own file only if it is of the record's tailEpoch and goes beyond all else (C5)", () => {
    const answers = [promised("a", 3, 4, 6), promised("b", 3, 4, 5)];
    expect(chooseTail(record(), answers, { epoch: 3, seq: 7 })).toEqual({ kind: "own_file", throughSeq: 7 });
    expect(chooseTail(record(), answers, { epoch: 3, seq: 6 })).toMatchObject({ kind: "tail", throughSeq: 6 });
    expect(chooseTail(record(), answers, { epoch: 2, seq: 7 })).toMatchObject({ kind: "tail", throughSeq: 6 });
    expect(chooseTail(record(), answers.slice(1), { epoch: 3, seq: 7 }).kind).toBe("waiting");
  });
});
