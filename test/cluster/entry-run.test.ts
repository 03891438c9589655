import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EntryRun, type SeqRange } from "../../src/cluster/entry-run.js";

type Change = { readonly of: number } & (
  | { readonly kind: "append"; readonly overlap: number; readonly seqs: number }
  | { readonly kind: "drop"; readonly seqs: number }
);

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({
    kind: fc.constant("append" as const),
    of: fc.nat(),
    overlap: fc.nat(3),
    seqs: fc.integer({ min: 1, max: 4 }),
  }),
  fc.record({ kind: fc.constant("drop" as const), of: fc.nat(), seqs: fc.nat(6) }),
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
          // Mostly the newest, as a journal does, and now and then an old one.
          const back = one.of % 4 === 0 ? one.of % versions.length : 0;
          versions.push(changed(versions[versions.length - 1 - back] as Version, one));
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
