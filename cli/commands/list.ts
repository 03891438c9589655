/** `moonport list Class/key [prefix]` */
import type { Command } from "commander";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { propertiesOf } from "../table.js";
import { objectOf } from "../words.js";

export function addList(program: Command): void {
  program
    .command("list")
    .description("print what an object's store holds, at most 1,000 entries")
    .argument("<object>", "Class/key")
    .argument("[prefix]", "only keys that begin with it", "")
    .addHelpText("after", "\nExample:\n  moonport list Chat/lobby member:")
    .action(async (object: string, prefix: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const entries = await withNode(context, "list", ({ node }) => node.storeList(identity, prefix), {
        isRepeatable: true,
      });
      if (entries.length === 0) context.output.talk(`${identity.id} stores nothing${prefix && ` under "${prefix}"`}`);
      if (entries.length === 0 && !context.output.json) return;
      const lines = entries.map(([key, value]) => [key, jsonText(value)] as const);
      const document = { entries: entries.map(([key, value]) => ({ key, value })) };
      context.output.result(lines.length === 0 ? "" : propertiesOf(lines), document);
    });
}
