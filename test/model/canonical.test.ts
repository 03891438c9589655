import { beforeAll, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { Canonical } from "./canonical.js";
import { SMALL, WIDE } from "./configurations.js";
import { modelOf, type Scope } from "./rules.js";
import type { ModelState } from "./state.js";
import { firstState, steps } from "./steps.js";

/** States along random walks, with all that could have come next. */
function statesOf(scope: Scope, seed: number, walks: number): ModelState[] {
  const model = modelOf(scope);
  const random = new SeededRandom(seed);
  const found: ModelState[] = [];
  for (let count = 0; count < walks; count++) {
    let state = firstState(model);
    for (let length = 0; length < 40; length++) {
      const next: ModelState[] = [];
      steps(model, state, { step: (one) => next.push(one), violation: () => undefined });
      if (next.length === 0) break;
      found.push(...next);
      state = next[random.below(next.length)] as ModelState;
    }
  }
  return found;
}

const canonical = new Canonical();

function bytesOf(state: ModelState): string {
  return Buffer.from(canonical.bytes(state)).toString("hex");
}

describe("a state as bytes", () => {
  let states: ModelState[] = [];

  beforeAll(() => {
    states = [...statesOf(WIDE["4n-upto3-E5W5"], 1, 12), ...statesOf(WIDE["3n-E5W5-messages"], 2, 8)];
  });

  it("does not tell in which order the slots stand", () => {
    for (const state of states) {
      const turned = [...state.slots.slice(1), ...state.slots.slice(0, 1)];
      expect(bytesOf({ ...state, slots: turned })).toBe(bytesOf(state));
      expect(bytesOf({ ...state, slots: turned.toReversed() })).toBe(bytesOf(state));
    }
  });

  it("tells what journals hold, what was told, who claimed, and what was spent", () => {
    for (const state of states) {
      const bytes = bytesOf(state);
      const { slots, spent, record, claimants } = state;
      const promising = slots.map((slot) => ({ ...slot, held: slot.held && { ...slot.held, promised: 9 } }));
      expect(bytesOf({ ...state, slots: promising })).not.toBe(bytes);
      expect(bytesOf({ ...state, told: [...state.told, 99] })).not.toBe(bytes);
      expect(bytesOf({ ...state, record: { ...record, tailEpoch: 9 } })).not.toBe(bytes);
      expect(bytesOf({ ...state, claimants: claimants.slice(1) })).not.toBe(bytes);
      expect(bytesOf({ ...state, spent: { ...spent, writes: 9 } })).not.toBe(bytes);
    }
  });

  it("has a hash that tells apart what the bytes tell apart", () => {
    const bytes = new Set<string>();
    const hashes = new Set<string>();
    for (const state of [...states, ...statesOf(SMALL["3n-E2W2"], 3, 100)]) {
      bytes.add(bytesOf(state));
      hashes.add(`${canonical.hashHigh} ${canonical.hashLow}`);
    }
    expect(bytes.size).toBeGreaterThan(2_000);
    expect(hashes.size).toBe(bytes.size);
  });
});
