/** `moonport send Class/key method [args...]` */
import type { Command } from "commander";
import type { SendRequest } from "../../src/delay/contract.js";
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

function optionsOf({ id, expires, missed, outcome }: SendFlags): Partial<SendRequest> {
  return {
    ...(id !== undefined && { id }),
    ...(expires !== undefined && { expiresMs: moment("--expires", expires) }),
    ...(missed !== undefined && { missed: missedOf(missed) }),
    ...(outcome !== undefined && { outcome: outcomeOf(outcome) }),
  };
}

function missedOf(text: string): NonNullable<SendRequest["missed"]> {
  if (text === "all" || text === "latest" || text === "skip") return text;
  throw MoonportError.of("bad_option", `--missed is all, latest or skip, not "${text}"`);
}

function outcomeOf(text: string): NonNullable<SendRequest["outcome"]> {
  const [, className, key, method] = /^([^/]+)\/(.+)\/([^/]+)$/s.exec(text) ?? [];
  if (className !== undefined && key !== undefined && method !== undefined) return { className, key, method };
  throw MoonportError.of("bad_option", `--outcome names an object and a method, Class/key/method, not "${text}"`);
}
