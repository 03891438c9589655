/** Delayed commands and timers over HTTP: sending for whoever may send, everything else for operators. */
import { callerOf, checkSend } from "../auth/principal-calls.js";
import {
  COMMAND_STATES,
  type CommandState,
  DELAY_PAGE_MAX,
  type DelayFilter,
  type SendRequest,
  type SendTime,
} from "../delay/contract.js";
import { outcomeNamed } from "../delay/outcome-name.js";
import { durationOrSecondsMs, momentMs } from "../durations.js";
import { MoonportError } from "../errors.js";
import { checkMethodName, identityOf } from "../identity.js";
import type { MissedPolicy } from "../lua/contract.js";
import { nearest } from "../nearest.js";
import type { NodeApi } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import type { HttpAnswer, HttpHandler, HttpOperation, HttpRequest } from "./http-handler.js";
import { bodyArguments } from "./request-body.js";
import { allowMethods, checkParameters, clip, type RequestLine, routeNotFound } from "./request-line.js";

export interface DelayHandlerContext {
  readonly node: NodeApi;
  readonly settings: Settings;
}

const TIME_PARAMETERS = ["delay", "at", "every", "cron", "tz"];
const SEND_PARAMETERS = [...TIME_PARAMETERS, "id", "expires", "missed", "outcome", "outcome_event"];
const MISSED: readonly MissedPolicy[] = ["all", "latest", "skip"];
const PAGE_DEFAULT = 100;

export function delayHandler(context: DelayHandlerContext): HttpHandler {
  return {
    operation(line) {
      const [version, first, name = "", ...rest] = line.segments;
      if (version !== "v1") return undefined;
      if (line.segments.length === 7 && rest[1] === "-" && rest[2] === "send") return sendOperation(context, line);
      if (first !== "admin") return undefined;
      if (name === "timers" && rest.length === 3) return timersOperation(context, line, rest);
      if (name === "delay") return delayOperation(context, line, rest);
      if (name === "delay-log" && rest.length === 1) return logOperation(context, line, rest[0] ?? "");
      if (name === "delay-shards" && rest.length === 0) return talliesOperation(context, line);
      return undefined;
    },
  };
}

function sendOperation({ node, settings }: DelayHandlerContext, line: RequestLine): HttpOperation {
  const [, app = "", className = "", key = "", , , method = ""] = line.segments;
  allowMethods(line, ["POST"]);
  checkParameters(line, SEND_PARAMETERS);
  const options = optionsOf(line);
  return {
    check: (principal) => checkSend(principal, { app, className, key, method, outcome: options.outcome }),
    answer: async (request) => {
      const { id, claims } = callerOf(request.principal);
      const object = identityOf(app, className, key);
      checkMethodName(method);
      const sent = await node.delay.send({
        app,
        className,
        key: object.key,
        method,
        args: bodyArguments(settings, request),
        caller: { ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) },
        ...timeOf(line),
        ...options,
      });
      return json(sent);
    },
  };
}

function timersOperation({ node }: DelayHandlerContext, line: RequestLine, path: readonly string[]): HttpOperation {
  const [app = "", className = "", key = ""] = path;
  allowMethods(line, ["GET"]);
  checkParameters(line, []);
  return {
    check: (principal) => principal.check({ right: "admin", app, className, key }),
    answer: async () => json(await node.timers(identityOf(app, className, key))),
  };
}

function delayOperation(context: DelayHandlerContext, line: RequestLine, rest: readonly string[]): HttpOperation {
  const [id, what] = rest;
  if (rest.length > 2) throw routeNotFound(line.url);
  if (id === undefined) return listOperation(context, line);
  if (what === undefined) return getOperation(context, line, id);
  return changeOperation(context, line, id, what);
}

function listOperation({ node }: DelayHandlerContext, line: RequestLine): HttpOperation {
  allowMethods(line, ["GET"]);
  checkParameters(line, ["state", "app", "object", "after", "limit"]);
  const filter = filterOf(line);
  return admin(async () => json({ commands: await node.delay.list(filter) }));
}

function getOperation({ node }: DelayHandlerContext, line: RequestLine, id: string): HttpOperation {
  allowMethods(line, ["GET"]);
  checkParameters(line, []);
  return admin(async () => {
    const found = await node.delay.get(id);
    return json(found === undefined ? { found: false } : { found: true, ...found });
  });
}

function changeOperation({ node }: DelayHandlerContext, line: RequestLine, id: string, what: string): HttpOperation {
  allowMethods(line, ["POST"]);
  checkParameters(line, what === "move" ? TIME_PARAMETERS : []);
  switch (what) {
    case "cancel":
      return admin(async () => json({ answer: await node.delay.cancel(id) }));
    case "move": {
      const time = timeOf(line);
      return admin(async () => json({ answer: await node.delay.move(id, time) }));
    }
    case "retry":
      return admin(async () => json({ retried: await node.delay.retry(id) }));
    default:
      throw routeNotFound(line.url);
  }
}

