/**
 * The node's own operations over HTTP, from route, headers and body to the answer. No sockets here: what comes in is checked,
 * handed to the node, and what the node says is put into JSON.
 */
import type { Principal } from "../auth/contract.js";
import { callAs, checkAny, checkMethod, type Target } from "../auth/principal-calls.js";
import { asMoonportError, MoonportError } from "../errors.js";
import { checkAppName, checkClassName, checkMethodName, identityOf, type ObjectIdentity } from "../identity.js";
import type { DirectoryQuery } from "../lua/contract.js";
import type { CallReply, DrainRequest, NodeApi } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";
import { FROM_HEADER, NODE_HEADER, NODE_URL_HEADER, SEQ_HEADER } from "../wire/http-headers.js";
import { wireJson } from "../wire/wire-json.js";
import { ROW_ENTRY } from "../world/watchdog/running-record.js";
import type { World } from "../world/world.js";
import type { HttpAnswer, HttpHandler, HttpRequest } from "./http-handler.js";
import { databaseAnswer, forkOf, limitOf, pointOf, restorationOf } from "./past-operations.js";
import { deployOf, rollbackOf } from "./release-operations.js";
import { bodyArguments, bodyValue, parseArguments, queryArguments } from "./request-body.js";
import { callIdOf, consistencyOf, timeoutOf } from "./request-headers.js";
import { type DirectoryPath, type ObjectPath, type Route, routeOf } from "./routes.js";

export interface OperationsContext {
  readonly node: NodeApi;
  readonly settings: Settings;
  readonly world: Pick<World, "clock" | "log">;
}

/** Calls, health, operator's routes. It knows every path or refuses it: the last of the door's handlers. */
export function operationsHandler(context: OperationsContext): HttpHandler {
  return {
    operation(line) {
      const route = routeOf(line);
      return {
        check: checkOf(route),
        ...(route.kind === "readyz" && { whileStopping: true }),
        answer: (request) => operate(context, route, request),
      };
    },
  };
}

function checkOf(route: Route): ((principal: Principal) => void) | undefined {
  switch (route.kind) {
    case "healthz":
    case "readyz":
      return undefined;
    case "call":
    case "read":
      return (principal) => void checkMethod(principal, { ...targetOf(route.object), method: route.method });
    case "store_get":
    case "store_list":
      return (principal) => void checkAny(principal, targetOf(route.object), ["read", "admin"]);
    case "inspect":
    case "sql":
    case "destroy":
    case "recover":
    case "history":
    case "restore":
    case "fork":
    case "export":
    case "quarantine_clear":
      return (principal) => principal.check({ right: "admin", ...targetOf(route.object) });
    case "find": {
      const { app, className } = route.directory;
      return (principal) => principal.check({ right: "query", app, className });
    }
    case "directory":
    case "directory_rebuild": {
      const { app, className } = route.directory;
      return (principal) => principal.check({ right: "admin", app, className });
    }
    case "status":
    case "classes":
    case "nodes":
    case "ring":
    case "drain":
    case "releases":
    case "deploy":
    case "rollback":
    case "quarantine":
      return (principal) => principal.check({ right: "admin" });
  }
}

function targetOf({ app, className, key }: ObjectPath): Target {
  return { app, className, key };
}

