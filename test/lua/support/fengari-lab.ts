/** Bare fengari with a choice of edits, to show what each edit is for. */

import { EDITS } from "../../../src/lua/fengari/edits.js";
import { loadFengari, loadWith } from "../../../src/lua/fengari/load.js";
import { Killed, type MeterRun, meter } from "../../../src/lua/fengari/meter.js";
import {
  type Fengari,
  type LuaFunction,
  type LuaState,
  type Table,
  type TString,
  type TValue,
  TYPE,
} from "../../../src/lua/fengari/types.js";

export interface LabLimits {
  readonly steps?: number;
  readonly bytes?: number;
  readonly depth?: number;
  readonly stringBytes?: number;
}

/** What a chunk returned as text, `killed: kind`, or `error: message`. */
export type Outcome = string;

export class Lab {
  readonly fengari: Fengari;
  readonly main: LuaState;

  constructor(readonly without: readonly string[] = []) {
    this.fengari =
      without.length === 0 ? loadFengari() : loadWith(EDITS.filter((edit) => !without.includes(edit.name)));
    this.main = this.fengari.lua.lua_newstate();
    for (const [name, open] of Object.entries(this.fengari.libraries)) {
      open(this.main);
      if (name !== "base") this.setGlobal(name, this.main.stack[this.main.top - 1] as TValue);
      this.fengari.lua.lua_settop(this.main, 0);
    }
    this.setGlobal("coroutine", this.value(TYPE.table, this.#coroutines()));
  }

  /** As little of `coroutine` as the cases need. */
  #coroutines(): Table {
    const { lua, ltable } = this.fengari;
    const create = (L: LuaState): LuaState => {
      const body = L.stack[L.ci.funcOff + 1] as TValue;
      const co = lua.lua_newthread(L);
      co.stack[co.top++] = this.value(body.type, body.value);
      return co;
    };
    const functions: Record<string, LuaFunction> = {
      create: (L) => {
        create(L);
        return 1;
      },
      wrap: (L) => {
        const co = create(L);
        const resume: LuaFunction = (inner) => {
          const status = lua.lua_resume(co, inner, 0);
          const count = status > 1 ? 1 : lua.lua_gettop(co);
          lua.lua_xmove(co, inner, count);
          return status > 1 ? lua.lua_error(inner) : count;
        };
        L.stack[L.top++] = this.value(TYPE.jsFunction, resume);
        return 1;
      },
      yield: (L) => lua.lua_yieldk(L, 0, null, null),
    };
    const table = new ltable.Table(this.main);
    for (const [name, f] of Object.entries(functions)) {
      const key = this.text(name);
      ltable.add(table, key.hash, this.value(TYPE.string, key), this.value(TYPE.jsFunction, f));
    }
    return table;
  }

  get globals(): Table {
    this.fengari.libraries.base(this.main);
    const table = (this.main.stack[this.main.top - 1] as TValue).value as Table;
    this.fengari.lua.lua_settop(this.main, 0);
    return table;
  }

  setGlobal(name: string, value: TValue): void {
    const key = this.text(name);
    this.fengari.ltable.add(this.globals, key.hash, this.value(TYPE.string, key), this.value(value.type, value.value));
  }

  value(type: number, value: unknown): TValue {
    return new this.fengari.lobject.TValue(type, value);
  }

  text(text: string): TString {
    const string = new this.fengari.lstring.TString(this.main, Buffer.from(text));
    string.hash = text;
    return string;
  }

  thread(): LuaState {
    const thread = this.fengari.lua.lua_newthread(this.main);
    this.fengari.lua.lua_settop(this.main, 0);
    return thread;
  }

  run(code: string, limits: LabLimits = {}, thread = this.thread()): Outcome {
    const { lua, lauxlib } = this.fengari;
    const text = Buffer.from(code);
    lauxlib.luaL_loadbufferx(thread, text, text.length, Buffer.from("=code"), Buffer.from("t"));
    enter(new StepLimit(limits.steps ?? Number.POSITIVE_INFINITY), limits);
    meter.nativeError = (_L, error) => this.value(TYPE.string, this.text(`native: ${(error as Error).message}`));
    try {
      const status = lua.lua_resume(thread, this.main, 0);
      const texts = thread.stack.slice(1, thread.top).map((value) => show(value as TValue));
      return status === 0 ? texts.join(" ") : `error: ${texts.at(-1)}`;
    } catch (thrown) {
      return thrown instanceof Killed ? `killed: ${thrown.kind}` : `thrown: ${(thrown as Error).message}`;
    } finally {
      meter.reset();
    }
  }
}

class StepLimit implements MeterRun {
  #steps = 0;
  constructor(readonly stepsMax: number) {}
  stepsUsedUp(): void {
    this.#steps += 1_000 - meter.countdown;
    if (this.#steps >= this.stepsMax) meter.kill("instructions");
    meter.countdown = 1_000;
  }
}

function enter(run: MeterRun, limits: LabLimits): void {
  meter.run = run;
  meter.countdown = 1_000;
  meter.bytes = limits.bytes ?? 1_000_000_000;
  meter.depthMax = limits.depth ?? 1_000_000;
  meter.stringBytesMax = limits.stringBytes ?? 1_000_000_000;
}

function show(value: TValue): string {
  if ((value.type & 0x0f) === 4) return Buffer.from((value.value as TString).getstr()).toString("latin1");
  return String(value.value);
}
