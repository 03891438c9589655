import fc from "fast-check";
import { expect, test } from "vitest";
import { BatchesUnderWay, type SizedBatch } from "../../src/bucket/batches-under-way.js";

const MIB = 1024 * 1024;

/** What happens: requests come, the thread answers its oldest batch, or it ends. */
const happening = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("come" as const),
      requests: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constant(700)),
    }),
  },
  { weight: 4, arbitrary: fc.constant({ kind: "answer" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "end" as const }) },
);

test("what waits leaves at once to a thread with little to do, a crowd to any, and neither beyond the bounds", () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 120 }), fc.integer({ min: 0, max: 3 * MIB }), (happenings, bytes) => {
      const underWay = new BatchesUnderWay<SizedBatch>();
      let given: { readonly number: number; readonly batch: SizedBatch }[] = [];
      let waiting = 0;
      let last = 0;
      for (const what of happenings) {
        if (what.kind === "come") waiting += what.requests;
        else if (what.kind === "end") {
          expect(underWay.takeAll()).toHaveLength(given.length);
          given = [];
        } else underWay.delete(given.shift()?.number ?? 0);
        while (underWay.mayLeave(waiting)) {
          const batch = { requests: Math.min(waiting, 1_024), bytes };
          underWay.add(++last, batch);
          given.push({ number: last, batch });
          waiting -= batch.requests;
        }
        const requests = given.reduce((sum, { batch }) => sum + batch.requests, 0);
        const isFull = given.length * bytes >= 16 * MIB || requests >= 2_048;
        expect(given.length).toBeLessThanOrEqual(16);
        expect((given.length - 1) * bytes).toBeLessThan(Math.max(16 * MIB, 1));
        expect(requests).toBeLessThan(2_048 + 1_024);
        if (waiting > 0) expect(isFull || given.length >= 2).toBe(true);
        if (waiting >= 32) expect(isFull || given.length === 16).toBe(true);
        for (const { number, batch } of given) expect(underWay.get(number)).toEqual(batch);
      }
    }),
  );
});
