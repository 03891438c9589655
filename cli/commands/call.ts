/** `moonport call Class/key method [args...]` */
import type { Command } from "commander";
import { checkMethodName, type ObjectIdentity } from "../../src/identity.js";
import type { Consistency, NodeApi } from "../../src/node-api.js";
import { SETTINGS } from "../../src/settings/settings.js";
import { type Context, contextOf, wholeNumber } from "../context.js";
import { type FoundNode, withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { argumentOf, callIdOf, objectOf } from "../words.js";

interface CallFlags {
  readonly id?: string;
  readonly timeout?: number;
  readonly consistency?: Consistency;
}

export function addCall(program: Command): void {
  program
    .command("call")
    .description("call a method of an object and print its reply")
    .argument("<object>", "Class/key")
    .argument("<method>")
    .argument("[args...]", "JSON where they parse as JSON, else strings")
    .option("--id <id>", "the call's id: a second call with it returns the first one's reply (default: a new one)")
    .option(
      "--timeout <ms>",
      "how long the call may wait for its turn; one that has begun is waited for, 15 s more at a running node",
      wholeNumber(1, SETTINGS.CALL_TIMEOUT_MS.max),
    )
    .addOption(
      program
        .createOption(
          "--consistency <consistency>",
          "of a reading method: a copy on the node that is asked may answer (default: the object's owner does)",
        )
        .choices(["replica"]),
    )
    .addHelpText(
      "after",
      `
Examples:
  moonport call Counter/visits increment
  moonport call Auction/lot-42 bid ada 25
  moonport call Chat/lobby say '"25"'            the string "25", not the number
  moonport call Chat/lobby say -- --hello        words after -- are never options`,
    )
    .action(async (object: string, method: string, words: string[], flags: CallFlags, command: Command) => {
      const context = contextOf(command);
      await call(context, objectOf(context.app, object), method, words, flags);
    });
}

async function call(
  context: Context,
  object: ObjectIdentity,
  method: string,
  words: readonly string[],
  flags: CallFlags,
): Promise<void> {
  checkMethodName(method);
  const args = words.map(argumentOf);
  const callId = callIdOf(flags.id);
  const use = async ({ node, kind }: FoundNode): Promise<void> => {
    const reply = await node.call({
      object,
      method,
      args,
      caller: { kind: "client" },
      callId,
      ...(flags.timeout !== undefined && { timeoutMs: flags.timeout }),
      ...(flags.consistency !== undefined && { consistency: flags.consistency }),
    });
    const { value, seq, from } = reply;
    const more = { ...(seq !== undefined && { seq }), ...(from !== undefined && { from }) };
    context.output.result(jsonText(value), { value, ...more, id: callId });
    if (kind === "own" && seq !== undefined) await tellOfTimers(context, node, object);
  };
  // Its id makes it so.
  await withNode(context, "call", use, { isRepeatable: true });
}

/** This process ends now, and timers fire in running nodes only. */
async function tellOfTimers(context: Context, node: NodeApi, object: ObjectIdentity): Promise<void> {
  const { timers } = await node.inspect(object);
  if (timers === 0) return;
  const what = timers === 1 ? "1 timer is" : `${timers} timers are`;
  context.output.talk(`${what} set on ${object.id}: only a running node lets them fire (moonport start)`);
}
