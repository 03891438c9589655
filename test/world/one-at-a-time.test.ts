import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OneAtATime } from "../../src/world/one-at-a-time.js";
import "../support/property-seed.js";

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
};

describe("work that runs one at a time", () => {
  it("after whatever moment it is asked for, a run begins, and never two at once", async () => {
    const ask = fc.record({ afterTurns: fc.nat(6), runTurns: fc.nat(4) });
    await fc.assert(
      fc.asyncProperty(fc.array(ask, { minLength: 1, maxLength: 12 }), async (asks) => {
        let [asked, seen, underWay, runs] = [0, 0, 0, 0];
        const work = new OneAtATime(async () => {
          expect(++underWay).toBe(1);
          seen = asked;
          await turns(asks[runs++ % asks.length]?.runTurns ?? 0);
          underWay--;
        });
        for (const { afterTurns } of asks) {
          await turns(afterTurns);
          asked++;
          work.begin();
        }
        await work.ended();
        expect(seen).toBe(asked);
        expect(work.isRunning).toBe(false);
        expect(runs).toBeLessThanOrEqual(asks.length);
      }),
      { numRuns: 300 },
    );
  });

  it("asked for by its own run, it runs again", async () => {
    let runs = 0;
    const work = new OneAtATime(async () => {
      if (++runs < 3) work.begin();
    });
    work.begin();
    await work.ended();
    expect(runs).toBe(3);
  });
});
