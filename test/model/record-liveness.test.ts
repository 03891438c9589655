import { describe, expect, it } from "vitest";
import { stuckScenes } from "./record-liveness.js";

const byTheRules = { claimsOwnLate: true, thaws: true, sendsAgain: true };

describe("an object's record, where every session lives for ever and messages are lost", () => {
  it("never gets stuck", () => {
    const { scenes, stuck, first } = stuckScenes(byTheRules);
    expect(first).toBeUndefined();
    expect(stuck).toBe(0);
    expect(scenes).toBeGreaterThan(1_000);
  });

  it("gets stuck when nobody answers a claim that landed late (C5)", () => {
    expect(stuckScenes({ ...byTheRules, claimsOwnLate: false }).stuck).toBeGreaterThan(0);
  });

  it("gets stuck when a frozen owner neither thaws nor sends its release again (O4, O5)", () => {
    expect(stuckScenes({ ...byTheRules, thaws: false, sendsAgain: false }).stuck).toBeGreaterThan(0);
    expect(stuckScenes({ ...byTheRules, thaws: false }).stuck).toBe(0);
    expect(stuckScenes({ ...byTheRules, sendsAgain: false }).stuck).toBe(0);
  });
});
