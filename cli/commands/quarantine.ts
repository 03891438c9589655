/** `moonport quarantine list`, `moonport quarantine clear Class/key method` */
import type { Command } from "commander";
import type { QuarantineEntry } from "../../src/node-api.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { tableOf } from "../table.js";
import { objectOf } from "../words.js";

/** As with `get`: absence is an answer. */
const EXIT_ABSENT = 3;
const COLUMNS = ["object", "method", "state", "stalls", "last", "statement"];

export function addQuarantine(program: Command): void {
  const quarantine = program.command("quarantine").description("methods that hung their node: see docs/operations.md");
  addListing(quarantine);
  addClearing(quarantine);
}

function addListing(quarantine: Command): void {
  quarantine
    .command("list")
    .description("list the methods that stalled, and which of them are refused")
    .addHelpText("after", "\nExample:\n  moonport quarantine list")
    .action(async (_flags: object, command: Command) => {
      const context = contextOf(command);
      const methods = await withNode(context, "quarantine", ({ node }) => node.quarantine());
      if (methods.length === 0) context.output.talk("no method has stalled");
      if (methods.length === 0 && !context.output.json) return;
      context.output.result(tableOf({ columns: COLUMNS, rows: methods.map(rowOf) }), { methods });
    });
}

function addClearing(quarantine: Command): void {
  quarantine
    .command("clear")
    .description("forget a method's stalls, so that it runs again")
    .argument("<object>", "Class/key")
    .argument("<method>", "the method, or on_create, on_wake, migrations, directory.row")
    .addHelpText("after", "\nExample:\n  moonport quarantine clear Auction/lot-42 bid")
    .action(async (object: string, method: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const cleared = await withNode(context, "quarantine", ({ node }) => node.clearQuarantine(identity, method));
      if (cleared) return context.output.result(`cleared ${method} of ${identity.id}`, { cleared });
      process.exitCode = EXIT_ABSENT;
      context.output.talk(`no stall of ${method} of ${identity.id} is known`);
      if (context.output.json) context.output.result("", { cleared });
    });
}

function rowOf({ object, method, quarantined, stalls, lastAtMs, statement }: QuarantineEntry): (string | number)[] {
  const state = quarantined ? "refused" : "runs";
  return [object, method, state, stalls, new Date(lastAtMs).toISOString(), statement ?? ""];
}
