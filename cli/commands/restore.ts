/** `moonport restore Class/key --at POINT`, `moonport fork Class/key --to KEY [--at POINT]` */
import type { Command } from "commander";
import type { Restoration, Restored } from "../../src/node-api.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { objectOf, pointOf } from "../words.js";

export const AT_MEANING = "a seq, or a time: 2026-01-31T14:03:20Z, '2026-01-31 14:03:20', 14:03:20";

interface Flags {
  readonly at?: string;
  readonly dropTimers?: boolean;
}

export function addRestore(program: Command): void {
  program
    .command("restore")
    .description(
      "make an object what it was, in its place; can be undone, for what it was until now stays in its history",
    )
    .argument("<object>", "Class/key")
    .requiredOption("--at <point>", AT_MEANING)
    .option("--drop-timers", "leave away the timers that it had then")
    .addHelpText(
      "after",
      "\nExamples:\n  moonport restore Auction/lot-42 --at 14:03:20\n  moonport restore Auction/lot-42 --at 17",
    )
    .action(async (object: string, flags: Flags & { readonly at: string }, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const restoration = { ...restorationOf(flags), at: pointOf(flags.at, Date.now()) };
      const restored = await withNode(context, "restore", ({ node }) => node.restore(identity, restoration));
      context.output.result(
        `${restored.object} is what it was at ${fromText(restored)}; its seq is ${restored.seq}`,
        restored,
      );
    });
}

export function addFork(program: Command): void {
  program
    .command("fork")
    .description("begin another object of the class as what this one was, or is")
    .argument("<object>", "Class/key")
    .requiredOption("--to <key>", "the other object's key")
    .option("--at <point>", `${AT_MEANING}; default now`)
    .option("--drop-timers", "leave away the timers that it had then")
    .addHelpText("after", "\nExample:\n  moonport fork Auction/lot-42 --to lot-42-as-it-was --at 14:03:20")
    .action(async (object: string, flags: Flags & { readonly to: string }, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const restoration = restorationOf(flags);
      const forked = await withNode(context, "fork", ({ node }) => node.fork(identity, restoration, flags.to));
      context.output.result(`${forked.object} begins as ${identity.id} at ${fromText(forked)}`, forked);
    });
}

function restorationOf({ at, dropTimers }: Flags): Partial<Restoration> {
  return {
    ...(at !== undefined && { at: pointOf(at, Date.now()) }),
    ...(dropTimers === true && { timers: "drop" as const }),
  };
}

export function fromText({ fromSeq, fromMs }: Pick<Restored, "fromSeq" | "fromMs">): string {
  return `seq ${fromSeq}${fromMs === undefined ? "" : ` (${new Date(fromMs).toISOString()})`}`;
}
