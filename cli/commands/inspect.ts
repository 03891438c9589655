/** `moonport inspect Class/key` */
import type { Command } from "commander";
import type { Inspection } from "../../src/node-api.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { propertiesOf } from "../table.js";
import { objectOf } from "../words.js";

const STATES: Readonly<Record<Inspection["state"], string>> = {
  resident: "resident: its file is open, its task runs",
  local: "local: closed, with a file in the data folder",
  stored: "stored: in the bucket, without a local file",
  destroyed: "destroyed",
  unwritten: "never written",
};

export function addInspect(program: Command): void {
  program
    .command("inspect")
    .description("show where an object stands: position, shipping, queue, timers, tables, row")
    .argument("<object>", "Class/key")
    .addHelpText("after", "\nExample:\n  moonport inspect Auction/lot-42")
    .action(async (object: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const inspection = await withNode(context, "inspect", ({ node }) => node.inspect(identity), {
        isRepeatable: true,
      });
      context.output.result(propertiesOf(propertyLines(inspection)), inspection);
    });
}

function propertyLines(it: Inspection): (readonly [string, string])[] {
  const lines: (readonly [string, string])[] = [
    ["object", it.object],
    ...(it.node === undefined ? [] : [["node", it.node] as const]),
    ["state", STATES[it.state]],
    ["epoch", String(it.epoch)],
    ["seq", landed(it)],
    ["shipping", it.shipping.replace("_", " ")],
    ["mailbox", counted(it.mailboxCalls, "call")],
    [
      "bucket",
      `${it.snapshotSeq === undefined ? "no snapshot" : `snapshot at ${it.snapshotSeq}`}, ${counted(it.segments, "segment")}`,
    ],
    [
      "database",
      `${it.databaseBytes} bytes, ${it.tables.length === 0 ? "no tables" : `tables ${it.tables.join(", ")}`}`,
    ],
    ["class", `${it.classVersion?.slice(0, 12) ?? "-"}, ${counted(it.migrationsApplied, "migration")} applied`],
    ["timers", String(it.timers)],
    ["outbox", counted(it.outbox, "message")],
    ["events", it.events.count === 0 ? "none" : `${it.events.count} kept, the last is ${it.events.last}`],
  ];
  const row = it.directoryRow;
  if (row === undefined) return lines;
  lines.push(["row", `${jsonText(row.row)} of seq ${row.seq}`]);
  if (row.failure !== undefined) {
    const since = row.staleSinceMs === undefined ? "" : ` since ${new Date(row.staleSinceMs).toISOString()}`;
    lines.push(["row fails", `${row.failure}${since}`]);
  }
  return lines;
}

function landed({ seq, landedSeq, flying }: Inspection): string {
  if (landedSeq === seq) return `${seq}, landed`;
  return `${seq}, landed up to ${landedSeq}${flying ? ", a flight is under way" : ""}`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
