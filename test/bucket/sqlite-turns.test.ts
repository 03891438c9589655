import fc from "fast-check";
import { expect, test } from "vitest";
import { SqliteTurns } from "../../src/bucket/sqlite-turns.js";

const PATIENCE_MS = 1_000;

class Waits {
  readonly pauses: number[] = [];
  readonly turns = new SqliteTurns(PATIENCE_MS, (ms) => void this.pauses.push(ms));

  get totalMs(): number {
    return this.pauses.reduce((sum, ms) => sum + ms, 0);
  }

  /** A turn for which the file is busy so often. */
  take(busy: number, code = "SQLITE_BUSY"): number {
    let tries = 0;
    this.turns.take(() => {
      if (tries++ < busy) throw Object.assign(new Error("locked"), { code });
    });
    return tries;
  }
}

test("a file that is busy is asked for again until it is free, soon each time and never in step", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 500 }), (busy) => {
      const waits = new Waits();
      expect(waits.take(busy)).toBe(busy + 1);
      expect(waits.pauses).toHaveLength(busy);
      expect(Math.max(...waits.pauses)).toBeLessThan(0.5);
      expect(new Set(waits.pauses).size).toBe(busy);
    }),
  );
});

test("one that stays busy is given up when the patience is over, and another error at once", () => {
  const waits = new Waits();
  expect(() => waits.take(Number.POSITIVE_INFINITY, "SQLITE_BUSY_RECOVERY")).toThrow("locked");
  expect(waits.totalMs).toBeGreaterThan(PATIENCE_MS / 2);
  expect(waits.totalMs).toBeLessThan(PATIENCE_MS * 2);
  const others = new Waits();
  expect(() => others.take(1, "SQLITE_FULL")).toThrow("locked");
  expect(others.pauses).toEqual([]);
});

test("a writer that is alone pauses after no group; one that met others leaves each of them a chance, for a while", () => {
  const waits = new Waits();
  waits.take(0);
  waits.turns.leave(false);
  expect(waits.pauses).toEqual([]);
  for (const meet of [() => void waits.take(1), () => waits.turns.leave(true)]) {
    meet();
    const longestAsking = 0.45;
    waits.pauses.length = 0;
    waits.turns.leave(false);
    expect(waits.pauses[0]).toBeGreaterThan(longestAsking);
    for (let group = 0; group < 100; group++) waits.turns.leave(false);
    waits.pauses.length = 0;
    waits.turns.leave(false);
    expect(waits.pauses).toEqual([]);
  }
});