async function operate(context: OperationsContext, route: Route, request: HttpRequest): Promise<HttpAnswer> {
  const { node } = context;
  switch (route.kind) {
    case "healthz":
      return await health(node);
    case "readyz":
      return await readiness(node, request);
    case "call":
      return await call(context, route, bodyArguments(context.settings, request), request);
    case "read":
      return await call(context, route, queryArguments(context.settings, route.args), request);
    case "status":
      return json(await node.status());
    case "classes":
      return json({ classes: await node.classes(), units: await node.units() });
    case "nodes":
      return json({ nodes: await node.nodes() });
    case "ring":
      return json(await node.ring(route.object && identity(route.object)));
    case "drain":
      return json(await node.drain(drainOf(bodyValue(context.settings, request))));
    case "inspect":
      return json(await node.inspect(identity(route.object)));
    case "store_get": {
      const value = await node.storeGet(identity(route.object), route.key);
      return value === undefined ? json({ found: false }) : values({ found: true, value });
    }
    case "store_list": {
      const entries = await node.storeList(identity(route.object), route.prefix);
      return values({ entries: entries.map(([key, value]) => [key, value]) });
    }
    case "sql":
      return await sql(context, identity(route.object), request);
    case "destroy": {
      const object = identity(route.object);
      await node.destroy(object);
      return json({ destroyed: object.id });
    }
    case "recover":
      return json(await node.recover(identity(route.object)));
    case "find":
      return await find(context, route.directory, route.parameters, request);
    case "directory":
    case "directory_rebuild": {
      const { app, className } = classNamed(route.directory);
      return json(
        await (route.kind === "directory" ? node.directory(app, className) : node.rebuildDirectory(app, className)),
      );
    }
    case "history":
      return json(await node.history(identity(route.object), limitOf(route.limit)));
    case "restore":
      return json(
        await node.restore(identity(route.object), restorationOf(tableIn(bodyValue(context.settings, request)))),
      );
    case "fork": {
      const { to, ...rest } = forkOf(tableIn(bodyValue(context.settings, request)));
      // The route named what is copied; what is made is another object, and only the body names it.
      request.principal.check({ right: "admin", ...targetOf({ ...route.object, key: to }) });
      return json(await node.fork(identity(route.object), rest, to));
    }
    case "export":
      return databaseAnswer(await node.exportDatabase(identity(route.object), pointOf(route)), context.world.log);
    case "releases":
      return json(await node.releases(appNamed(route.app)));
    case "deploy":
      return json(await node.deploy(deployOf(appNamed(route.app), deployBody(context.settings, request))));
    case "rollback":
      return json(await node.rollback(rollbackOf(appNamed(route.app), deployBody(context.settings, request))));
    case "quarantine":
      return json({ methods: await node.quarantine() });
    case "quarantine_clear": {
      const method = clearedMethod(bodyValue(context.settings, request));
      return json({ cleared: await node.clearQuarantine(identity(route.object), method) });
    }
  }
}

/**
 * Whether the process is to live on. A bucket that is away does not come back by a restart, which would only throw away
 * what waits for it: that is said, and belongs to readiness. Open to everybody: what exactly is wrong stays in the log.
 */
async function health(node: NodeApi): Promise<HttpAnswer> {
  const { session, writesLand } = await node.status();
  return json({ status: "ok", session, writesLand });
}

async function readiness(node: NodeApi, { isStopping }: HttpRequest): Promise<HttpAnswer> {
  const notReady = (reason: string): HttpAnswer => json({ ready: false, reason }, 503);
  if (isStopping) return notReady("the node is shutting down");
  const { session, ready, writesLand, sinceLandedMs, fleet } = await node.status();
  if (fleet?.journalBroken !== undefined) return notReady(`journal_broken: ${fleet.journalBroken}`);
  if (!ready) return notReady("the node is starting");
  if (fleet?.isLeaving === true) return notReady("the node gives its objects to the others");
  if (fleet?.valid === false) return notReady(`node_fenced: its session is not valid: ${fleet.whyInvalid}`);
  return writesLand ? json({ ready: true, session }) : notReady(`writes do not land: none has for ${sinceLandedMs} ms`);
}

async function call(
  { node, world }: OperationsContext,
  route: Extract<Route, { kind: "call" | "read" }>,
  args: readonly PlainValue[],
  request: HttpRequest,
): Promise<HttpAnswer> {
  const object = identity(route.object);
  const { method } = route;
  checkMethodName(method);
  const callId = callIdOf(request.headers);
  const timeoutMs = timeoutOf(request.headers, world.clock.wallMs());
  const consistency = consistencyOf(request.headers);
  try {
    const reply = await callAs(node, request.principal, {
      object,
      method,
      args,
      waiter: request.caller,
      mustRead: route.kind === "read",
      ...(callId !== undefined && { callId }),
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(consistency !== undefined && { consistency }),
    });
    return { kind: "whole", status: 200, body: wireJson(reply.value), headers: replyHeaders(reply) };
  } catch (error) {
    throw asMoonportError(error).with({ object: object.id, ...(callId !== undefined && { callId }) });
  }
}

function replyHeaders({ seq, from, node }: CallReply): Record<string, string> {
  return {
    ...(seq !== undefined && { [SEQ_HEADER]: String(seq) }),
    ...(from !== undefined && { [FROM_HEADER]: from }),
    ...(node !== undefined && { [NODE_HEADER]: node.name }),
    ...(node?.url !== undefined && { [NODE_URL_HEADER]: node.url }),
  };
}

