/**
 * A running node, over its HTTP door: the same operations, the same errors.
 *
 * Every call carries a call id, its own when the request names none, so that a request whose answer was lost may be sent
 * again and runs once. The path goes out as it is written here (a URL parser would swallow the keys `.` and `..`).
 */
import http from "node:http";
import type { DelayApi, ObjectTimers } from "../delay/contract.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type {
  CallReply,
  CallRequest,
  ClassInfo,
  DirectoryStatus,
  Drained,
  DrainRequest,
  ExportedDatabase,
  FindRequest,
  FoundPage,
  Inspection,
  NodeApi,
  NodeInfo,
  NodeStatus,
  ObjectHistory,
  PointInTime,
  QuarantineEntry,
  Recovered,
  Restoration,
  Restored,
  RingInfo,
  UnitInfo,
  UnitRequest,
  UnitResponse,
} from "../node-api.js";
import type { LiveApi, Sink, SubscribeRequest, Subscription } from "../realtime/contract.js";
import type { AppReleases, Deployed, DeployRequest, RollbackRequest } from "../release/contract.js";
import { SETTINGS } from "../settings/settings.js";
import type { PlainObject, PlainValue, SqlRows, SqlValue } from "../values.js";
import {
  CALL_ID_HEADER,
  CONSISTENCY_HEADER,
  CUT_HEADER,
  FROM_HEADER,
  NODE_HEADER,
  NODE_URL_HEADER,
  SEQ_HEADER,
  TIMEOUT_HEADER,
  UNIT_HEADER,
} from "../wire/http-headers.js";
import { errorOf } from "../wire/problem.js";
import { parseWireJson, wireJson } from "../wire/wire-json.js";
import { uuidv7, type World } from "../world/world.js";
import { hasLogin, notAnAddress } from "./addresses.js";
import { download } from "./download.js";
import { HttpDelay } from "./http-delay.js";
import { StreamSubscription } from "./stream-subscription.js";

export interface HttpNodeClientOptions {
  /** `http://127.0.0.1:7070`; a path in it is refused. */
  readonly url: string;
  readonly world: Pick<World, "clock" | "random" | "timers">;
  /** Sent with every request. */
  readonly token?: string;
  /** How long any request may take that names no time of its own. Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
}

interface Ask {
  readonly method: string;
  /** Encoded. */
  readonly path: string;
  /** JSON, unless the headers say otherwise. */
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Not to be sent again on its own: a second time it would mean something else. */
  readonly once?: true;
  /** Whether it may change something. Default: unless it is a GET. */
  readonly changes?: boolean;
  /** Under which a repeat does nothing twice. */
  readonly callId?: string;
}

/** What an error says of an answer that was lost. */
type Lost = "connection" | "time" | "caller";

interface RawAnswer {
  /** The request was sent before, over a connection that was closed. */
  readonly isRepeat: boolean;
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly bytes: Buffer;
}

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: PlainValue;
}

const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;
/** On top of the time within which its turn has to come, a call runs, waits at its gate, and is answered. */
const ANSWER_MARGIN_MS = SETTINGS.METHOD_BUDGET_MS.default + SETTINGS.OBJECT_ACK_GATE_MS.default + 4_000;
/** Deeper than any value a node sends: its answers wrap values in a few levels of their own. */
const ANSWER_DEPTH_MAX = SETTINGS.VALUE_DEPTH_MAX.max + 8;

/** A large object's past is read from the bucket, and what is made of it may have to be written there. */
const PAST_TIMEOUT_MS = 600_000;

/** How a subscription goes on when its node does not. */
export interface ResumeOptions {
  /**
   * Asked before each further connection: where the node answers by now; what it rejects with is a reason to ask again later.
   * Without it, where it always did.
   */
  readonly address?: () => Promise<string>;
  /** It was cut off and will try again. */
  readonly interrupted?: (cause: MoonportError) => void;
}

export class HttpNodeClient implements NodeApi, Pick<LiveApi, "subscribe"> {
  readonly delay: DelayApi;
  readonly #options: HttpNodeClientOptions;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #agent = new http.Agent({ keepAlive: true });

