/** A reading method run beside the mailbox, read-only, on whatever file it is given. */
import { asMoonportError } from "../errors.js";
import type { Caller, LuaClass } from "../lua/contract.js";
import type { PlainValue } from "../values.js";
import { CallHost, type HostContext, type HostFile } from "./call-host.js";
import type { ObjectContext } from "./object-context.js";
import { assertEnded, type LuaStop, runLua } from "./run-lua.js";

export interface Reading {
  readonly lua: LuaClass;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId?: string | undefined;
}

/** @throws MoonportError `quarantined`, what the method throws */
export function runReading(
  context: HostContext & Pick<ObjectContext, "quarantine">,
  file: HostFile,
  reading: Reading,
): PlainValue | Promise<PlainValue> {
  const refusal = context.quarantine.refusal(file.object, reading.method);
  if (refusal !== undefined) throw refusal;
  const host = new CallHost(context, file, reading.caller, "read", { callId: reading.callId });
  const conclude = (stop: LuaStop): PlainValue => {
    const end = assertEnded(stop);
    host.close();
    if (end.kind === "failed") throw asMoonportError(end.error);
    return end.value;
  };
  const invocation = reading.lua.start({ kind: "method", name: reading.method }, reading.args, host);
  const stop = runLua(context.world, invocation, () => undefined);
  return stop instanceof Promise ? stop.then(conclude) : conclude(stop);
}
