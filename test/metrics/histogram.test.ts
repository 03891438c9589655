import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WAIT_BOUNDS_MS, WaitHistogram } from "../../src/metrics/histogram.js";

describe("a histogram of waits", () => {
  it("counts each wait under the lowest bound that holds it, and adds them up", () => {
    const wait = fc.oneof(fc.constantFrom(...WAIT_BOUNDS_MS, 0), fc.double({ min: 0, max: 100_000, noNaN: true }));
    fc.assert(
      fc.property(fc.array(wait), (waits) => {
        const histogram = new WaitHistogram();
        for (const ms of waits) histogram.record(ms);
        const expected = [...WAIT_BOUNDS_MS, Number.POSITIVE_INFINITY].map(
          (bound, at) =>
            waits.filter((ms) => ms <= bound && (at === 0 || ms > (WAIT_BOUNDS_MS[at - 1] as number))).length,
        );
        expect([...histogram.counts]).toEqual(expected);
        expect(histogram.sumMs).toBeCloseTo(
          waits.reduce((sum, ms) => sum + ms, 0),
          6,
        );
      }),
    );
  });
});
