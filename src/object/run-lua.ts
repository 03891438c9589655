/** Running Lua to its end, giving the node's other work its turn between slices. */
import { assert } from "../errors.js";
import type { LuaInvocation, LuaStep } from "../lua/contract.js";
import { type World, yieldTurn } from "../world/world.js";

export type LuaEnd = Extract<LuaStep, { kind: "returned" | "failed" }>;

/**
 * Answers in the same tick when the code ends within its first slice, which nearly every call does.
 * @param stillWanted asked before each further slice; a throw from it abandons the invocation
 */
export function runLua(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  stillWanted: () => void,
): LuaEnd | Promise<LuaEnd> {
  const step = invocation.resume();
  return step.kind === "slice" ? resumeInSlices(world, invocation, stillWanted) : ended(step);
}

function ended(step: LuaStep): LuaEnd {
  assert(step.kind === "returned" || step.kind === "failed", "its host lets it wait for nothing");
  return step;
}

async function resumeInSlices(
  world: Pick<World, "timers">,
  invocation: LuaInvocation,
  stillWanted: () => void,
): Promise<LuaEnd> {
  for (;;) {
    await yieldTurn(world);
    try {
      stillWanted();
    } catch (error) {
      invocation.abandon();
      throw error;
    }
    const step = invocation.resume();
    if (step.kind !== "slice") return ended(step);
  }
}
