/**
 * What every object does at Moonport's own word, in a call like any other: through its mailbox, in a transaction, under a call id.
 * No class has a method of such a name, and none can be called from outside.
 */
import { asMoonportError } from "../errors.js";
import type { Caller, CallHost, LuaInvocation, LuaStep } from "../lua/contract.js";
import type { PlainValue } from "../values.js";

/** Emits an event: `[name, data]`. */
export const EMIT = "$emit";

/** Whether a call is one that only Moonport makes, by a message. */
export function isKernelCall(method: string, caller: Caller): boolean {
  return method === EMIT && caller.kind === "message";
}

export function startEmit([name = "", data = null]: readonly PlainValue[], host: CallHost): LuaInvocation {
  const emit = (): LuaStep => {
    try {
      host.emit(String(name), data);
      return { kind: "returned", value: null };
    } catch (thrown) {
      return { kind: "failed", error: asMoonportError(thrown) };
    }
  };
  return { resume: emit, abandon() {} };
}
