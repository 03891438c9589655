/**
 * A proxy before an S3 server that does to chosen requests what networks do: it loses answers, cuts connections at a
 * chosen place, delays, trickles, or answers in the server's stead.
 *
 * Everything else passes untouched, so signatures stay valid: the host header is the client's own. A request that no fault
 * matches is forwarded as it comes, with its body streamed; connections are kept alive, and `Expect: 100-continue` is the
 * server's to answer. A fault armed by `next` that no request met makes `stop` fail: such a test has tested nothing.
 */
import { once, setMaxListeners } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { discard, ProxiedExchange } from "./proxied-exchange.js";
import { s3ErrorDocument } from "./s3-error-document.js";
import { type S3RequestKind, s3Address, s3RequestKind } from "./s3-request-kind.js";

export type Fault =
  /** The server has answered in full; the client's connection is cut before any byte of it. */
  | { readonly kind: "answer_lost" }
  /** The whole request is read, never forwarded, and the connection cut. */
  | { readonly kind: "write_lost" }
  /** The whole request is forwarded, and the connection cut while the server is still at it. */
  | { readonly kind: "reset_before_headers" }
  /** The connection is cut at once; the request reaches the server only when `until` resolves. */
  | { readonly kind: "lands_late"; readonly until: Promise<void> }
  /** Cut on both sides when this many bytes of the body have passed, or all but the last. */
  | { readonly kind: "reset_in_request_body"; readonly afterBytes: number }
  /** Only the status line of the server's answer arrives. */
  | { readonly kind: "reset_after_status_line" }
  /** Headers and this many bytes of the answer's body arrive. */
  | { readonly kind: "reset_in_response_body"; readonly afterBytes: number }
  /** An answer of the proxy's own. The request is forwarded first where `forwards` is set. */
  | ({ readonly kind: "replaced"; readonly forwards?: boolean } & ReplacedAnswer)
  /** The answer's body comes in pieces of `chunkBytes`, one every `everyMs`. */
  | { readonly kind: "slow_body"; readonly chunkBytes: number; readonly everyMs: number }
  /** Forwarded after this time. */
  | { readonly kind: "latency"; readonly ms: number }
  /** Read, and never answered. Forwarded all the same where `forwards` is set. */
  | { readonly kind: "black_hole"; readonly forwards?: boolean };

export interface ReplacedAnswer {
  readonly status: number;
  /** Code of the S3 error document; without it the body is empty. */
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ProxiedRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly kind: S3RequestKind;
  readonly bucket: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The fault it met. */
  readonly fault?: Fault["kind"];
}

/** A kind, or a question asked of the request. */
export type RequestMatch = S3RequestKind | "any" | ((request: ProxiedRequest) => boolean);

export interface ArmedFault {
  /** Resolves when a request has met it. */
  readonly struck: Promise<ProxiedRequest>;
  /** Resolves when the proxy is done with that request: to the server's status, or `undefined` if none was seen. */
  readonly over: Promise<number | undefined>;
  disarm(): void;
}

export interface FaultProxy {
  readonly port: number;
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string;
  /** As they came. */
  readonly requests: readonly ProxiedRequest[];
  /** Strikes the next request that matches, once; several armed at once strike in the order of arming. */
  next(match: RequestMatch, fault: Fault): ArmedFault;
  /** Strikes every request that matches and that no `next` has taken, until the function given back is called. */
  always(match: RequestMatch, fault: Fault): () => void;
  /** Cuts every connection and refuses new ones; the function given back ends that. */
  refuseConnections(): Promise<() => Promise<void>>;
  /** @throws Error naming the faults of `next` that struck nothing */
  stop(): Promise<void>;
}

export interface FaultProxyOptions {
  /** Where the requests go. */
  readonly target: { readonly host: string; readonly port: number };
}

export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new HttpFaultProxy(options);
  await proxy.listen(0);
  return proxy;
}

interface Armed extends ArmedFault {
  readonly match: RequestMatch;
  readonly fault: Fault;
  strike(request: ProxiedRequest): void;
  end(status: number | undefined): void;
}

interface Standing {
  readonly match: RequestMatch;
  readonly fault: Fault;
}

const HOST = "127.0.0.1";
/** Longer than any test waits between two requests: a connection that is closed meanwhile would be a fault nobody armed. */
const KEEP_ALIVE_MS = 600_000;
/** Shorter than any server keeps an idle connection, for the same reason. */
const UPSTREAM_IDLE_MS = 3_000;
/** The oldest are forgotten. */
const REQUESTS_MAX = 100_000;

class HttpFaultProxy implements FaultProxy {
  readonly requests: ProxiedRequest[] = [];
  readonly #target: FaultProxyOptions["target"];
  readonly #server: http.Server;
  readonly #agent = new http.Agent({ keepAlive: true, timeout: UPSTREAM_IDLE_MS });
  readonly #stopping = new AbortController();
  readonly #underWay = new Map<ProxiedExchange, Promise<void>>();
  readonly #next: Armed[] = [];
  readonly #always: Standing[] = [];
  port = 0;

