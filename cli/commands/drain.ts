/** `moonport drain [node]` */
import type { Command } from "commander";
import { contextOf } from "../context.js";
import { withRunningNode } from "../find-node.js";

export function addDrain(program: Command): void {
  program
    .command("drain")
    .description(
      "have a node of the fleet give all its objects to the others; it stays, keeps its journal and sends calls on",
    )
    .argument("[node]", "its name; the node that is asked by default")
    .option("--undo", "have it take objects again")
    .addHelpText(
      "after",
      `
Examples:
  moonport drain n2
  moonport drain n2 --undo

A node that is drained holds nothing that a stop would have to move. Started again it takes objects.`,
    )
    .action(async (node: string | undefined, { undo = false }: { readonly undo?: boolean }, command: Command) => {
      const context = contextOf(command);
      const request = { ...(node !== undefined && { node }), undo };
      const drained = await withRunningNode(context, (client) => client.drain(request));
      const left = drained.left === 0 ? "has no objects any more" : `still has ${drained.left} objects: ask again`;
      context.output.result(undo ? `${drained.node} takes objects` : `${drained.node} ${left}`, drained);
    });
}
