/** When an object that was woken is asked again: whichever of two clocks is wrong, and whenever it is set right. */
import { expect, it } from "vitest";
import { lookAgainMs } from "../../src/delay/look-again.js";

const WAIT_MAX_MS = 10_000;
const HOUR_MS = 3_600_000;
const NOW_MS = 1_000_000_000_000;

/** @param aheadMs how far the object's clock is ahead of the shard's */
function lookAgain(inMs: number | null, { aheadMs = 0, ran = 1 } = {}): number | null {
  const dueMs = inMs === null ? null : NOW_MS + aheadMs + inMs;
  const atMs = lookAgainMs({ epoch: 1, seq: 1, ran, inMs, dueMs }, NOW_MS, WAIT_MAX_MS);
  return atMs === null ? null : atMs - NOW_MS;
}

it("an object without timers is not woken", () => {
  expect(lookAgain(null)).toBeNull();
});

it("while the clocks agree it is when it falls due, and not a fraction before", () => {
  expect(lookAgain(5_000)).toBe(5_000);
  expect(lookAgain(5_000.25)).toBe(5_001);
});

it("what is due already is looked at at once after a run, and else a little later", () => {
  expect(lookAgain(-3)).toBe(0);
  expect(lookAgain(-3, { ran: 0 })).toBe(10);
});

it("an object whose clock is behind is asked when it is due by the shard's clock", () => {
  expect(lookAgain(2 * HOUR_MS + 1_000, { aheadMs: -2 * HOUR_MS })).toBe(1_000);
});

it("one that says two hours of what has passed here is asked again and again: its clock may be set right", () => {
  expect(lookAgain(2 * HOUR_MS, { aheadMs: -2 * HOUR_MS - 1_000, ran: 0 })).toBe(WAIT_MAX_MS);
  expect(lookAgain(3, { aheadMs: -1_000, ran: 0 })).toBe(10);
});

it("an object whose clock is ahead is asked when it is due by that", () => {
  expect(lookAgain(1_000, { aheadMs: 2 * HOUR_MS })).toBe(1_000);
});
