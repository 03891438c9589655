/** What {@link Moonport.open} and the handles of objects may be told, and the check of it. */

import type { Authenticator } from "../auth/contract.js";
import {
  abortSignal,
  callback,
  checkOptions,
  filledText,
  flag,
  flatObject,
  listOf,
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
import type { SendOptions as ClientSendOptions } from "../client/send.js";
import { MoonportError } from "../errors.js";
import type { FleetConfig } from "../fleet/fleet-config.js";
import type { LinkTls } from "../links/link-tls.js";
import type { Caller } from "../lua/contract.js";
import type { Observer } from "../observation.js";
import { plainCopy } from "../plain-copy.js";
import type { DeployTerms } from "../release/contract.js";
import { SETTINGS, type SettingName } from "../settings/settings.js";
import type { NativeClasses } from "../units/native.js";
import type { PlainObject } from "../values.js";
import { CALL_ID_GRAMMAR, isCallId } from "../wire/call-id.js";
import type { Logger } from "../world/logger.js";
import type { PinoLoggerOptions } from "../world/pino-logger.js";
export interface MoonportOptions {
  /** The folder of the node's data, made when it is not there. One node at a time uses it. */
  readonly dataDir: string;
  /** The app's folder, with `classes/` in it. Either this or `classes`; without either the node serves what was deployed. */
  readonly dir?: string;
  /** The app's classes themselves: Lua text by class name. */
  readonly classes?: Readonly<Record<string, string>>;
  /** Its units: Lua text by unit name; only beside `classes`. */
  readonly units?: Readonly<Record<string, string>>;
  /** Its modules: Lua text by what `require` takes; only beside `classes`. */
  readonly modules?: Readonly<Record<string, string>>;
  /** Code of the program that units call like objects, `Mailer("x"):send(...)`, by class name. */
  readonly native?: NativeClasses;
  /** Hosts that units may fetch from, `api.example.com` or `api.example.com:8443`. Default: none. */
  readonly allowFetch?: readonly string[];
  /** The app's name. Default `default`. */
  readonly app?: string;
  /** Where landed writes are kept: `sqlite:PATH`, `s3://BUCKET/PREFIX` or `memory:`. Default: where this data folder's were last, at first a file in it. */
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
  /** Joins the fleet of the bucket, which all its nodes share. Default: the node is alone. */
  readonly fleet?: FleetConfig;
}

/** Default: JSON lines, from warnings up. */
export type LogOptions = Partial<Pick<PinoLoggerOptions, "format" | "level">>;

export interface ListenOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 7070; 0 picks a free one. */
  readonly port?: number;
  /** A file of tokens (docs/auth.md), or whatever else of yours tells who a token belongs to. Default: none; then only this machine gets in. */
  readonly auth?: string | Authenticator;
  /** Origins whose pages may reach the node. Default: those of this machine, and with `auth` none. */
  readonly allowOrigins?: readonly string[];
}

/** Lua by name, in place of what there was; what is left out stays. */
export interface ReplacedTexts {
  readonly classes?: Readonly<Record<string, string>>;
  readonly units?: Readonly<Record<string, string>>;
  readonly modules?: Readonly<Record<string, string>>;
}

/** What is deployed, by whom. Without files, those that the node itself was opened with. */
export interface DeployOptions extends DeployTerms, ReplacedTexts {
  /** An app's folder, with `classes/` in it. Either this or `classes`. */
  readonly dir?: string;
}

export interface RollbackOptions extends DeployTerms {
  /** Number of the release whose files are to serve again. Default: the newest that has other files than the current one. */
  readonly to?: number;
}

/** On whose behalf something is asked: `caller.id` and `caller.claims` in Lua. */
export interface ActingFor {
  readonly id?: string;
  readonly claims?: Readonly<Record<string, unknown>>;
}

interface OnBehalf {
  readonly as?: ActingFor;
}

/** What a unit is told, as of an HTTP request. */
export interface UnitCall {
  /** Default: POST with a body, else GET. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** What follows the unit's name. Default `/`. */
  readonly path?: string;
  readonly query?: Readonly<Record<string, string | readonly string[]>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** A plain value, given to the unit as it is. */
  readonly body?: unknown;
}

export type CallOptions = ClientCallOptions & OnBehalf;
/** Kept or refused at once: nothing is waited for. */
export type SendOptions = Omit<ClientSendOptions, "timeoutMs"> & OnBehalf;
/** A unit reads its own writes: no copy answers it. */
export type UnitOptions = Omit<CallOptions, "consistency">;
export type SubscribeOptions = ClientSubscribeOptions & OnBehalf;
export type ViewOptions = ClientViewOptions & OnBehalf;

const actingFor: OptionRule = { ...flatObject, is: "an object with id and claims" };
const callId: OptionRule = {
  is: CALL_ID_GRAMMAR,
  accepts: (value) => typeof value === "string" && isCallId(value),
};

