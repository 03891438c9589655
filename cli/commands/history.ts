/** `moonport history Class/key` */
import type { Command } from "commander";
import type { HistoryEra, ObjectHistory } from "../../src/node-api.js";
import { contextOf, wholeNumber } from "../context.js";
import { withNode } from "../find-node.js";
import { tableOf } from "../table.js";
import { objectOf } from "../words.js";

const ERAS_MAX = 10_000;
const COLUMNS = ["seqs", "states", "from", "until", "made from", "epoch"];

export function addHistory(program: Command): void {
  program
    .command("history")
    .description("show what an object was and can be again: seqs, times, and what that is made from")
    .argument("<object>", "Class/key")
    .option("--limit <n>", "rows at most, the newest", wholeNumber(1, ERAS_MAX), 100)
    .addHelpText("after", "\nExample:\n  moonport history Auction/lot-42")
    .action(async (object: string, { limit }: { readonly limit: number }, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const history = await withNode(context, "history", ({ node }) => node.history(identity, limit));
      context.output.result(tableOf({ columns: COLUMNS, rows: history.eras.map(rowOf) }), history);
      context.output.talk(summaryOf(history));
    });
}

function rowOf(era: HistoryEra): (string | number)[] {
  const { fromSeq, toSeq, states, fromMs, untilMs, snapshotSeq, destroyed, epoch } = era;
  const until = untilMs === undefined ? "now" : iso(untilMs);
  return [
    fromSeq === toSeq ? `${toSeq}` : `${fromSeq}-${toSeq}`,
    states,
    fromMs === undefined ? "not known" : iso(fromMs),
    destroyed ? `${until}, destroyed` : until,
    snapshotSeq === undefined ? "nothing" : `snapshot ${snapshotSeq}`,
    epoch,
  ];
}

function summaryOf({ from, seq, destroyed, retentionMs }: ObjectHistory): string {
  const end = destroyed ? `it is destroyed at seq ${seq}` : `it stands at seq ${seq}`;
  if (from === undefined) return `nothing of its past is kept; ${end}`;
  const since = from.atMs === undefined ? "" : ` (${iso(from.atMs)})`;
  return `it can be restored from seq ${from.seq}${since} on; ${end}; what was replaced is kept for ${lasting(retentionMs)}`;
}

function lasting(ms: number): string {
  const units = [
    ["day", 86_400_000],
    ["hour", 3_600_000],
    ["minute", 60_000],
    ["second", 1_000],
  ] as const;
  const [name, size] = units.find(([, unitMs]) => ms >= unitMs && ms % unitMs === 0) ?? ["millisecond", 1];
  return `${ms / size} ${name}${ms === size ? "" : "s"}`;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
