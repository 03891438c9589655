/** What `send` may be told, here and in a program that embeds its node, and what it makes of it. */
import {
  abortSignal,
  checkOptions,
  filledText,
  type OptionRule,
  type OptionRules,
  oneOf,
  text,
} from "../check-options.js";
import type { SendTime } from "../delay/contract.js";
import type { MissedPolicy } from "../lua/contract.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import type { CommandFields } from "../wire/frames.js";
import { amount } from "./options.js";

/** Who is told how each run ended: a method, by a message with it, or whoever watches the object, by an event with it. */
export type SendOutcome = { readonly class: string; readonly key: string } & (
  | { readonly method: string }
  | { readonly event: string }
);

export interface SendOptions extends SendTime {
  /** The command's id: a second one of it is the same command. Default: a new UUIDv7. */
  readonly id?: string;
  /** Wall clock, milliseconds: found later than that, it is not delivered. */
  readonly expiresMs?: number;
  /** What becomes of runs that nobody could start in time. Default `latest`. */
  readonly missed?: MissedPolicy;
  readonly outcome?: SendOutcome;
  /** How long it may take until the command is kept, milliseconds. Default: the client's. */
  readonly timeoutMs?: number;
  /** Aborted: it rejects with the signal's reason. The command may be kept all the same. */
  readonly signal?: AbortSignal;
}

/** A command that is kept: it will be delivered. */
export interface Sent {
  readonly id: string;
}

const time: OptionRule = {
  is: "a number of milliseconds, at least 0",
  accepts: (value) => typeof value === "number" && Number.isFinite(value) && value >= 0,
};

export const TIME_RULES: OptionRules<SendTime> = {
  delayMs: time,
  atMs: time,
  everyMs: time,
  cron: filledText,
  timeZone: filledText,
};

export const SEND_RULES: OptionRules<SendOptions> = {
  ...TIME_RULES,
  id: { is: CALL_ID_GRAMMAR, accepts: (value) => typeof value === "string" && isCallId(value) },
  expiresMs: time,
  missed: oneOf("all", "latest", "skip"),
  outcome: { is: "an object with class and key, and with method or event", accepts: isOutcome },
  timeoutMs: amount,
  signal: abortSignal,
};

/** @throws MoonportError `bad_option` */
export function commandOf(options: SendOptions): CommandFields {
  checkOptions("send", options, SEND_RULES);
  const { timeoutMs: _, signal: __, ...command } = options;
  return withoutUndefined(command);
}

/** @throws MoonportError `bad_option` */
export function timeOf(given: SendTime): SendTime {
  checkOptions("move", given, TIME_RULES);
  return withoutUndefined(given);
}

function withoutUndefined<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;
}

function isOutcome(value: unknown): boolean {
  const { class: className, key, method, event, ...more } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (Object.keys(more).length > 0 || ![className, key].every((part) => text.accepts(part))) return false;
  return (method === undefined) !== (event === undefined) && text.accepts(method ?? event);
}
