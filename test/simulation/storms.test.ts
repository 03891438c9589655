/**
 * Fleets in storms: whatever goes wrong, nothing acknowledged is lost, every history is linearizable, nobody is stuck after.
 *
 * MOONPORT_SIM_SEEDS makes it longer ("1..3000"); `npm run sim -- --seed N --trace` shows one run.
 */
import { expect, test } from "vitest";
import { simulate } from "./simulate.js";

const [, FROM, TO] = /^(\d+)\.\.(\d+)$/.exec(process.env.MOONPORT_SIM_SEEDS ?? "1..30") ?? [];
const [from, to] = [Number(FROM), Number(TO)];
const STEP = 20;

for (let first = from; first <= to; first += STEP) {
  const last = Math.min(to, first + STEP - 1);
  test(`keeps its promises in the storms of seeds ${first} to ${last}`, { timeout: 240_000 }, async () => {
    for (let seed = first; seed <= last; seed++) {
      const { violations, acknowledged } = await simulate({ seed });
      expect(violations, `seed ${seed}`).toEqual([]);
      expect(acknowledged, `seed ${seed} did no work`).toBeGreaterThan(0);
    }
  });
}

/** What each of them was, README.md says. Since the system makes other timers and draws than then, most mean another run now. */
const FOUND = [
  51, 242, 300, 1193, 1332, 1371, 2099, 20_036, 20_050, 30_577, 30_787, 30_962, 30_970, 51_902, 52_061, 80_489, 82_110,
  82_183, 90_944, 92_004, 94_601, 94_605, 102_675, 103_804,
];

test("keeps its promises in the storms that have found a fault", { timeout: 240_000 }, async () => {
  for (const seed of FOUND) {
    const { violations } = await simulate({ seed });
    expect(violations, `seed ${seed}`).toEqual([]);
  }
});

test("two runs of a seed are the same to the last message", { timeout: 120_000 }, async () => {
  for (const seed of [3, 21, 33, 269]) {
    const runs = [await simulate({ seed }), await simulate({ seed })];
    expect(runs[0]?.hash, `seed ${seed}`).toBe(runs[1]?.hash);
  }
});
