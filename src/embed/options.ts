/** What {@link Moonport.open} and the handles of objects may be told, and the check of it. */
import {
  abortSignal,
  callback,
  checkOptions,
  filledText,
  flatObject,
  type OptionRule,
  type OptionRules,
  oneOf,
  text,
  wholeNumber,
} from "../check-options.js";
import type {
  CallOptions as ClientCallOptions,
  SubscribeOptions as ClientSubscribeOptions,
  ViewOptions as ClientViewOptions,
} from "../client/object-handle.js";
import { MoonportError } from "../errors.js";
import type { Caller } from "../lua/contract.js";
import type { Observer } from "../observation.js";
import { plainCopy } from "../plain-copy.js";
import { SETTINGS, type SettingName } from "../settings/settings.js";
import type { PlainObject } from "../values.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import type { Logger } from "../world/logger.js";
import type { PinoLoggerOptions } from "../world/pino-logger.js";
export interface MoonportOptions {
  /** The folder of the node's data, made when it is not there. One node at a time uses it. */
  readonly dataDir: string;
  /** The app's folder, with `classes/` in it. Either this or `classes`. */
  readonly dir?: string;
  /** The app's classes themselves: Lua text by class name. */
  readonly classes?: Readonly<Record<string, string>>;
  /** The app's name. Default `default`. */
  readonly app?: string;
  /** Where landed writes are kept: `sqlite:PATH` or `memory:`. Default: a file in the data folder. */
  readonly bucket?: string;
  /** Bounds, waits and sizes by name; docs/settings.md has them all. The environment is not read. */
  readonly settings?: Readonly<Partial<Record<SettingName, number | string>>>;
  /** A logger (pino and those like it fit), or how to write to stderr. Default: JSON lines, from warnings up. */
  readonly log?: Logger | LogOptions;
  /** `refuse`: a class that does not load stops the start. `report`: the others serve, the fault is observed and logged. Default `refuse`. */
  readonly onClassError?: "refuse" | "report";
  /** Told of landed flights, of events and of classes. Must not throw. */
  readonly observer?: Observer;
  /** Opens the HTTP and WebSocket doors too. */
  readonly listen?: ListenOptions;
}

/** Default: JSON lines, from warnings up. */
export type LogOptions = Partial<Pick<PinoLoggerOptions, "format" | "level">>;

export interface ListenOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 7070; 0 picks a free one. */
  readonly port?: number;
}

/** On whose behalf something is asked: `caller.id` and `caller.claims` in Lua. */
export interface ActingFor {
  readonly id?: string;
  readonly claims?: Readonly<Record<string, unknown>>;
}

interface OnBehalf {
  readonly as?: ActingFor;
}

export type CallOptions = ClientCallOptions & OnBehalf;
export type SubscribeOptions = ClientSubscribeOptions & OnBehalf;
export type ViewOptions = ClientViewOptions & OnBehalf;

const actingFor: OptionRule = { ...flatObject, is: "an object with id and claims" };
const callId: OptionRule = {
  is: CALL_ID_GRAMMAR,
  accepts: (value) => typeof value === "string" && isCallId(value),
};

const MOONPORT_RULES: OptionRules<MoonportOptions> = {
  dataDir: filledText,
  dir: filledText,
  classes: flatObject,
  app: text,
  bucket: text,
  settings: flatObject,
  log: flatObject,
  onClassError: oneOf("refuse", "report"),
  observer: callback,
  listen: flatObject,
};
const LOG_RULES: OptionRules<LogOptions> = {
  format: oneOf("json", "pretty"),
  level: oneOf("debug", "info", "warn", "error", "silent"),
};
const LISTEN_RULES: OptionRules<ListenOptions> = { host: filledText, port: wholeNumber(0, 65_535) };
const CALL_RULES: OptionRules<CallOptions> = {
  callId,
  timeoutMs: wholeNumber(1, SETTINGS.CALL_TIMEOUT_MS.max),
  signal: abortSignal,
  as: actingFor,
};
const ACTING_RULES: OptionRules<ActingFor> = { id: text, claims: flatObject };
const CLAIMS_DEPTH_MAX = 64;

/** @throws MoonportError `bad_option` */
export function checkMoonportOptions(options: MoonportOptions): void {
  const whose = "Moonport.open";
  checkOptions(whose, options, MOONPORT_RULES);
  if (options.dataDir === undefined) throw MoonportError.of("bad_option", `${whose} needs dataDir`);
  if ((options.dir === undefined) === (options.classes === undefined)) {
    throw MoonportError.of("bad_option", `${whose} needs either dir, the app's folder, or classes`);
  }
  if (options.listen !== undefined) checkOptions(`${whose}: listen`, options.listen, LISTEN_RULES);
  if (options.log !== undefined && !isLogger(options.log)) checkOptions(`${whose}: log`, options.log, LOG_RULES);
}

export function isLogger(log: Logger | LogOptions): log is Logger {
  return "warn" in log;
}

/** @throws MoonportError `bad_option` */
export function checkCallOptions(options: CallOptions): void {
  checkOptions("call", options, CALL_RULES);
}

/** @throws MoonportError `bad_option`, `bad_value` */
export function callerOf(as: ActingFor | undefined): Caller {
  if (as === undefined) return { kind: "client" };
  checkOptions("as", as, ACTING_RULES);
  const { id, claims } = as;
  return {
    kind: "client",
    ...(id !== undefined && { id }),
    // A plain copy of an object is an object.
    ...(claims !== undefined && { claims: plainCopy(claims, "as.claims", CLAIMS_DEPTH_MAX) as PlainObject }),
  };
}
