/** Many who sleep until one signal. */
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { sleep } from "../../src/world/world.js";

const SLEEPERS = 200;

it("wakes all at their time or at the signal, whichever comes first, and listens to it once", async () => {
  const time = new VirtualTime();
  const timers = {
    after: (delayMs: number, run: () => void) => time.after(delayMs, run),
    soon: (run: () => void) => time.soon(run),
  };
  const stopping = new AbortController();
  const woken: number[] = [];
  for (let index = 0; index < SLEEPERS; index++) {
    void sleep({ timers }, index + 1, stopping.signal).then(() => void woken.push(index));
  }
  expect(getEventListeners(stopping.signal, "abort")).toHaveLength(1);
  await time.advance(SLEEPERS / 2);
  expect(woken).toEqual(Array.from({ length: SLEEPERS / 2 }, (_, index) => index));
  stopping.abort();
  await time.settle();
  expect(woken).toHaveLength(SLEEPERS);
  expect(time.pendingTimers).toBe(0);
  await time.until(sleep({ timers }, 1_000_000, stopping.signal));
  expect(time.nowMs).toBe(SLEEPERS / 2);
});
