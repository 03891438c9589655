/** `moonport delay list | show | cancel | move | retry | dead | log | shards`: delayed commands, for operators. */
import type { Command } from "commander";
import {
  COMMAND_STATES,
  type CommandInfo,
  type CommandState,
  DELAY_PAGE_MAX,
  type DelayFilter,
} from "../../src/delay/contract.js";
import { MoonportError } from "../../src/errors.js";
import { nearest } from "../../src/nearest.js";
import { type Context, collect, contextOf, wholeNumber } from "../context.js";
import { withNode } from "../find-node.js";
import { jsonText } from "../output.js";
import { propertiesOf, tableOf } from "../table.js";
import { addTimeFlags, shownTime, type TimeFlags, timeOf } from "../times.js";

/** As with `get`: absence is an answer. */
const EXIT_ABSENT = 3;
const COLUMNS = ["id", "object", "method", "state", "due", "run", "tries", "error"];
const ANSWERS = { done: "done", delivered: "too late: it is delivered", unknown: "no such command" } as const;

interface ListFlags {
  readonly state?: readonly string[];
  readonly object?: string;
  readonly after?: string;
  readonly limit?: number;
}

export function addDelay(program: Command): void {
  const delay = program.command("delay").description("delayed commands: see docs/timers.md");
  addLists(delay);
  addShow(delay);
  addChanges(delay);
  addLog(delay);
  addShards(delay);
}

function addLists(delay: Command): void {
  const options = (command: Command): Command =>
    command
      .option("--object <object>", "only those for Class/key")
      .option("--after <id>", "go on behind this one")
      .option("--limit <count>", "how many (default: 100)", wholeNumber(1, DELAY_PAGE_MAX));
  options(delay.command("list").description("list delayed commands, in the order of their ids"))
    .option("--state <state>", "only those in this state; may be repeated", collect)
    .addHelpText("after", "\nExample:\n  moonport delay list --state pending --state retrying")
    .action((flags: ListFlags, command: Command) => list(contextOf(command), flags, flags.state?.map(stateOf)));
  options(delay.command("dead").description("list dead letters: commands that were given up"))
    .addHelpText("after", "\nExample:\n  moonport delay dead")
    .action((flags: ListFlags, command: Command) => list(contextOf(command), flags, ["dead"]));
}

async function list(context: Context, flags: ListFlags, states: readonly CommandState[] | undefined): Promise<void> {
  const { object, after, limit } = flags;
  const filter: DelayFilter = {
    app: context.app,
    ...(states !== undefined && { states }),
    ...(object !== undefined && { object }),
    ...(after !== undefined && { after }),
    ...(limit !== undefined && { limit }),
  };
  const commands = await withNode(context, "delay", ({ node }) => node.delay.list(filter));
  if (commands.length === 0) context.output.talk("there is no such command");
  if (commands.length === 0 && !context.output.json) return;
  context.output.result(tableOf({ columns: COLUMNS, rows: commands.map(rowOf) }), { commands });
}

function addShow(delay: Command): void {
  delay
    .command("show")
    .description("show one command, with its last runs")
    .argument("<id>")
    .addHelpText("after", "\nExample:\n  moonport delay show daily-report")
    .action(async (id: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const found = await withNode(context, "delay", ({ node }) => node.delay.get(id));
      if (found === undefined) return absent(context, `there is no command ${id}`, { found: false });
      const { command: shown, runs } = found;
      const { id: _, ...fields } = shown;
      const lines = Object.entries(fields).map(([name, value]) => [name, cellOf(name, value)] as const);
      const ran = runs.map(({ run, dueMs, endedMs, outcome, tries, error }) => {
        return [run, shownTime(dueMs), shownTime(endedMs), outcome, tries, error?.message ?? ""];
      });
      const columns = ["run", "due", "ended", "outcome", "tries", "error"];
      const text = [
        propertiesOf([["id", id], ...lines]),
        ...(ran.length === 0 ? [] : [tableOf({ columns, rows: ran })]),
      ];
      context.output.result(text.join("\n\n"), { found: true, ...found });
    });
}

