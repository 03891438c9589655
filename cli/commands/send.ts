/** `moonport send Class/key method [args...]` */
import type { Command } from "commander";
import type { SendRequest } from "../../src/delay/contract.js";
import { outcomeNamed } from "../../src/delay/outcome-name.js";
import { MoonportError } from "../../src/errors.js";
import { checkMethodName } from "../../src/identity.js";
import { contextOf } from "../context.js";
import { withNode } from "../find-node.js";
import { addTimeFlags, moment, type TimeFlags, timeOf } from "../times.js";
import { argumentOf, objectOf } from "../words.js";

interface SendFlags extends TimeFlags {
  readonly id?: string;
  readonly expires?: string;
  readonly missed?: string;
  readonly outcome?: string;
  readonly outcomeEvent?: string;
}

export function addSend(program: Command): void {
  const command = program
    .command("send")
    .description("have a method of an object called later, exactly once, and go on at once")
    .argument("<object>", "Class/key")
    .argument("<method>")
    .argument("[args...]", "JSON where they parse as JSON, else strings");
  addTimeFlags(command)
    .option("--id <id>", "the command's id: a second one of the same id is the same command (default: a new one)")
    .option("--expires <time>", "not delivered when it is found later than this")
    .option("--missed <policy>", "what becomes of runs that nobody could start in time: all, latest or skip")
    .option("--outcome <object/method>", "Class/key/method, told how each run ended")
    .option("--outcome-event <object/event>", "Class/key/event, an event that the object emits when a run has ended")
    .addHelpText(
      "after",
      `
Examples:
  moonport send Auction/lot-42 close --delay 10m
  moonport send Report/daily build --cron "0 9 * * *" --tz Europe/Berlin --id daily-report`,
    )
    .action(async (object: string, method: string, words: string[], flags: SendFlags, command: Command) => {
      const context = contextOf(command);
      const { app, className, key } = objectOf(context.app, object);
      checkMethodName(method);
      const request = {
        app,
        className,
        key,
        method,
        args: words.map(argumentOf),
        ...timeOf(flags),
        ...optionsOf(flags),
      };
      const { id, kind } = await withNode(context, "send", async ({ node, kind }) => ({
        ...(await node.delay.send(request)),
        kind,
      }));
      context.output.result(id, { id });
      if (kind === "own") context.output.talk("only a running node delivers it (moonport start)");
    });
}

function optionsOf({ id, expires, missed, outcome, outcomeEvent }: SendFlags): Partial<SendRequest> {
  const told = outcomeOf(outcome, outcomeEvent);
  return {
    ...(id !== undefined && { id }),
    ...(expires !== undefined && { expiresMs: moment("--expires", expires) }),
    ...(missed !== undefined && { missed: missedOf(missed) }),
    ...(told !== undefined && { outcome: told }),
  };
}

function missedOf(text: string): NonNullable<SendRequest["missed"]> {
  if (text === "all" || text === "latest" || text === "skip") return text;
  throw MoonportError.of("bad_option", `--missed is all, latest or skip, not "${text}"`);
}

function outcomeOf(method: string | undefined, event: string | undefined): SendRequest["outcome"] {
  if (method !== undefined && event !== undefined) {
    throw MoonportError.of("bad_option", "an outcome is told to a method or by an event: --outcome or --outcome-event");
  }
  const text = method ?? event;
  if (text === undefined) return undefined;
  const named = outcomeNamed(text);
  if (named === undefined) {
    const flag =
      method === undefined ? "--outcome-event names an object and an event" : "--outcome names an object and a method";
    throw MoonportError.of(
      "bad_option",
      `${flag}, Class/key/${method === undefined ? "event" : "method"}, not "${text}"`,
    );
  }
  const { className, key, name } = named;
  return method === undefined ? { className, key, event: name } : { className, key, method: name };
}
