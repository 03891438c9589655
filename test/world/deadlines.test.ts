/** The one timer behind all mailboxes: whoever asked to be looked at is, in time and not before, however many there are. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { Deadlines, LOOK_STEP_MS } from "../../src/world/deadlines.js";

it("looks at each place in the step after the earliest moment that was asked for, and at none that was cancelled", async () => {
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ place: fc.nat(63), inMs: fc.nat(2_000) }) },
    { weight: 4, arbitrary: fc.record({ place: fc.nat(63), cancel: fc.constant(true) }) },
    { weight: 1, arbitrary: fc.record({ passMs: fc.nat(300) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 50, maxLength: 300 }), async (steps) => {
      const time = new VirtualTime();
      const deadlines = new Deadlines({ clock: { wallMs: () => 0, monotonicMs: () => time.nowMs }, timers: time });
      const asked = new Map<number, number>();
      const watches = Array.from({ length: 64 }, (_, place) =>
        deadlines.watch((nowMs) => {
          const momentMs = asked.get(place) ?? Number.NaN;
          expect(nowMs).toBeGreaterThan(momentMs);
          expect(nowMs).toBeLessThanOrEqual(momentMs + LOOK_STEP_MS);
          asked.delete(place);
          return Number.POSITIVE_INFINITY;
        }),
      );
      for (const todo of steps) {
        if ("passMs" in todo) await time.advance(todo.passMs);
        else if ("cancel" in todo) {
          watches[todo.place]?.cancel();
          asked.delete(todo.place);
        } else {
          const momentMs = time.nowMs + todo.inMs;
          watches[todo.place]?.lookAfter(momentMs);
          asked.set(todo.place, Math.min(momentMs, asked.get(todo.place) ?? momentMs));
        }
        expect(deadlines.size).toBe(asked.size);
      }
      await time.advance(2_000 + LOOK_STEP_MS);
      expect([deadlines.size, asked.size]).toEqual([0, 0]);
    }),
    { numRuns: 200 },
  );
});
