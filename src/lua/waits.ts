/**
 * Standing still for an answer: a call to another object, `settle()`, `fetch(...)`.
 *
 * The code is put aside where it stands, as when its slice is over: through `pcall`, metamethods of Lua code, iterators and
 * coroutines of the class, none of which see it. It cannot stand still below a function of the host that Lua was called from
 * (a comparison of `table.sort`, a function given to `gsub`, `__tostring`, `__pairs`).
 */
import { assert } from "../errors.js";
import type { WaitRequest } from "./contract.js";
import type { LuaState } from "./fengari/types.js";
import type { Machine } from "./invocation.js";

/** @param what as the code wrote it, for errors: `Auction("lot-42"):bid` */
export function waitFor(machine: Machine, L: LuaState, what: string, request: WaitRequest): never {
  const { runtime } = machine;
  runtime.codeHost(L, what).mayWait(request);
  if (runtime.active.some((thread) => thread.nny !== 0)) {
    throw runtime.fail(
      L,
      `${what} waits for an answer, and nothing can wait inside a comparison of table.sort, a function given to gsub, or __tostring and __pairs`,
    );
  }
  runtime.waitsFor = request;
  runtime.pausing = true;
  return runtime.fengari.lua.lua_yieldk(L, 0, machine, goOn);
}

function goOn(L: LuaState, _status: number, { runtime, values }: Machine): number {
  const { answer } = runtime;
  assert(answer !== null, "whoever waited was given an answer");
  runtime.answer = null;
  if (answer.kind === "failed") throw answer.error;
  return runtime.push(L, values.toLua(answer.value));
}
