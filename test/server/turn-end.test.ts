/** When replies leave: at the end of the step that made them, or, where a turn makes several, at the turn's end. */
import { expect, it } from "vitest";
import { TurnEnd } from "../../src/server/turn-end.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";

/** More steps than it takes to see how many leave in a turn. */
const STEPS = 40;

function make(): { readonly time: VirtualTime; readonly turnEnd: TurnEnd; readonly left: string[] } {
  const time = new VirtualTime();
  const turnEnd = new TurnEnd({
    timers: { after: (delayMs, run) => time.after(delayMs, run), soon: (run) => time.soon(run) },
  });
  return { time, turnEnd, left: [] };
}

/** The step's microtasks, and then its end. */
const stepEnds = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

async function crowdedTurn({ time, turnEnd, left }: ReturnType<typeof make>, names: readonly string[]): Promise<void> {
  for (const name of names) {
    turnEnd.add(() => left.push(name));
    await stepEnds();
  }
  left.push("turn");
  await time.settleOnce();
}

it("lets who is alone leave with the step that made it, and nothing wait for a turn", async () => {
  const { time, turnEnd, left } = make();
  for (let turn = 0; turn < STEPS; turn++) {
    turnEnd.add(() => left.push("first"));
    for (let microtask = 0; microtask < 10; microtask++) await Promise.resolve();
    expect(left).toEqual([]);
    await stepEnds();
    expect(left.splice(0)).toEqual(["first"]);
    await time.settleOnce();
  }
});

it("lets what one step makes leave together and in order, and what that brings about after it", async () => {
  const { turnEnd, left } = make();
  for (const name of ["a", "b", "c"]) {
    turnEnd.add(() => {
      left.push(name);
      if (name === "a") turnEnd.add(() => left.push("after a"));
    });
    await Promise.resolve();
  }
  expect(left).toEqual([]);
  await stepEnds();
  expect(left).toEqual(["a", "b", "c", "after a"]);
});

it("comes to let all of a turn leave at its end where several do, and goes back when they are gone", async () => {
  const all = make();
  const { time, turnEnd, left } = all;
  for (let turn = 0; turn < STEPS; turn++) await crowdedTurn(all, ["a", "b"]);
  expect(left.slice(0, 3)).toEqual(["a", "b", "turn"]);
  expect(left.slice(-3)).toEqual(["turn", "a", "b"]);

  // The turn that shows it still waits for its end.
  left.length = 0;
  await crowdedTurn(all, ["a"]);
  await crowdedTurn(all, ["a"]);
  expect(left).toEqual(["turn", "a", "a", "turn"]);
  turnEnd.add(() => left.push("alone"));
  await stepEnds();
  expect(left.at(-1)).toBe("alone");
  await time.settleOnce();
});
