/** `moonport get Class/key storeKey` */
import type { Command } from "commander";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { objectOf } from "../words.js";

/** The exit code of "not found", without an error: absence is an answer. */
const EXIT_ABSENT = 3;

export function addGet(program: Command): void {
  program
    .command("get")
    .description("print one value of an object's store")
    .argument("<object>", "Class/key")
    .argument("<store-key>")
    .addHelpText("after", "\nExample:\n  moonport get Auction/lot-42 top")
    .action(async (object: string, storeKey: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const value = await withNode(context, "get", ({ node }) => node.storeGet(identity, storeKey), {
        isRepeatable: true,
      });
      if (value !== undefined) return context.output.result(jsonText(value), { found: true, value });
      process.exitCode = EXIT_ABSENT;
      context.output.talk(`${identity.id} stores nothing under "${storeKey}"`);
      if (context.output.json) context.output.result("", { found: false });
    });
}
