/**
 * The one meter that edited fengari code charges: steps, bytes and depth of whatever Lua code runs right now.
 *
 * Lua runs synchronously and one call at a time in a process, so there is one meter for all engines; a budget sets it on
 * the way in and takes it back on the way out. A kill is a JavaScript throw that no Lua code sees: `killed` stays set
 * until the budget that ran out is left, and fengari's protected calls pass everything on while it is.
 */
import type { LuaState, TValue } from "./types.js";

export type KillKind = "time" | "memory" | "depth" | "instructions";

/** Thrown through the whole Lua machine; never an Error, since nobody may mistake it for one. */
export class Killed {
  constructor(readonly kind: KillKind) {}
}

export interface MeterRun {
  /** The steps armed are used up. `L` is set at an instruction boundary, where the run may also be put aside. */
  stepsUsedUp(L: LuaState | null): void;
}

const IDLE = 0x3fff_ffff;

class Meter {
  /** Steps until the run wants to look at its clock; may go negative. One instruction or one unit of library work each. */
  countdown = IDLE;
  /** Bytes left. */
  bytes = IDLE;
  depthMax = IDLE;
  stringBytesMax = IDLE;
  killed: KillKind | null = null;
  run: MeterRun | null = null;
  /** Turns a JavaScript error that surfaced inside Lua into a Lua value. */
  nativeError: (L: LuaState, error: unknown) => TValue = (_L, error) => {
    throw error;
  };

  /** From the interpreter's loop. */
  tick(L: LuaState): void {
    if (this.run === null) this.countdown = IDLE;
    else this.run.stepsUsedUp(L);
  }

  /** From a library's loop. */
  spent(): void {
    if (this.run === null) this.countdown = IDLE;
    else this.run.stepsUsedUp(null);
  }

  exhausted(): void {
    if (this.run === null) this.bytes = IDLE;
    else this.kill("memory");
  }

  tooDeep(): never {
    this.kill("depth");
  }

  kill(kind: KillKind): never {
    this.killed = kind;
    throw new Killed(kind);
  }

  reset(): void {
    this.countdown = IDLE;
    this.bytes = IDLE;
    this.depthMax = IDLE;
    this.stringBytesMax = IDLE;
    this.killed = null;
    this.run = null;
  }
}

export type { Meter };
export const meter = new Meter();