function addChanges(delay: Command): void {
  delay
    .command("cancel")
    .description("take a command back; says whether that was in time")
    .argument("<id>")
    .addHelpText("after", "\nExample:\n  moonport delay cancel daily-report")
    .action(async (id: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      tell(context, await withNode(context, "delay", ({ node }) => node.delay.cancel(id)));
    });
  addTimeFlags(delay.command("move").description("give a command another time").argument("<id>"))
    .addHelpText("after", "\nExample:\n  moonport delay move daily-report --delay 1h")
    .action(async (id: string, flags: TimeFlags, command: Command) => {
      const context = contextOf(command);
      const time = timeOf(flags);
      tell(context, await withNode(context, "delay", ({ node }) => node.delay.move(id, time)));
    });
  delay
    .command("retry")
    .description("deliver a dead letter after all")
    .argument("<id>")
    .addHelpText("after", "\nExample:\n  moonport delay retry daily-report")
    .action(async (id: string, _flags: object, command: Command) => {
      const context = contextOf(command);
      const retried = await withNode(context, "delay", ({ node }) => node.delay.retry(id));
      if (!retried) return absent(context, `there is no dead letter ${id}`, { retried });
      context.output.result(`${id} is tried again`, { retried });
    });
}

function addLog(delay: Command): void {
  delay
    .command("log")
    .description("show what happened in a delay shard, in order")
    .argument("<shard>", "0 to 15")
    .option("--after <number>", "go on behind this entry", wholeNumber(0, 1e15))
    .option("--limit <count>", "how many (default: 100)", wholeNumber(1, DELAY_PAGE_MAX))
    .addHelpText("after", "\nExample:\n  moonport delay log 3")
    .action(async (shard: string, flags: { after?: number; limit?: number }, command: Command) => {
      const context = contextOf(command);
      const { after = 0, limit = 100 } = flags;
      const number = wholeNumber(0, 9_999)(shard);
      const entries = await withNode(context, "delay", ({ node }) => node.delay.log(number, after, limit));
      const rows = entries.map(({ number: n, atMs, kind, subject, what }) => [
        n,
        shownTime(atMs),
        kind,
        subject,
        jsonText(what),
      ]);
      context.output.result(tableOf({ columns: ["n", "at", "kind", "subject", "what"], rows }), { entries });
    });
}

function addShards(delay: Command): void {
  delay
    .command("shards")
    .description("show how much waits in each delay shard, and how runs ended")
    .addHelpText("after", "\nExample:\n  moonport delay shards")
    .action(async (_flags: object, command: Command) => {
      const context = contextOf(command);
      const shards = await withNode(context, "delay", ({ node }) => node.delay.tallies());
      const rows = shards.map(({ shard, waiting, wakes, counts }) => [shard, waiting, wakes, jsonText({ ...counts })]);
      context.output.result(tableOf({ columns: ["shard", "waiting", "wakes", "ended"], rows }), { shards });
    });
}

function tell(context: Context, answer: keyof typeof ANSWERS): void {
  if (answer === "unknown") return absent(context, ANSWERS.unknown, { answer });
  context.output.result(ANSWERS[answer], { answer });
}

function absent(context: Context, text: string, document: object): void {
  process.exitCode = EXIT_ABSENT;
  context.output.talk(text);
  if (context.output.json) context.output.result("", document);
}

function rowOf({ id, object, method, state, dueMs, run, tries, error }: CommandInfo): (string | number)[] {
  return [id, object, method, state, shownTime(dueMs), run, tries, error?.message ?? ""];
}

function cellOf(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("Ms")) return shownTime(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function stateOf(text: string): CommandState {
  const state = COMMAND_STATES.find((one) => one === text);
  if (state !== undefined) return state;
  const guess = nearest(text, COMMAND_STATES);
  throw MoonportError.of("bad_option", `no state of a command is called "${text}"`, {
    hint: guess === undefined ? `states are ${COMMAND_STATES.join(", ")}` : `did you mean ${guess}?`,
  });
}
