/** Running Lua until it ends or waits, giving the node's other work its turn between slices. */
import { assert } from "../errors.js";
import type { LuaInvocation, LuaStep, WaitAnswer } from "../lua/contract.js";
import { type World, yieldTurn } from "../world/world.js";

/** Never `slice`. */
export type LuaStop = Exclude<LuaStep, { kind: "slice" }>;
export type LuaEnd = Exclude<LuaStop, { kind: "wait" }>;

/**
 * Answers in the same tick when the code stops within its first slice, which nearly every call does.
 * @param mayGoOn asked before each further slice, and again after what it says to wait for; a throw from it abandons the
 *   invocation
 * @param answer what the invocation waited for
 */
export function runLua(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  mayGoOn: () => Promise<void> | undefined,
  answer?: WaitAnswer,
): LuaStop | Promise<LuaStop> {
  const step = invocation.resume(answer);
  return step.kind === "slice" ? resumeInSlices(world, invocation, mayGoOn) : step;
}

/** Of code whose host lets it wait for nothing. */
export function assertEnded(stop: LuaStop): LuaEnd {
  assert(stop.kind !== "wait", "its host lets it wait for nothing");
  return stop;
}

async function resumeInSlices(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  mayGoOn: () => Promise<void> | undefined,
): Promise<LuaStop> {
  for (;;) {
    await yieldTurn(world);
    try {
      for (let wait = mayGoOn(); wait !== undefined; wait = mayGoOn()) await wait;
    } catch (error) {
      invocation.abandon();
      throw error;
    }
    const step = invocation.resume();
    if (step.kind !== "slice") return step;
  }
}
