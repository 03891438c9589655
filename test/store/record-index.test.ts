import fc from "fast-check";
import { expect, test } from "vitest";
import { RecordIndex } from "../../src/store/record-index.js";

/** Numbers that the index leads to for a print. */
function numbersOf(index: RecordIndex, print: number): number[] {
  const numbers: number[] = [];
  index.find(print, (number) => {
    numbers.push(number);
    return undefined;
  });
  return numbers.sort((a, b) => a - b);
}

test("leads to every record that is not forgotten, and to none under another print", () => {
  const prints = fc.integer({ min: -4, max: 4 }).map((small) => Math.imul(small, 0x40000001));
  fc.assert(
    fc.property(fc.array(prints, { maxLength: 600 }), fc.nat(2 ** 34), fc.nat(600), (added, first, forgotten) => {
      const index = new RecordIndex();
      const kept: { print: number; number: number }[] = [];
      for (const [at, print] of added.entries()) {
        // Newer ones, and from time to time one from before the first.
        const number = at % 5 === 4 ? first - at : first + at;
        index.add(print, number);
        kept.push({ print, number });
        if (at === forgotten) index.forgetThrough(first + at - 20);
      }
      const through = forgotten < added.length ? first + forgotten - 20 : 0;
      for (const print of new Set(added)) {
        const expected = kept.filter((one) => one.print === print && one.number > through).map(({ number }) => number);
        expect(numbersOf(index, print)).toEqual(expected.sort((a, b) => a - b));
      }
      expect(numbersOf(index, 12_345)).toEqual([]);
    }),
  );
});

test("costs sixteen bytes a record at most, however many came and went", () => {
  const index = new RecordIndex();
  const kept = 10_000;
  for (let number = 1; number <= 300_000; number++) {
    index.add(Math.imul(number, 0x9e3779b1), number);
    if (number % 64 === 0) index.forgetThrough(number - kept);
  }
  expect(index.slots).toBeLessThanOrEqual(kept * 2);
});

test("stops at what is found", () => {
  const index = new RecordIndex();
  for (const number of [1, 2, 3]) index.add(7, number);
  expect(index.find(7, (number) => (number === 2 ? "two" : undefined))).toBe("two");
  expect(index.find(8, () => "none")).toBeUndefined();
});
