/** The record of an app's releases: what follows it, and what a release with other migrations has to be afraid of. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Release } from "../../src/release/contract.js";
import {
  currentOf,
  type Declared,
  decodeReleaseRecord,
  encodeReleaseRecord,
  limitsOf,
  nextRecord,
  type ReleaseRecord,
} from "../../src/release/record.js";

let ids = 0;
function release(more: Partial<Release> = {}): Omit<Release, "number"> {
  const { number: _, ...rest } = { number: 0, ...more };
  return { id: `id-${++ids}`, bundle: "ab".repeat(32), files: 1, bytes: 2, atMs: 3, by: "ada", message: "", ...rest };
}

function next(before: ReleaseRecord | undefined, declared: Declared = new Map(), keptMax = 20): ReleaseRecord {
  return nextRecord(before, { app: "shop", release: release(), declared, keptMax });
}

const declares = (...hashes: string[]): Declared => new Map([["A", hashes]]);

describe("the record", () => {
  it("counts on from the last release, and keeps no more than it may", () => {
    let record = next(undefined);
    expect(record.releases.map(({ number }) => number)).toEqual([1]);
    for (let count = 0; count < 6; count++) record = next(record, new Map(), 3);
    expect(record.releases.map(({ number }) => number)).toEqual([5, 6, 7]);
    expect(currentOf(record).number).toBe(7);
  });

  it("comes back as it was", () => {
    const hash = fc.stringMatching(/^[0-9a-f]{4}$/);
    const step = fc.record({
      by: fc.string({ unit: "binary", maxLength: 10 }),
      message: fc.string({ unit: "binary", maxLength: 10 }),
      rollbackOf: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
      isAccepting: fc.boolean(),
      declared: fc.dictionary(fc.constantFrom("A", "B", "__proto__"), fc.array(hash, { maxLength: 4 })),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (steps) => {
        let record: ReleaseRecord | undefined;
        for (const { by, message, rollbackOf, isAccepting, declared } of steps) {
          const made = release({
            by,
            message,
            ...(rollbackOf !== undefined && { rollbackOf }),
            ...(isAccepting && { acceptsMigrated: true }),
          });
          const parts = { app: "shop", release: made, declared: new Map(Object.entries(declared)), keptMax: 3 };
          record = nextRecord(record, parts);
        }
        const before = record as ReleaseRecord;
        expect(decodeReleaseRecord("shop", encodeReleaseRecord(before))).toEqual(before);
      }),
    );
  });

  it("that is damaged, another app's or of a later format is refused and never half believed", () => {
    const bytes = encodeReleaseRecord(next(next(undefined)));
    const text = Buffer.from(bytes).toString("utf8");
    const broken = [
      "",
      "null",
      "[]",
      text.slice(0, -2),
      text.replace('"format":1', '"format":9'),
      text.replace('"number":2', '"number":1'),
      text.replace('"number":1', '"number":-1'),
      text.replace('"bundle":"abab', '"bundle":"../abab'),
      text.replace('"by":"ada"', '"by":7'),
      text.replace('"releases":[', '"releases":[7,'),
      text.replace('"migrations":[]', '"migrations":[[1]]'),
      text.replace(/"releases":\[.*\],"migrations"/, '"releases":[],"migrations"'),
    ];
    for (const one of broken) {
      expect(() => decodeReleaseRecord("shop", Buffer.from(one)), one).toThrow(
        expect.objectContaining({ code: "release_damaged" }),
      );
    }
    expect(() => decodeReleaseRecord("other", bytes)).toThrow(/belongs to shop/);
  });
});

describe("migrations", () => {
  it("that are added ask for no look at any object", () => {
    const record = next(next(undefined, declares("a")), declares("a", "b"));
    expect(limitsOf(record, declares("a", "b", "c"))).toEqual([]);
    expect(limitsOf(record, declares("a", "b"))).toEqual([]);
    expect(limitsOf(undefined, declares("a"))).toEqual([]);
  });

  it("that are fewer than some release had are a limit, however many releases ago that was", () => {
    let record = next(undefined, declares("a", "b", "c"));
    record = next(record, declares("a"));
    record = next(record, declares("a"));
    expect(limitsOf(record, declares("a", "b"))).toEqual([{ className: "A", declared: 2, isChanged: false }]);
    expect(limitsOf(record, declares("a", "b", "c", "d"))).toEqual([]);
  });

  it("of which a text was changed are a limit from there on", () => {
    const record = next(undefined, declares("a", "b", "c"));
    expect(limitsOf(record, declares("a", "x", "c", "d"))).toEqual([{ className: "A", declared: 1, isChanged: true }]);
    // No object had come so far: from now on the other text is what objects may have.
    expect(limitsOf(next(record, declares("a", "x")), declares("a", "x", "y"))).toEqual([]);
  });

  it("of a class that is left away for a while are not forgotten", () => {
    const record = next(next(undefined, declares("a", "b")), new Map());
    expect(limitsOf(record, declares("a"))).toEqual([{ className: "A", declared: 1, isChanged: false }]);
  });
});
