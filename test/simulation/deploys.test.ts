/** Fleets whose releases switch all the time: with nothing else going wrong no call fails, and in storms nothing is damaged. */
import { expect, test } from "vitest";
import { simulate } from "./simulate.js";

const SEEDS = [1, 2, 3, 4];
/** A shorter one: releases switch several times a second. */
const SHORT = { stormMs: 4_000, watchers: 0, destroyShare: 0 };

test("no call fails because of a deployment", { timeout: 240_000 }, async () => {
  for (const seed of SEEDS) {
    const plan = { ...SHORT, nodes: 1 + (seed % 4), deployers: 1 + (seed % 3), faults: {} };
    const { violations, failed, unknown } = await simulate({ seed, plan });
    expect([violations, failed, unknown], `seed ${seed}`).toEqual([[], 0, 0]);
  }
});

test("in storms each node comes to the release that is current, and none writes where a newer one has been", {
  timeout: 240_000,
}, async () => {
  for (const seed of SEEDS) {
    const { violations } = await simulate({
      seed: 500 + seed,
      plan: { ...SHORT, stormMs: 8_000, nodes: 2 + (seed % 3), deployers: 3 },
    });
    expect(violations, `seed ${500 + seed}`).toEqual([]);
  }
});
