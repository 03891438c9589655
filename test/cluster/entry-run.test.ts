import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EntryRun, type SeqRange } from "../../src/cluster/entry-run.js";

/** `back`: made of how many versions before the newest. */
type Change = { readonly back: number } & (
  | { readonly kind: "append"; readonly overlap: number; readonly seqs: number }
  | { readonly kind: "drop"; readonly seqs: number }
);

/** Tails grow longer than what is dropped at once, so that what is shared is also cut. */
const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      back: fc.nat(3),
      overlap: fc.nat(3),
      seqs: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("drop" as const), back: fc.nat(3), seqs: fc.nat(6) }) },
);

interface Version {
  readonly run: EntryRun<SeqRange>;
  readonly plain: readonly SeqRange[];
}

function changed({ run, plain }: Version, change: Change): Version {
  if (change.kind === "drop") {
    const seq = (plain[0]?.toSeq ?? 0) + change.seqs - 1;
    return { run: run.droppedThrough(seq), plain: plain.filter((entry) => entry.toSeq > seq) };
  }
  const last = plain.at(-1)?.toSeq ?? 10;
  const entry = { afterSeq: last - change.overlap, toSeq: last + change.seqs };
  return { run: run.appended(entry), plain: [...plain, entry] };
}

describe("a run of entries", () => {
  it("is an immutable value: what is made of it, or of any earlier one, changes no other", () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const versions: Version[] = [{ run: EntryRun.of(), plain: [] }];
        for (const one of changes) {
          versions.push(changed((versions.at(-1 - one.back) ?? versions[0]) as Version, one));
        }
        for (const { run, plain } of versions) {
          expect([...run]).toEqual(plain);
          expect(plain.map((_, index) => run.at(index))).toEqual(plain);
          expect(run.length).toBe(plain.length);
          expect(run.lastSeq).toBe(plain.at(-1)?.toSeq);
        }
      }),
    );
  });

  it("takes nothing that leaves a hole, or that ends where it ends", () => {
    const run = EntryRun.of({ afterSeq: 0, toSeq: 3 });
    expect(() => run.appended({ afterSeq: 4, toSeq: 5 })).toThrow(/continues the run/);
    expect(() => run.appended({ afterSeq: 2, toSeq: 3 })).toThrow(/continues the run/);
    expect(() => run.at(1)).toThrow(/within the run/);
  });

  it("ends as it should after as many appends and drops as a hot object makes in seconds", () => {
    let run = EntryRun.of<SeqRange>();
    for (let seq = 0; seq < 100_000; seq++) {
      run = run.appended({ afterSeq: seq, toSeq: seq + 1 });
      if (seq % 1_000 === 999) run = run.droppedThrough(seq - 5_000);
    }
    expect([...run].map(({ toSeq }) => toSeq)).toEqual(Array.from({ length: 5_001 }, (_, index) => 95_000 + index));
  });
});
