/** What leaves at the end of a turn. */
import { expect, it } from "vitest";
import { TurnEnd } from "../../src/server/turn-end.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";

it("lets all of a turn leave together and in order, and what they bring about in the next one", async () => {
  const time = new VirtualTime();
  const turnEnd = new TurnEnd({
    timers: { after: (delayMs, run) => time.after(delayMs, run), soon: (run) => time.soon(run) },
  });
  const left: string[] = [];
  let turns = 0;
  const soon = time.soon.bind(time);
  time.soon = (run) => {
    turns++;
    return soon(run);
  };
  for (const name of ["a", "b", "c"]) {
    turnEnd.add(() => {
      left.push(name);
      if (name === "a") turnEnd.add(() => left.push("after a"));
    });
    for (let microtask = 0; microtask < 10; microtask++) await Promise.resolve();
  }
  expect(left).toEqual([]);
  await time.settleOnce();
  expect(left).toEqual(["a", "b", "c"]);
  await time.settleOnce();
  expect(left).toEqual(["a", "b", "c", "after a"]);
  expect(turns).toBe(2);
});
