/** A reading method run beside the mailbox, read-only, on whatever file it is given. */

import { asMoonportError } from "../errors.js";
import { SYSTEM_APP } from "../identity.js";
import type { Caller, LuaClass } from "../lua/contract.js";
import type { CallReply } from "../node-api.js";
import type { PlainValue } from "../values.js";
import { CallHost, type HostContext, type HostFile } from "./call-host.js";
import type { ObjectContext } from "./object-context.js";
import type { OpenObject } from "./open-object.js";
import { assertEnded, type LuaStop, runLua } from "./run-lua.js";

export interface Reading {
  readonly lua: LuaClass;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId?: string | undefined;
}

type ReadingContext = HostContext & Pick<ObjectContext, "quarantine">;

/** What the method answers, or answered before where it would be the same again. @throws as {@link runReading} */
export function answerReading(
  context: ReadingContext & Pick<ObjectContext, "counters">,
  open: OpenObject,
  reading: Reading,
): CallReply | Promise<CallReply> {
  // A class of the kernel's own may remember things by itself.
  if (open.object.app === SYSTEM_APP) return replyOf(runReading(context, open, reading));
  const { answers, database } = open;
  const mark = database.writeMark;
  const found = answers.find(reading, mark);
  if (found === undefined) return replyOf(runReading(context, open, reading));
  if (typeof found === "string") {
    let kept: CallReply | undefined;
    const keep = (value: PlainValue): void => {
      kept = answers.keep(found, reading.lua, mark, value);
    };
    const value = runReading(context, open, reading, keep);
    return value instanceof Promise ? value.then((late) => kept ?? { value: late }) : (kept ?? { value });
  }
  const refusal = context.quarantine.refusal(open.object, reading.method);
  if (refusal !== undefined) throw refusal;
  context.counters.rememberedReads++;
  return found;
}

function replyOf(value: PlainValue | Promise<PlainValue>): CallReply | Promise<CallReply> {
  return value instanceof Promise ? value.then((late) => ({ value: late })) : { value };
}

/**
 * @param repeatable told of an answer that would be the same another time
 * @throws MoonportError `quarantined`, what the method throws
 */
export function runReading(
  context: ReadingContext,
  file: HostFile,
  reading: Reading,
  repeatable?: (value: PlainValue) => void,
): PlainValue | Promise<PlainValue> {
  const refusal = context.quarantine.refusal(file.object, reading.method);
  if (refusal !== undefined) throw refusal;
  const host = new CallHost(context, file, reading.caller, "read", { callId: reading.callId });
  const conclude = (stop: LuaStop): PlainValue => {
    const end = assertEnded(stop);
    host.close();
    if (end.kind === "failed") throw asMoonportError(end.error);
    if (repeatable !== undefined && host.isRepeatable) repeatable(end.value);
    return end.value;
  };
  const invocation = reading.lua.start({ kind: "method", name: reading.method }, reading.args, host);
  const stop = runLua(context.world, invocation, () => undefined);
  return stop instanceof Promise ? stop.then(conclude) : conclude(stop);
}
