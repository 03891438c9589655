/** `moonport destroy Class/key` */
import readline from "node:readline/promises";
import type { Command } from "commander";
import { MoonportError } from "../../src/errors.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { objectOf } from "../words.js";

export function addDestroy(program: Command): void {
  program
    .command("destroy")
    .description("end an object: its state, timers and directory row")
    .argument("<object>", "Class/key")
    .option("--yes", "do not ask")
    .addHelpText("after", "\nExample:\n  moonport destroy Auction/lot-42 --yes")
    .action(async (object: string, flags: { readonly yes?: boolean }, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      if (flags.yes !== true) await confirm(identity.id);
      await withNode(context, "destroy", ({ node }) => node.destroy(identity));
      context.output.result(`destroyed ${identity.id}`, { destroyed: identity.id });
    });
}

/** @throws MoonportError `bad_option` unless a person says yes */
async function confirm(id: string): Promise<void> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw MoonportError.of("bad_option", `destroying ${id} needs --yes where nobody can be asked`);
  }
  const asking = readline.createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C and Ctrl-D are no yes either.
  const answer = await asking.question(`Destroy ${id}? Type yes: `).catch(() => "");
  asking.close();
  if (answer.trim().toLowerCase() !== "yes") throw MoonportError.of("bad_option", "not destroyed");
}