  constructor({ target }: FaultProxyOptions) {
    this.#target = target;
    // Each request that is held up waits for it.
    setMaxListeners(0, this.#stopping.signal);
    this.#server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0 });
    this.#server.on("request", (request, response) => this.#take(request, response, false));
    this.#server.on("checkContinue", (request, response) => this.#take(request, response, true));
  }

  get endpoint(): string {
    return `http://${HOST}:${this.port}`;
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => this.#server.once("error", reject).listen(port, HOST, resolve));
    this.port = (this.#server.address() as AddressInfo).port;
  }

  next(match: RequestMatch, fault: Fault): ArmedFault {
    const struck = deferred<ProxiedRequest>();
    const over = deferred<number | undefined>();
    const disarm = () => remove(this.#next, armed);
    const armed: Armed = {
      match,
      fault,
      struck: struck.promise,
      over: over.promise,
      strike: struck.resolve,
      end: over.resolve,
      disarm,
    };
    this.#next.push(armed);
    return armed;
  }

  always(match: RequestMatch, fault: Fault): () => void {
    const standing = { match, fault };
    this.#always.push(standing);
    return () => remove(this.#always, standing);
  }

  async refuseConnections(): Promise<() => Promise<void>> {
    await this.#close();
    return () => this.listen(this.port);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#close();
    for (const exchange of this.#underWay.keys()) exchange.abandon();
    await Promise.all(this.#underWay.values());
    this.#agent.destroy();
    if (this.#next.length === 0) return;
    const left = this.#next.map(({ fault, match }) => `${fault.kind} for ${String(match)}`);
    throw new Error(`no request met these faults: ${left.join(", ")}`);
  }

  async #close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #take(request: http.IncomingMessage, response: http.ServerResponse, isHeldBack: boolean): void {
    const route = { ...this.#target, agent: this.#agent };
    const exchange = new ProxiedExchange(request, response, route, { isHeldBack });
    const work = this.#pass(exchange).finally(() => this.#underWay.delete(exchange));
    this.#underWay.set(exchange, work);
  }

  async #pass(exchange: ProxiedExchange): Promise<void> {
    const { fault, armed } = this.#note(exchange.request);
    try {
      if (fault) await strike(fault, exchange, this.#stopping.signal);
      else await passOn(exchange);
    } catch {
      // The server or the client has gone, or the proxy stops: whoever is left finds the connection cut.
      exchange.cut();
    } finally {
      armed?.end(exchange.status);
    }
  }

  /** Finds the fault that a request meets, and adds the request to the list. */
  #note(message: http.IncomingMessage): { fault?: Fault; armed?: Armed } {
    const { method = "", url = "", headers } = message;
    const address = s3Address(url);
    const { bucket, key } = address;
    const seen: ProxiedRequest = { method, path: url, kind: s3RequestKind(method, address), bucket, key, headers };
    const armed = this.#next.find(({ match }) => matches(match, seen));
    const { fault } = armed ?? this.#always.find(({ match }) => matches(match, seen)) ?? {};
    const request = fault ? { ...seen, fault: fault.kind } : seen;
    this.requests.push(request);
    if (this.requests.length > REQUESTS_MAX) this.requests.splice(0, REQUESTS_MAX / 2);
    armed?.disarm();
    armed?.strike(request);
    return { ...(fault ? { fault } : {}), ...(armed ? { armed } : {}) };
  }
}

async function passOn(exchange: ProxiedExchange): Promise<void> {
  exchange.abandonWithClient();
  await exchange.relay(await exchange.forward());
}

async function strike(fault: Fault, exchange: ProxiedExchange, signal: AbortSignal): Promise<void> {
  switch (fault.kind) {
    case "answer_lost":
      await discard(await exchange.forward());
      return exchange.cut();
    case "write_lost":
      await exchange.body();
      return exchange.cut();
    case "reset_before_headers": {
      const body = await exchange.body();
      exchange.cut();
      return discard(await exchange.forward(body));
    }
    case "lands_late": {
      const body = await exchange.body();
      exchange.cut();
      await Promise.race([fault.until, aborted(signal)]);
      return discard(await exchange.forward(body));
    }
    case "reset_in_request_body":
      return exchange.forwardPart(fault.afterBytes);
    case "reset_after_status_line":
      return exchange.relayStatusLine(await exchange.forward());
    case "reset_in_response_body":
      return exchange.relayPart(await exchange.forward(), fault.afterBytes);
    case "replaced":
      return replace(fault, exchange);
    case "slow_body": {
      const answer = await exchange.forward();
      return exchange.relay(answer, trickle(answer, fault, signal));
    }
    case "latency":
      await sleep(fault.ms, undefined, { signal });
      return passOn(exchange);
    case "black_hole": {
      const body = await exchange.body();
      if (fault.forwards) await discard(await exchange.forward(body));
    }
  }
}

async function replace(
  fault: ReplacedAnswer & { readonly forwards?: boolean },
  exchange: ProxiedExchange,
): Promise<void> {
  const body = await exchange.body();
  if (fault.forwards) await discard(await exchange.forward(body));
  const document = fault.code === undefined ? "" : s3ErrorDocument(fault.code);
  const headers = {
    "content-type": "application/xml",
    "content-length": Buffer.byteLength(document),
    ...fault.headers,
  };
  exchange.response.writeHead(fault.status, headers);
  exchange.response.end(document);
}

async function* trickle(
  answer: AsyncIterable<Buffer>,
  { chunkBytes, everyMs }: Extract<Fault, { kind: "slow_body" }>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of answer) {
    for (let start = 0; start < chunk.length; start += chunkBytes) {
      await sleep(everyMs, undefined, { signal });
      yield chunk.subarray(start, start + chunkBytes);
    }
  }
}

function matches(match: RequestMatch, request: ProxiedRequest): boolean {
  if (typeof match === "function") return match(request);
  return match === "any" || match === request.kind;
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function deferred<T>(): { promise: Promise<T>; resolve(value: T): void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function remove<T>(list: T[], item: T): void {
  const index = list.indexOf(item);
  if (index >= 0) list.splice(index, 1);
}