async function find(
  { node, settings, world }: OperationsContext,
  path: DirectoryPath,
  parameters: URLSearchParams,
  { headers }: HttpRequest,
): Promise<HttpAnswer> {
  const timeoutMs = timeoutOf(headers, world.clock.wallMs());
  const { app, className } = classNamed(path);
  const query = queryOf(parameters, settings);
  return json(await node.find({ app, className, query, ...(timeoutMs !== undefined && { timeoutMs }) }));
}

function queryOf(parameters: URLSearchParams, settings: Settings): DirectoryQuery {
  const text = (name: string): string | undefined => parameters.get(name) ?? undefined;
  const [where, order, after, limit, count, given] = ["where", "order", "after", "limit", "count", "params"].map(text);
  if (limit !== undefined && !/^[0-9]{1,9}$/.test(limit))
    throw MoonportError.of("bad_option", "limit is a whole number");
  if (count !== undefined && count !== "true" && count !== "false") {
    throw MoonportError.of("bad_option", "count is true or false");
  }
  const params = given === undefined ? undefined : parseArguments(given, "params", settings);
  if (params !== undefined && !Array.isArray(params) && !isTable(params)) {
    throw MoonportError.of(
      "bad_request",
      'params is a list of values for ?, or a table of them for :name: {"least": 100}',
    );
  }
  return {
    ...(where !== undefined && { where }),
    ...(params !== undefined && { params }),
    ...(order !== undefined && { order }),
    ...(limit !== undefined && { limit: Number(limit) }),
    ...(after !== undefined && { after }),
    ...(count === "true" && { count: true }),
  };
}

function appNamed(app: string): string {
  checkAppName(app);
  return app;
}

function deployBody(settings: Settings, request: HttpRequest): PlainObject {
  const body = bodyValue(settings, request) ?? {};
  if (isTable(body)) return body;
  throw MoonportError.of("bad_request", 'the body is a table: {"by": "ada", "message": "..."}');
}

function classNamed(path: DirectoryPath): DirectoryPath {
  checkAppName(path.app);
  checkClassName(path.className);
  return path;
}

async function sql(context: OperationsContext, object: ObjectIdentity, request: HttpRequest): Promise<HttpAnswer> {
  const body = bodyValue(context.settings, request);
  if (!isTable(body) || typeof body.statement !== "string") {
    throw MoonportError.of("bad_request", 'the body is {"statement": "select ...", "parameters": [...]}');
  }
  const parameters = body.parameters ?? [];
  if (!Array.isArray(parameters)) throw MoonportError.of("bad_request", "parameters is an array");
  const { columns, rows } = await context.node.sql(object, body.statement, parameters.map(sqlParameter));
  return values({ columns: [...columns], rows: rows.map((row) => [...row]) });
}

function clearedMethod(body: PlainValue | undefined): string {
  const method = isTable(body) ? body.method : undefined;
  if (typeof method !== "string") throw MoonportError.of("bad_request", 'the body is {"method": "..."}');
  if (method !== ROW_ENTRY) checkMethodName(method);
  return method;
}

function drainOf(body: PlainValue | undefined): DrainRequest {
  const { node, undo, ...more } = body === undefined ? {} : isTable(body) ? body : { more: true };
  const isNamed = node === undefined || typeof node === "string";
  if (isNamed && (undo === undefined || typeof undo === "boolean") && Object.keys(more).length === 0) {
    return { ...(node !== undefined && { node }), ...(undo !== undefined && { undo }) };
  }
  throw MoonportError.of("bad_request", 'the body is {"node": "n2", "undo": false}, each of which may be left out');
}

function sqlParameter(value: PlainValue, index: number): SqlValue {
  if (value === null || typeof value === "number" || typeof value === "string" || value instanceof Uint8Array) {
    return value;
  }
  throw MoonportError.of("bad_value", `SQL parameter ${index + 1} is neither null, number, text nor bytes`);
}

function identity({ app, className, key }: ObjectPath): ObjectIdentity {
  return identityOf(app, className, key);
}

function tableIn(body: PlainValue | undefined): PlainObject {
  if (isTable(body)) return body;
  throw MoonportError.of("bad_request", 'the body is {"at": {"seq": 5}} or {"at": {"atMs": 1767225600000}}');
}

function isTable(value: PlainValue | undefined): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/** What the node reports about itself: JSON already. */
function json(body: object, status = 200): HttpAnswer {
  return { kind: "whole", status, body: JSON.stringify(body) };
}

/** What users stored: bytes may be in it. */
function values(body: PlainObject): HttpAnswer {
  return { kind: "whole", status: 200, body: wireJson(body) };
}
