/** When a delayed command is to run, from the words of a command line. */
import type { Command } from "commander";
import type { SendTime } from "../src/delay/contract.js";
import { durationOrSecondsMs, momentMs } from "../src/durations.js";
import { MoonportError } from "../src/errors.js";

export interface TimeFlags {
  readonly delay?: string;
  readonly at?: string;
  readonly every?: string;
  readonly cron?: string;
  readonly tz?: string;
}

export function addTimeFlags(command: Command): Command {
  return command
    .option("--delay <duration>", 'so long from now: seconds, or "250ms", "10s", "5m", "2h", "1d"')
    .option("--at <time>", "at a time: 2026-12-24T18:00:00Z, or seconds since 1970")
    .option("--every <duration>", "again and again")
    .option("--cron <expression>", '"0 9 * * *": minute, hour, day of month, month, day of week')
    .option("--tz <zone>", "the time zone of --cron, Europe/Berlin (default: UTC)");
}

/** @throws MoonportError `bad_option` */
export function timeOf({ delay, at, every, cron, tz }: TimeFlags): SendTime {
  const delayMs = delay === undefined ? undefined : duration("--delay", delay);
  const everyMs = every === undefined ? undefined : duration("--every", every);
  const atMs = at === undefined ? undefined : moment("--at", at);
  return {
    ...(delayMs !== undefined && { delayMs }),
    ...(everyMs !== undefined && { everyMs }),
    ...(atMs !== undefined && { atMs }),
    ...(cron !== undefined && { cron }),
    ...(tz !== undefined && { timeZone: tz }),
  };
}

/** @throws MoonportError `bad_option` */
export function moment(flag: string, text: string): number {
  const ms = momentMs(text);
  if (ms !== undefined) return ms;
  throw MoonportError.of("bad_option", `${flag} is a time like 2026-12-24T18:00:00Z, not "${text}"`);
}

function duration(flag: string, text: string): number {
  const ms = durationOrSecondsMs(text);
  if (ms !== undefined) return ms;
  throw MoonportError.of("bad_option", `${flag} is a duration like 10s, 5m or 2h, not "${text}"`);
}

export function shownTime(ms: number | undefined): string {
  return ms === undefined ? "" : new Date(ms).toISOString();
}