export const MOONPORT_RULES: OptionRules<MoonportOptions> = {
  dataDir: filledText,
  dir: filledText,
  classes: flatObject,
  units: flatObject,
  modules: flatObject,
  native: { is: "an object of objects with methods", accepts: isNative },
  allowFetch: listOf(filledText, "an array of hosts"),
  app: text,
  bucket: text,
  settings: flatObject,
  log: flatObject,
  onClassError: oneOf("refuse", "report"),
  observer: callback,
  listen: flatObject,
  fleet: flatObject,
};
export const FLEET_RULES: OptionRules<FleetConfig> = {
  node: filledText,
  listen: filledText,
  advertise: filledText,
  zone: filledText,
  weight: { is: "a number", accepts: (value) => typeof value === "number" },
  secret: filledText,
  tls: flatObject,
};
export const TLS_RULES: OptionRules<LinkTls> = { cert: filledText, key: filledText, ca: filledText };
const LOG_RULES: OptionRules<LogOptions> = {
  format: oneOf("json", "pretty"),
  level: oneOf("debug", "info", "warn", "error", "silent"),
};
export const LISTEN_RULES: OptionRules<ListenOptions> = {
  host: filledText,
  port: wholeNumber(0, 65_535),
  auth: {
    is: "the path of a file of tokens, or an object with authenticate",
    accepts: (value) => filledText.accepts(value) || isAuthenticator(value),
  },
  allowOrigins: listOf(filledText, "an array of origins"),
};
const UNIT_RULES: OptionRules<UnitCall> = {
  method: oneOf("GET", "POST", "PUT", "PATCH", "DELETE"),
  path: { is: 'a string that begins with "/"', accepts: (value) => typeof value === "string" && value.startsWith("/") },
  query: { is: "an object of strings, or of arrays of them", accepts: isQuery },
  headers: {
    is: "an object of strings",
    accepts: (value) => flatObject.accepts(value) && areTexts(Object.values(value as object)),
  },
  body: { is: "a plain value", accepts: () => true },
};
const TERM_RULES: OptionRules<DeployTerms> = {
  by: filledText,
  message: text,
  over: wholeNumber(0, Number.MAX_SAFE_INTEGER),
  acceptMigrated: flag,
  force: flag,
};
const DEPLOY_RULES: OptionRules<DeployOptions> = {
  dir: filledText,
  classes: flatObject,
  units: flatObject,
  modules: flatObject,
  ...TERM_RULES,
};
const ROLLBACK_RULES: OptionRules<RollbackOptions> = { to: wholeNumber(1, Number.MAX_SAFE_INTEGER), ...TERM_RULES };
const UNIT_OPTION_RULES: OptionRules<UnitOptions> = {
  callId,
  timeoutMs: wholeNumber(1, SETTINGS.CALL_TIMEOUT_MS.max),
  signal: abortSignal,
  as: actingFor,
};
const CALL_RULES: OptionRules<CallOptions> = { ...UNIT_OPTION_RULES, consistency: oneOf("replica") };
const ACTING_RULES: OptionRules<ActingFor> = { id: text, claims: flatObject };
const CLAIMS_DEPTH_MAX = 64;

/** @throws MoonportError `bad_option` */
export function checkMoonportOptions(options: MoonportOptions): void {
  const whose = "Moonport.open";
  checkOptions(whose, options, MOONPORT_RULES);
  if (options.dataDir === undefined) throw MoonportError.of("bad_option", `${whose} needs dataDir`);
  checkTexts(whose, options);
  if (options.listen !== undefined) checkOptions(`${whose}: listen`, options.listen, LISTEN_RULES);
  if (options.fleet !== undefined) {
    checkOptions(`${whose}: fleet`, options.fleet, FLEET_RULES);
    if (options.fleet.tls !== undefined) checkOptions(`${whose}: fleet.tls`, options.fleet.tls, TLS_RULES);
    if (options.fleet.listen === undefined) throw MoonportError.of("bad_option", `${whose}: fleet needs listen`);
  }
  if (options.log !== undefined && !isLogger(options.log)) checkOptions(`${whose}: log`, options.log, LOG_RULES);
}

/** @throws MoonportError `bad_option` */
function checkTexts(
  whose: string,
  { dir, classes, ...rest }: Pick<MoonportOptions, "dir" | keyof ReplacedTexts>,
): void {
  if (dir !== undefined && classes !== undefined) {
    throw MoonportError.of("bad_option", `${whose} takes either dir, the app's folder, or classes`);
  }
  for (const name of ["units", "modules"] as const) {
    if (rest[name] === undefined || classes !== undefined) continue;
    const why = dir === undefined ? "are given beside classes" : "are read from the app's folder";
    throw MoonportError.of("bad_option", `${whose}: ${dir === undefined ? "" : "with dir, "}${name} ${why}`);
  }
}

/** @throws MoonportError `bad_option` */
export function checkDeployOptions(options: DeployOptions): void {
  checkOptions("deploy", options, DEPLOY_RULES);
  checkTexts("deploy", options);
  needsBy("deploy", options);
}

/** @throws MoonportError `bad_option` */
export function checkRollbackOptions(options: RollbackOptions): void {
  checkOptions("rollback", options, ROLLBACK_RULES);
  needsBy("rollback", options);
}

function needsBy(whose: string, { by }: Partial<DeployTerms>): void {
  if (by === undefined) throw MoonportError.of("bad_option", `${whose} needs by: who deploys it`);
}

export function isLogger(log: Logger | LogOptions): log is Logger {
  return "warn" in log;
}

/** @throws MoonportError `bad_option` */
export function checkUnitCall(request: UnitCall): void {
  checkOptions("unit", request, UNIT_RULES);
}

/** @throws MoonportError `bad_option` */
export function checkCallOptions(options: CallOptions): void {
  checkOptions("call", options, CALL_RULES);
}

/** @throws MoonportError `bad_option` */
export function checkUnitOptions(options: UnitOptions): void {
  checkOptions("unit", options, UNIT_OPTION_RULES);
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

function isNative(value: unknown): boolean {
  return flatObject.accepts(value) && Object.values(value as object).every((one) => flatObject.accepts(one));
}

function isAuthenticator(value: unknown): boolean {
  return flatObject.accepts(value) && typeof (value as Partial<Authenticator>).authenticate === "function";
}

function isQuery(value: unknown): boolean {
  if (!flatObject.accepts(value)) return false;
  return Object.values(value as object).every((one) => areTexts(Array.isArray(one) ? one : [one]));
}

function areTexts(values: readonly unknown[]): boolean {
  return values.every((value) => text.accepts(value));
}
