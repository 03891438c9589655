/** `moonport classes` */
import type { Command } from "commander";
import type { ClassInfo } from "../../src/node-api.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { propertiesOf } from "../table.js";

export function addClasses(program: Command): void {
  program
    .command("classes")
    .description("list the app's classes with their public methods, and its units")
    .addHelpText("after", "\nExample:\n  moonport classes --dir my-app")
    .action(async (_flags: object, command: Command) => {
      const context = contextOf(command);
      const all = await withNode(context, "classes", async ({ node }) => {
        return { classes: await node.classes(), units: await node.units() };
      });
      const classes = all.classes.filter(({ app }) => app === context.app);
      const units = all.units.filter(({ app }) => app === context.app);
      const isEmpty = classes.length + units.length === 0;
      if (isEmpty) context.output.talk(`the app ${context.app} has no classes and no units`);
      if (isEmpty && !context.output.json) return;
      const lines = [
        ...classes.map((info) => [info.name, methodsText(info)] as const),
        ...units.map(({ name }) => [name, "unit"] as const),
      ];
      context.output.result(lines.length === 0 ? "" : propertiesOf(lines), { classes, units });
    });
}

function methodsText({ methods }: ClassInfo): string {
  const names = (kind: "write" | "read"): string[] =>
    methods.filter((method) => method.kind === kind).map((method) => method.name);
  const [writing, reading] = [names("write"), names("read")];
  const parts = [writing.join(", "), reading.length === 0 ? "" : `reading: ${reading.join(", ")}`];
  return parts.filter((part) => part !== "").join("; ") || "no public methods";
}