  /** @throws MoonportError `bad_option` for a URL that no node can have, or a token that none can know */
  constructor(options: HttpNodeClientOptions) {
    this.#options = options;
    const { token } = options;
    // It is not shown: what is wrong with it may be that it is another secret.
    if (token !== undefined && !TOKEN.test(token)) {
      throw MoonportError.of("bad_option", "a token is made of letters, digits and . _ ~ + / -");
    }
    this.#target = targetOf(options.url);
    this.delay = new HttpDelay({
      world: options.world,
      get: (path) => this.#get(path),
      send: async (path, body, callId) => (await this.#ask({ method: "POST", path, body, callId })).body,
      change: async (path) => (await this.#ask({ method: "POST", path, once: true })).body,
    });
  }

  /** Drops the kept connections. */
  close(): void {
    this.#agent.destroy();
  }

  /** The node sees every caller of this door as `{kind: "client"}`, whatever the request says. */
  async call(request: CallRequest): Promise<CallReply> {
    const { object, args, signal } = request;
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
    const path = `/v1/${objectPath(object)}/${encodeURIComponent(request.method)}`;
    const callId = request.callId ?? uuidv7(this.#options.world);
    const headers = {
      [CALL_ID_HEADER]: callId,
      [TIMEOUT_HEADER]: String(Math.max(1, Math.ceil(timeoutMs))),
      ...(request.consistency && { [CONSISTENCY_HEADER]: request.consistency }),
    };
    const body = wireJson([...args]);
    const ask: Ask = request.mustRead
      ? { method: "GET", path: `${path}?args=${encodeURIComponent(body)}`, headers, timeoutMs, callId }
      : { method: "POST", path, body, headers, timeoutMs, callId };
    const answer = await this.#ask(signal === undefined ? ask : { ...ask, signal });
    const { [SEQ_HEADER]: seq, [FROM_HEADER]: from, [NODE_HEADER]: name, [NODE_URL_HEADER]: url } = answer.headers;
    return {
      value: answer.body,
      ...(typeof seq === "string" && { seq: Number(seq) }),
      ...(from === "replica" && { from }),
      ...(typeof name === "string" && { node: { name, ...(typeof url === "string" && { url }) } }),
    };
  }

  /**
   * Over the node's event stream. It comes back by itself from the number it has come to, until it is closed, the object is
   * destroyed, or the node refuses it for good. A sink that is full is waited for, not ended.
   * @throws MoonportError the node's refusal, `node_unreachable` when the first connection fails
   */
  async subscribe(request: SubscribeRequest, sink: Sink, resume: ResumeOptions = {}): Promise<Subscription> {
    const { world, token } = this.#options;
    const { address, interrupted = () => {} } = resume;
    const rest = { path: `/v1/${objectPath(request.object)}/-/events`, headers: authorizationOf(token) };
    const target = async () => ({ ...(address === undefined ? this.#target : targetOf(await address())), ...rest });
    const options = { world, target, interrupted };
    return new StreamSubscription(options, request, sink).open({ ...this.#target, ...rest });
  }

  async storeGet(object: ObjectIdentity, key: string): Promise<PlainValue | undefined> {
    const body = await this.#get(`/v1/admin/store/${objectPath(object)}?key=${encodeURIComponent(key)}`);
    return (body as PlainObject).found === true ? (body as PlainObject).value : undefined;
  }

  async storeList(object: ObjectIdentity, prefix: string): Promise<readonly (readonly [string, PlainValue])[]> {
    const body = await this.#get(`/v1/admin/store/${objectPath(object)}?prefix=${encodeURIComponent(prefix)}`);
    return (body as { entries: [string, PlainValue][] }).entries;
  }

  async sql(object: ObjectIdentity, statement: string, parameters: readonly SqlValue[]): Promise<SqlRows> {
    const body = wireJson({ statement, parameters: [...parameters] });
    const answer = await this.#ask({
      method: "POST",
      path: `/v1/admin/sql/${objectPath(object)}`,
      body,
      changes: false,
    });
    return answer.body as { columns: string[]; rows: SqlValue[][] };
  }

  async inspect(object: ObjectIdentity): Promise<Inspection> {
    return as<Inspection>(await this.#get(`/v1/admin/inspect/${objectPath(object)}`));
  }

  async timers(object: ObjectIdentity): Promise<ObjectTimers> {
    return as<ObjectTimers>(await this.#get(`/v1/admin/timers/${objectPath(object)}`));
  }

  async destroy(object: ObjectIdentity): Promise<void> {
    await this.#ask({ method: "POST", path: `/v1/admin/destroy/${objectPath(object)}`, once: true });
  }

  async recover(object: ObjectIdentity): Promise<Recovered> {
    const path = `/v1/admin/recover/${objectPath(object)}`;
    return as<Recovered>((await this.#ask({ method: "POST", path, once: true })).body);
  }

  async history(object: ObjectIdentity, limit?: number): Promise<ObjectHistory> {
    const query = limit === undefined ? "" : `?limit=${limit}`;
    return as<ObjectHistory>(await this.#get(`/v1/admin/history/${objectPath(object)}${query}`));
  }

  async restore(object: ObjectIdentity, restoration: Restoration): Promise<Restored> {
    return await this.#putPast("restore", object, { ...restorationFields(restoration) });
  }

  async fork(object: ObjectIdentity, restoration: Partial<Restoration>, key: string): Promise<Restored> {
    return await this.#putPast("fork", object, { ...restorationFields(restoration), to: key });
  }

  async exportDatabase(object: ObjectIdentity, at?: PointInTime): Promise<ExportedDatabase> {
    const { world, token } = this.#options;
    const query = at === undefined ? "" : "seq" in at ? `?seq=${at.seq}` : `?atMs=${at.atMs}`;
    const ask = { method: "GET", path: `/v1/admin/export/${objectPath(object)}${query}` };
    const options = { ...this.#target, ...requestOf(ask, token) };
    const unreachable = (what: string, cause?: unknown): MoonportError => this.#unreachable(what, cause);
    const { status, headers, parts } = await download(world, options, PAST_TIMEOUT_MS, unreachable);
    const [seq, atMs] = [headers[SEQ_HEADER], headers[CUT_HEADER]];
    if (status !== 200 || typeof seq !== "string") throw await this.#refused(status, headers, parts);
    return {
      seq: Number(seq),
      ...(typeof atMs === "string" && { atMs: Number(atMs) }),
      bytes: Number(headers["content-length"]),
      parts,
    };
  }

  /** As with calls, the node sees a client. What the unit answered comes back whatever its status. */
  async runUnit(request: UnitRequest): Promise<UnitResponse> {
    const { app, unit, signal } = request;
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
    const callId = request.callId ?? uuidv7(this.#options.world);
    const ask: Ask = {
      method: request.method,
      path: `/v1/${app}/units/${encodeURIComponent(unit)}${unitPath(request)}`,
      ...unitBody(request),
      headers: {
        ...unitBody(request).headers,
        [CALL_ID_HEADER]: callId,
        [TIMEOUT_HEADER]: String(Math.max(1, Math.ceil(timeoutMs))),
      },
      timeoutMs,
      ...(signal !== undefined && { signal }),
      callId,
      // A GET of a unit may write as well.
      changes: true,
      // What a unit fetches it would fetch again.
      once: true,
    };
    const raw = await this.#exchange(ask);
    const { status, headers } = raw;
    if (headers[UNIT_HEADER] === undefined) {
      throw errorOf(answerOf(raw).body) ?? this.#strange(ask, status);
    }
    return { status, headers: unitHeaders(headers), body: unitAnswerBody(raw) };
  }

  async find({ app, className, query, timeoutMs = this.#timeoutMs }: FindRequest): Promise<FoundPage> {
    const { where, params, order, limit, after, count } = query;
    const asked = new URLSearchParams({
      ...(where !== undefined && { where }),
      ...(params !== undefined && { params: wireJson(params as PlainValue) }),
      ...(order !== undefined && { order }),
      ...(limit !== undefined && { limit: String(limit) }),
      ...(after !== undefined && { after }),
      ...(count === true && { count: "true" }),
    });
    const headers = { [TIMEOUT_HEADER]: String(Math.max(1, Math.ceil(timeoutMs))) };
    const path = `/v1/${app}/${className}${asked.size === 0 ? "" : `?${asked}`}`;
    return as<FoundPage>((await this.#ask({ method: "GET", path, headers, timeoutMs })).body);
  }

  async directory(app: string, className: string): Promise<DirectoryStatus> {
    return as<DirectoryStatus>(await this.#get(`/v1/admin/directory/${app}/${className}`));
  }

  async rebuildDirectory(app: string, className: string): Promise<DirectoryStatus> {
    const path = `/v1/admin/directory/${app}/${className}`;
    return as<DirectoryStatus>((await this.#ask({ method: "POST", path, once: true })).body);
  }

  async units(): Promise<readonly UnitInfo[]> {
    return as<{ units: UnitInfo[] }>(await this.#get("/v1/admin/classes")).units;
  }

  async classes(): Promise<readonly ClassInfo[]> {
    return as<{ classes: ClassInfo[] }>(await this.#get("/v1/admin/classes")).classes;
  }

  async status(): Promise<NodeStatus> {
    return as<NodeStatus>(await this.#get("/v1/admin/status"));
  }

  async nodes(): Promise<readonly NodeInfo[]> {
    return as<{ nodes: NodeInfo[] }>(await this.#get("/v1/admin/nodes")).nodes;
  }

  async ring(object?: ObjectIdentity): Promise<RingInfo> {
    return as<RingInfo>(await this.#get(`/v1/admin/ring${object === undefined ? "" : `/${objectPath(object)}`}`));
  }

  async drain(request: DrainRequest): Promise<Drained> {
    const timeoutMs = SETTINGS.DRAIN_MS.max;
    const ask: Ask = { method: "POST", path: "/v1/admin/drain", body: wireJson({ ...request }), timeoutMs, once: true };
    return as<Drained>((await this.#ask(ask)).body);
  }

  async deploy({ app, ...request }: DeployRequest): Promise<Deployed> {
    return await this.#publish(`/v1/admin/releases/${app}`, {
      ...request,
      files: request.files.map((file) => ({ ...file })),
    });
  }

  async rollback({ app, ...request }: RollbackRequest): Promise<Deployed> {
    return await this.#publish(`/v1/admin/rollback/${app}`, { ...request });
  }

  async releases(app: string): Promise<AppReleases> {
    return as<AppReleases>(await this.#get(`/v1/admin/releases/${app}`));
  }

  async quarantine(): Promise<readonly QuarantineEntry[]> {
    return as<{ methods: QuarantineEntry[] }>(await this.#get("/v1/admin/quarantine")).methods;
  }

  async clearQuarantine(object: ObjectIdentity, method: string): Promise<boolean> {
    const path = `/v1/admin/quarantine/${objectPath(object)}`;
    const answer = await this.#ask({ method: "POST", path, body: wireJson({ method }), once: true });
    return as<{ cleared: boolean }>(answer.body).cleared;
  }

  /** Which life of a node answers here; asks for no right. @throws MoonportError `node_unreachable` */
  async session(): Promise<string> {
    const { body } = answerOf(await this.#exchange({ method: "GET", path: "/healthz" }));
    // A node that is not well says who it is all the same.
    const session = isTable(body) ? body.session : undefined;
    if (typeof session === "string") return session;
    throw errorOf(body) ?? this.#unreachable("is no Moonport node");
  }

  /** Objects may have to be read before, all of a class. */
  async #publish(path: string, request: PlainObject): Promise<Deployed> {
    const ask: Ask = { method: "POST", path, body: wireJson(request), timeoutMs: PAST_TIMEOUT_MS, once: true };
    return as<Deployed>((await this.#ask(ask)).body);
  }

  async #putPast(route: "restore" | "fork", object: ObjectIdentity, fields: PlainObject): Promise<Restored> {
    const path = `/v1/admin/${route}/${objectPath(object)}`;
    const body = wireJson(fields);
    const answer = await this.#ask({ method: "POST", path, body, timeoutMs: PAST_TIMEOUT_MS, once: true });
    return as<Restored>(answer.body);
  }

  async #refused(
    status: number,
    headers: http.IncomingHttpHeaders,
    parts: AsyncIterable<Uint8Array>,
  ): Promise<MoonportError> {
    const read: Uint8Array[] = [];
    for await (const part of parts) read.push(part);
    const { body } = answerOf({ status, headers, bytes: Buffer.concat(read) });
    return errorOf(body) ?? this.#unreachable(`answered ${status} and is no Moonport node`);
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? SETTINGS.CALL_TIMEOUT_MS.default;
  }

  async #get(path: string): Promise<PlainValue> {
    return (await this.#ask({ method: "GET", path })).body;
  }

  async #ask(ask: Ask): Promise<Answer> {
    if (ask.signal?.aborted) throw callerGone();
    const raw = await this.#exchange(ask);
    const { status, headers, body } = answerOf(raw);
    if (status === 200 && body !== undefined) return { status, headers, body };
    const error = errorOf(body) ?? this.#strange(ask, status);
    // That it was turned away now says nothing of what the first one came to.
    if (raw.isRepeat && changes(ask) && error.retryable) {
      throw this.#unknown(ask, "closed the connection under the request", "connection", error);
    }
    throw error;
  }

  /** @param wasSent before, over a connection that was closed: what that came to is not known */
  #exchange(ask: Ask, wasSent = false): Promise<RawAnswer> {
    const { world, token } = this.#options;
    return new Promise((resolve, reject) => {
      const request = http.request({ ...this.#target, agent: this.#agent, ...requestOf(ask, token) });
      const waitMs = ask.timeoutMs === undefined ? this.#timeoutMs : ask.timeoutMs + ANSWER_MARGIN_MS;
      // Before there is a connection nothing has left.
      let isSent = wasSent;
      request.once("socket", (socket) => {
        if (!socket.connecting) isSent = true;
        else socket.once("connect", () => (isSent = true));
      });
      const lose = (what: string, lost: Lost, cause?: unknown): void =>
        fail(isSent && changes(ask) ? this.#unknown(ask, what, lost, cause) : this.#unreachable(what, cause));
      const timer = world.timers.after(waitMs, () => lose(`did not answer within ${Math.round(waitMs)} ms`, "time"));
      const gone = (): void => {
        if (isSent && changes(ask)) lose("was not waited for", "caller");
        else fail(callerGone());
      };
      let isSettled = false;
      const settle = (): void => {
        isSettled = true;
        timer.cancel();
        ask.signal?.removeEventListener("abort", gone);
      };
      const fail = (error: MoonportError): void => {
        settle();
        reject(error);
        request.destroy();
      };
      ask.signal?.addEventListener("abort", gone, { once: true });
      request.on("error", (cause: NodeJS.ErrnoException) => {
        // Of a request that was given up here: nobody waits for it to be sent again.
        if (isSettled) return;
        // The node closed a kept connection just as we took it up again. A fresh one tells whether it is still there.
        if (request.reusedSocket && cause.code === "ECONNRESET" && ask.once !== true) {
          settle();
          return resolve(this.#exchange(ask, true));
        }
        lose(`does not answer (${cause.code ?? cause.message})`, "connection", cause);
      });
      request.on("response", (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", (cause) => lose("broke off its answer", "connection", cause));
        response.on("end", () => {
          settle();
          const { statusCode: status = 0, headers } = response;
          resolve({ status, headers, bytes: Buffer.concat(parts), isRepeat: wasSent });
        });
      });
      request.end(ask.body);
    });
  }

  /** What stands between may have passed the request on. */
  #strange(ask: Ask, status: number): MoonportError {
    const what = `answered ${status} and is no Moonport node`;
    return status >= 500 && changes(ask) ? this.#unknown(ask, what, "connection") : this.#unreachable(what);
  }

  #unknown({ callId }: Ask, what: string, lost: Lost, cause?: unknown): MoonportError {
    const named = callId === undefined ? {} : { callId };
    return MoonportError.of("outcome_unknown", `${this.#options.url} ${what}: what was asked for may have been done`, {
      cause,
      hint:
        callId === undefined
          ? "look whether it was done before you ask again"
          : "ask again with the same id to learn what became of it",
      ...named,
      details: { ...named, lost },
    });
  }

  #unreachable(what: string, cause?: unknown): MoonportError {
    return MoonportError.of("node_unreachable", `${this.#options.url} ${what}`, {
      cause,
      hint: "start a node with `moonport start` or `moonport dev`",
    });
  }
}

function requestOf(ask: Ask, token: string | undefined): http.RequestOptions {
  const body = ask.body === undefined ? {} : { "content-type": "application/json" };
  const length = ask.method === "GET" ? {} : { "content-length": String(Buffer.byteLength(ask.body ?? "")) };
  const headers = { ...body, ...length, ...authorizationOf(token), ...ask.headers };
  return { method: ask.method, path: ask.path, headers };
}

function authorizationOf(token: string | undefined): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** What follows the unit's name in its address, with the query. */
function unitPath({ path, query }: UnitRequest): string {
  const parts = path.split("/").slice(1).map(encodeURIComponent);
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (typeof value === "string" ? [value] : value).map(
      (one) => `${encodeURIComponent(name)}=${encodeURIComponent(one)}`,
    ),
  );
  const below = path === "/" ? "" : `/${parts.join("/")}`;
  return pairs.length === 0 ? below : `${below}?${pairs.join("&")}`;
}

function unitBody({ body, headers }: UnitRequest): { body?: string | Uint8Array; headers: Record<string, string> } {
  const type = headers["content-type"];
  if (body === undefined) return { headers: { ...headers } };
  if (body instanceof Uint8Array) return { body, headers: { "content-type": "application/octet-stream", ...headers } };
  const isText = typeof body === "string" && type !== undefined && !/json/.test(type);
  return { body: isText ? body : wireJson(body), headers: { "content-type": "application/json", ...headers } };
}

/** Those of the unit alone: the connection's and the node's say nothing to whoever asked. */
function unitHeaders(headers: http.IncomingHttpHeaders): Record<string, string> {
  const ours = [UNIT_HEADER, "connection", "keep-alive", "content-length", "date", "transfer-encoding"];
  const entries = Object.entries(headers).filter(([name, value]) => value !== undefined && !ours.includes(name));
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : `${value}`]),
  );
}

function unitAnswerBody({ headers, bytes }: RawAnswer): string | Uint8Array {
  const isText = /^text\/|json|xml|urlencoded/.test(headers["content-type"] ?? "");
  return isText ? bytes.toString("utf8") : new Uint8Array(bytes);
}

function restorationFields({ at, timers }: Partial<Restoration>): PlainObject {
  return { ...(at !== undefined && { at: { ...at } }), ...(timers !== undefined && { timers }) };
}

function objectPath({ app, className, key }: ObjectIdentity): string {
  return `${app}/${className}/${encodeURIComponent(key)}`;
}

/** Without a body when that is not JSON. */
function answerOf({
  status,
  headers,
  bytes,
}: Omit<RawAnswer, "isRepeat">): Omit<Answer, "body"> & { readonly body?: PlainValue } {
  const body = /json/.test(headers["content-type"] ?? "") ? answerBody(bytes.toString("utf8")) : undefined;
  return body === undefined ? { status, headers } : { status, headers, body };
}

function isTable(value: PlainValue | undefined): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

function answerBody(text: string): PlainValue | undefined {
  try {
    return parseWireJson(text, "the answer", ANSWER_DEPTH_MAX);
  } catch {
    return undefined;
  }
}

/** The node's own reports are JSON of the declared shape: both ends are this package. */
function as<T extends object>(body: PlainValue): T {
  const report: unknown = body;
  return report as T;
}

function changes({ method, changes = method !== "GET" }: Ask): boolean {
  return changes;
}

function callerGone(): MoonportError {
  return MoonportError.of("caller_gone", "the caller gave the request up");
}

function targetOf(url: string): { host: string; port: number } {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol !== "http:" || parsed.pathname !== "/" || parsed.search !== "" || hasLogin(parsed)) {
    throw notAnAddress(url, "http://127.0.0.1:7070");
  }
  return { host: parsed.hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(parsed.port || "80") };
}
