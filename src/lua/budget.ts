/**
 * What one run of Lua code may use: running time, instructions, memory, depth; and when it gives others their turn.
 *
 * Time counts only between `enter` and `leave`. The clock is read at the start and then every 1,000 steps; a run that may
 * be put aside is, once its slice is over and it stands at an instruction boundary. Below a host function such as
 * `table.sort`, or inside a metamethod that one called, that waits until it is back.
 */
import type { Clock } from "../world/world.js";
import type { LuaLimits } from "./contract.js";
import { type MeterRun, meter } from "./fengari/meter.js";
import { type LuaState, STATUS, type TValue } from "./fengari/types.js";
import type { Runtime } from "./runtime.js";

export const STEPS_PER_LOOK = 1_000;

export interface BudgetPlan {
  readonly runMs: number;
  /** How long before others get their turn; `undefined` runs through. */
  readonly sliceMs: number | undefined;
  /** Steps between two looks at the clock. */
  readonly stepsPerLook: number;
}

export class Budget implements MeterRun {
  #usedMs = 0;
  #sinceMs = 0;
  #steps = 0;
  #armed: number;
  #countdown: number;
  #bytes: number;

  constructor(
    readonly clock: Pick<Clock, "monotonicMs">,
    readonly limits: LuaLimits,
    readonly runtime: Runtime,
    readonly plan: BudgetPlan,
  ) {
    this.#armed = Math.min(plan.stepsPerLook, limits.instructionsMax);
    this.#countdown = this.#armed;
    this.#bytes = limits.memoryBytesMax;
  }

  /** From here on Lua code is charged to this budget. */
  enter(thread: LuaState): void {
    const { active } = this.runtime;
    active.length = 1;
    active[0] = thread;
    this.runtime.pausing = false;
    this.#sinceMs = this.clock.monotonicMs();
    meter.run = this;
    meter.countdown = this.#countdown;
    meter.bytes = this.#bytes;
    meter.depthMax = this.limits.callDepthMax;
    meter.stringBytesMax = this.limits.stringBytesMax;
    meter.nativeError = this.runtime.nativeError;
    meter.killed = null;
  }

  /** The run is put aside; what it used is kept. */
  pause(): void {
    this.#usedMs += this.clock.monotonicMs() - this.#sinceMs;
    this.#countdown = meter.countdown;
    this.#bytes = meter.bytes;
    meter.reset();
  }

  leave(): void {
    meter.reset();
  }

  stepsUsedUp(L: LuaState | null): void {
    this.#steps += this.#armed - meter.countdown;
    if (this.#steps >= this.limits.instructionsMax) meter.kill("instructions");
    const ranMs = this.clock.monotonicMs() - this.#sinceMs;
    if (this.#usedMs + ranMs > this.plan.runMs) meter.kill("time");
    this.#armed = Math.min(this.plan.stepsPerLook, this.limits.instructionsMax - this.#steps);
    meter.countdown = this.#armed;
    const { sliceMs } = this.plan;
    if (sliceMs === undefined || ranMs < sliceMs) return;
    if (L !== null && this.#canPause()) this.#putAside(L);
  }

  /** Every thread, from the call's own to the one that runs, must be able to stand still where it is. */
  #canPause(): boolean {
    for (const thread of this.runtime.active) if (thread.nny !== 0) return false;
    return true;
  }

  /** Leaves the interpreter before the instruction it was about to run, as a yielding hook would. */
  #putAside(L: LuaState): never {
    // The instruction is counted again when it runs.
    this.#armed += 1;
    meter.countdown = this.#armed;
    this.runtime.pausing = true;
    const { ci } = L;
    L.status = STATUS.yield;
    ci.extra = ci.funcOff;
    ci.l_savedpc -= 1;
    ci.funcOff = L.top - 1;
    ci.func = L.stack[ci.funcOff] as TValue;
    this.runtime.fengari.ldo.luaD_throw(L, STATUS.yield);
  }
}
