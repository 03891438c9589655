import { describe, expect, it } from "vitest";
import { roundMsOf, Silence } from "../../src/world/watchdog/silence.js";

describe("how long the main thread has been silent", () => {
  it("is the sum of the rounds without a beat", () => {
    const silence = new Silence(100);
    expect(silence.after(1, 100)).toBe(0);
    expect(silence.after(1, 100)).toBe(100);
    expect(silence.after(1, 130)).toBe(230);
    expect(silence.after(2, 100)).toBe(0);
    expect(silence.after(2, 100)).toBe(100);
  });

  it("hardly grows by the time in which the watching thread was stopped itself", () => {
    const silence = new Silence(100);
    silence.after(1, 100);
    // An hour of sleep between two rounds.
    expect(silence.after(1, 3_600_000)).toBe(200);
    expect(silence.after(2, 100)).toBe(0);
  });

  it("goes on growing after the process was stopped in the middle of a stall", () => {
    const silence = new Silence(100);
    for (let round = 0; round < 5; round++) silence.after(1, 100);
    silence.after(1, 3_600_000);
    expect(silence.after(1, 100)).toBe(400 + 200 + 100);
  });

  it("is looked at twenty times within the bound, and at least twice a second", () => {
    expect([100, 2_000, 10_000, 600_000].map(roundMsOf)).toEqual([5, 100, 500, 500]);
  });
});
