/** Running Lua until it ends or waits, giving the node's other work its turn between slices. */
import { assert } from "../errors.js";
import type { LuaInvocation, LuaStep, WaitAnswer } from "../lua/contract.js";
import { type World, yieldTurn } from "../world/world.js";

/** Never `slice`. */
export type LuaStop = Exclude<LuaStep, { kind: "slice" }>;
export type LuaEnd = Exclude<LuaStop, { kind: "wait" }>;

/**
 * Answers in the same tick when the code stops within its first slice, which nearly every call does.
 * @param stillWanted asked before each further slice; a throw from it abandons the invocation
 * @param answer what the invocation waited for
 */
export function runLua(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  stillWanted: () => void,
  answer?: WaitAnswer,
): LuaStop | Promise<LuaStop> {
  const step = invocation.resume(answer);
  return step.kind === "slice" ? resumeInSlices(world, invocation, stillWanted) : step;
}

/** Of code whose host lets it wait for nothing. */
export function assertEnded(stop: LuaStop): LuaEnd {
  assert(stop.kind !== "wait", "its host lets it wait for nothing");
  return stop;
}

async function resumeInSlices(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  stillWanted: () => void,
): Promise<LuaStop> {
  for (;;) {
    await yieldTurn(world);
    try {
      stillWanted();
    } catch (error) {
      invocation.abandon();
      throw error;
    }
    const step = invocation.resume();
    if (step.kind !== "slice") return step;
  }
}
