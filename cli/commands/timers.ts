/** `moonport timers Class/key` */
import type { Command } from "commander";
import type { ObjectTimers } from "../../src/delay/contract.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { tableOf } from "../table.js";
import { shownTime } from "../times.js";
import { objectOf } from "../words.js";

const TIMER_COLUMNS = ["id", "name", "method", "plan", "state", "next", "runs", "last", "error"];
const RUN_COLUMNS = ["timer", "name", "method", "due", "ran", "outcome", "error"];

export function addTimers(program: Command): void {
  program
    .command("timers")
    .description("show an object's timers, and how their last runs went")
    .argument("<object>", "Class/key")
    .addHelpText("after", "\nExample:\n  moonport timers Auction/lot-42")
    .action(async (object: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const identity = objectOf(context.app, object);
      const timers = await withNode(context, "timers", ({ node }) => node.timers(identity));
      context.output.result(textOf(timers), timers);
    });
}

function textOf({ timers, runs }: ObjectTimers): string {
  const set = timers.map(({ id, name = "", method, plan, state, nextMs, runs, lastMs, error }) => {
    return [id, name, method, plan, state, shownTime(nextMs), runs, shownTime(lastMs), error?.message ?? ""];
  });
  const ran = runs.map(({ timer, name = "", method, dueMs, atMs, outcome, error }) => {
    return [timer, name, method, shownTime(dueMs), shownTime(atMs), outcome, error?.message ?? ""];
  });
  const tables = [
    set.length === 0 ? "no timer is set" : tableOf({ columns: TIMER_COLUMNS, rows: set }),
    ...(ran.length === 0 ? [] : [tableOf({ columns: RUN_COLUMNS, rows: ran })]),
  ];
  return tables.join("\n\n");
}
