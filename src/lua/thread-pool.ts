/** Coroutines that have ended well and can run another call. */
import type { LuaState } from "./fengari/types.js";
import type { Runtime } from "./runtime.js";

const IDLE_MAX = 64;
/** A thread that grew beyond this is not worth its memory while idle. */
const STACK_SLOTS_KEPT = 1_000;

export class ThreadPool {
  #idle: LuaState[] = [];

  constructor(readonly runtime: Runtime) {}

  take(): LuaState {
    return this.#idle.pop() ?? this.#make();
  }

  giveBack(thread: LuaState): void {
    if (this.#idle.length >= IDLE_MAX || thread.stack.length > STACK_SLOTS_KEPT) return;
    for (let slot = thread.top - 1; slot > 0; slot--) thread.stack[slot] = undefined;
    thread.top = 1;
    this.#idle.push(thread);
  }

  clear(): void {
    this.#idle = [];
  }

  #make(): LuaState {
    const { main, fengari } = this.runtime;
    const thread = fengari.lua.lua_newthread(main);
    fengari.lua.lua_pop(main, 1);
    return thread;
  }
}