function logOperation({ node }: DelayHandlerContext, line: RequestLine, shard: string): HttpOperation {
  allowMethods(line, ["GET"]);
  checkParameters(line, ["after", "limit"]);
  const after = wholeNumber(line, "after", Number.MAX_SAFE_INTEGER) ?? 0;
  const limit = wholeNumber(line, "limit", DELAY_PAGE_MAX) ?? PAGE_DEFAULT;
  const number = /^\d{1,4}$/.test(shard) ? Number(shard) : Number.NaN;
  return admin(async () => json({ entries: (await node.delay.log(number, after, limit)).map(withoutBytes) }));
}

function talliesOperation({ node }: DelayHandlerContext, line: RequestLine): HttpOperation {
  allowMethods(line, ["GET"]);
  checkParameters(line, []);
  return admin(async () => json({ shards: await node.delay.tallies() }));
}

function admin(answer: (request: HttpRequest) => Promise<HttpAnswer>): HttpOperation {
  return { check: (principal) => principal.check({ right: "admin" }), answer };
}

/** @throws MoonportError `bad_option` */
function timeOf({ query }: RequestLine): SendTime {
  const delayMs = read(query.get("delay"), "delay", durationOrSecondsMs, 'a duration: seconds, or text like "10s"');
  const everyMs = read(query.get("every"), "every", durationOrSecondsMs, 'a duration: seconds, or text like "10s"');
  const atMs = read(query.get("at"), "at", momentMs, "a time like 2026-12-24T18:00:00Z, or seconds since 1970");
  const [cron, timeZone] = [query.get("cron"), query.get("tz")];
  return {
    ...(delayMs !== undefined && { delayMs }),
    ...(everyMs !== undefined && { everyMs }),
    ...(atMs !== undefined && { atMs }),
    ...(cron !== null && { cron }),
    ...(timeZone !== null && { timeZone }),
  };
}

function optionsOf({ query }: RequestLine): Pick<SendRequest, "id" | "expiresMs" | "missed" | "outcome"> {
  const id = query.get("id");
  const expiresMs = read(query.get("expires"), "expires", momentMs, "a time like 2026-12-24T18:00:00Z");
  const missed = read(
    query.get("missed"),
    "missed",
    (text) => MISSED.find((one) => one === text),
    `one of ${MISSED.join(", ")}`,
  );
  const outcome = outcomeOf(query);
  return {
    ...(id !== null && { id }),
    ...(expiresMs !== undefined && { expiresMs }),
    ...(missed !== undefined && { missed }),
    ...(outcome !== undefined && { outcome }),
  };
}

function outcomeOf(query: URLSearchParams): SendRequest["outcome"] {
  const [method, event] = [query.get("outcome"), query.get("outcome_event")];
  if (method !== null && event !== null) {
    throw MoonportError.of("bad_option", "an outcome is told to a method or by an event: outcome or outcome_event");
  }
  const told = read(method, "outcome", outcomeNamed, "an object and a method: Class/key/method");
  if (told !== undefined) return { className: told.className, key: told.key, method: told.name };
  const emitted = read(event, "outcome_event", outcomeNamed, "an object and an event: Class/key/event");
  return emitted && { className: emitted.className, key: emitted.key, event: emitted.name };
}

function filterOf(line: RequestLine): DelayFilter {
  const { query } = line;
  const limit = wholeNumber(line, "limit", DELAY_PAGE_MAX);
  const [state, app, object, after] = ["state", "app", "object", "after"].map((name) => query.get(name) ?? undefined);
  return {
    ...(state !== undefined && { states: state.split(",").map(stateOf) }),
    ...(app !== undefined && { app }),
    ...(object !== undefined && { object }),
    ...(after !== undefined && { after }),
    ...(limit !== undefined && { limit }),
  };
}

function stateOf(text: string): CommandState {
  const state = COMMAND_STATES.find((one) => one === text);
  if (state !== undefined) return state;
  const guess = nearest(text, COMMAND_STATES);
  throw MoonportError.of("bad_option", `no state of a command is called "${clip(text)}"`, {
    hint: guess === undefined ? `states are ${COMMAND_STATES.join(", ")}` : `did you mean ${guess}?`,
  });
}

function wholeNumber({ query }: RequestLine, name: string, max: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value <= max) return value;
  throw MoonportError.of("bad_option", `${name} is a whole number up to ${max}`);
}

function read<T>(
  text: string | null,
  name: string,
  parse: (text: string) => T | undefined,
  form: string,
): T | undefined {
  if (text === null) return undefined;
  const value = parse(text);
  if (value !== undefined) return value;
  throw MoonportError.of("bad_option", `${name} is ${form}, not "${clip(text)}"`);
}

/** Arguments are the senders' own; of bytes the log says how many there are. */
function withoutBytes<T>(value: T): T {
  const text = JSON.stringify(value, (_, field: PlainValue) =>
    field instanceof Uint8Array ? `${field.byteLength} bytes` : field,
  );
  return JSON.parse(text) as T;
}

/** What the node reports about itself: JSON already. */
function json(body: object): HttpAnswer {
  return { kind: "whole", status: 200, body: JSON.stringify(body) };
}
