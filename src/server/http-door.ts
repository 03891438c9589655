/**
 * The HTTP door: a node's operations over HTTP/1.1, documented in docs/http.md.
 *
 * It owns the listening socket and nothing of the node. A request is admitted by its head alone (where it comes from, which
 * handler's path, whose token, which right), then its body is taken, then one handler answers. Every error leaves as an RFC
 * 9457 problem with a code of src/errors.ts. A caller that goes away before its reply aborts the request's signal.
 */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Authenticator, Principal } from "../auth/contract.js";
import { openAuthenticator } from "../auth/open-auth.js";
import { asMoonportError, assert, isOwn, MoonportError } from "../errors.js";
import type { NodeApi } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { PROBLEM_TYPE, problemOf, retryAfterSeconds } from "../wire/problem.js";
import { Presence } from "../world/presence.js";
import type { World } from "../world/world.js";
import { bearerToken } from "./bearer.js";
import { Connections } from "./connections.js";
import { delayHandler } from "./delay-handler.js";
import { challenge, doorError, listenError, malformed, releaseBodyMax } from "./door-errors.js";
import type { HttpAnswer, HttpHandler, HttpOperation, UpgradeHandler } from "./http-handler.js";
import { loopbackAddress, plainAddress } from "./loopback.js";
import { operationsHandler } from "./operations.js";
import { Origins } from "./origins.js";
import { refuseConnection } from "./raw-answer.js";
import { type RequestLine, requestLineOf, routeNotFound } from "./request-line.js";
import { TurnEnd } from "./turn-end.js";
import { unitsHandler } from "./units-handler.js";

export interface HttpDoorOptions {
  readonly node: NodeApi;
  readonly settings: Settings;
  readonly world: Pick<World, "clock" | "timers" | "log">;
  /** A loopback address, unless there is auth. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Default: none, everybody may do everything. */
  readonly auth?: Authenticator;
  /** Origins whose pages may reach the node, and read its answers; see {@link Origins}. */
  readonly allowOrigins?: readonly string[];
  /** Asked before the door's own operations, in order. */
  readonly handlers?: readonly HttpHandler[];
  readonly upgrades?: readonly UpgradeHandler[];
}

/** What is known of a request before its body is read. */
interface Admitted {
  readonly line: RequestLine;
  readonly operation: HttpOperation;
  readonly principal: Principal;
}

declare module "fastify" {
  interface FastifyRequest {
    admitted: Admitted | null;
  }
}

/** A key of 256 bytes is 768 characters when each is percent-encoded; what is longer gets `bad_key`, not "no route". */
const PATH_PART_CHARACTERS_MAX = 16_384;

export class HttpDoor {
  readonly #options: HttpDoorOptions;
  readonly #auth: Authenticator;
  readonly #origins: Origins;
  readonly #handlers: readonly HttpHandler[];
  readonly #upgrades: readonly UpgradeHandler[];
  readonly #turnEnd: TurnEnd;
  #server: FastifyInstance | undefined;
  #connections: Connections | undefined;
  #stopping = false;

  /** @throws MoonportError `bad_option` for what is no origin */
  constructor(options: HttpDoorOptions) {
    this.#options = options;
    this.#auth = options.auth ?? openAuthenticator;
    this.#turnEnd = new TurnEnd(options.world);
    this.#origins = new Origins(this.#auth.isOpen, options.allowOrigins ?? []);
    this.#handlers = [
      ...(options.handlers ?? []),
      unitsHandler(options),
      delayHandler(options),
      operationsHandler(options),
    ];
    this.#upgrades = options.upgrades ?? [];
  }

  /** Open now. */
  get connections(): number {
    return this.#connections?.size ?? 0;
  }

  /** @throws MoonportError `insecure_bind`, `address_in_use`, `bad_option` for an address that this machine does not have */
  async start(): Promise<{ readonly url: string }> {
    const { port } = this.#options;
    const host = this.#auth.isOpen ? loopbackAddress(this.#options.host) : plainAddress(this.#options.host);
    const server = this.#build();
    try {
      await server.listen({ host, port });
    } catch (cause) {
      this.#connections?.stop();
      await server.close();
      throw listenError(cause, host, port);
    }
    this.#server = server;
    const bound = server.server.address();
    const boundPort = typeof bound === "object" && bound !== null ? bound.port : port;
    return { url: `http://${host.includes(":") ? `[${host}]` : host}:${boundPort}` };
  }

  /** Takes no new requests, waits for the running ones (at most DRAIN_MS), closes every connection. Idempotent. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined || this.#stopping) return;
    this.#stopping = true;
    const { world, settings } = this.#options;
    const force = world.timers.after(settings.DRAIN_MS, () => server.server.closeAllConnections());
    for (const handler of this.#handlers) handler.stop?.();
    this.#connections?.closeSilent();
    await Promise.all([server.close(), ...this.#upgrades.map((upgrade) => upgrade.stop())]);
    this.#connections?.stop();
    force.cancel();
  }

  #build(): FastifyInstance {
    const { settings, world } = this.#options;
    const server = Fastify({
      logger: false,
      bodyLimit: settings.HTTP_BODY_BYTES_MAX,
      // One that trickles in must not hold a connection for ever.
      requestTimeout: settings.HTTP_REQUEST_MS,
      keepAliveTimeout: settings.HTTP_IDLE_MS,
      http: {
        maxHeaderSize: settings.HTTP_HEADER_BYTES_MAX,
        headersTimeout: Math.min(settings.HTTP_HEADER_MS, settings.HTTP_REQUEST_MS),
        connectionsCheckingInterval: Math.min(1_000, settings.HTTP_HEADER_MS, settings.HTTP_REQUEST_MS),
      },
      forceCloseConnections: "idle",
      return503OnClosing: false,
      routerOptions: { maxParamLength: PATH_PART_CHARACTERS_MAX },
      exposeHeadRoutes: false,
      // The router's own complaints (a broken escape, a method it has never heard of) come here.
      frameworkErrors: (error, _request, reply) => this.#fail(reply, error),
      clientErrorHandler: (error, socket) => {
        world.log.debug({ error: error.code }, "a connection sent no HTTP");
        const isMidAnswer = connections.isAnswering(socket);
        if (socket.writable && !isMidAnswer) refuseConnection(socket, malformed(error.code, settings));
        else socket.destroy();
      },
    });
    const connections = new Connections(server.server, settings, world);
    this.#connections = connections;
    // Headers are bounded by their bytes. Beyond a number of them the library would drop some without a word.
    server.server.maxHeadersCount = 0;
    server.removeAllContentTypeParsers();
    server.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    server.setErrorHandler((error, _request, reply) => this.#fail(reply, error));
    server.decorateRequest("admitted", null);
    // A connection that was answering when the server began to close is idle afterwards, and would be waited for.
    server.addHook("onSend", (_request, reply, _payload, done) => {
      if (this.#stopping) reply.header("connection", "close");
      done();
    });
    // Hooks that return promises cost each request a good part of what the door costs.
    server.addHook("onRequest", (request, reply, done) => {
      try {
        if (this.#begin(request, reply, connections) === "admitted") done();
      } catch (error) {
        done(error as Error);
      }
    });
    // A body that is going to be refused is not asked for: the hook above does it once the head was admitted.
    server.server.on("checkContinue", (request, response) => server.server.emit("request", request, response));
    server.setNotFoundHandler((request, reply) => this.#answer(request, reply));
    // What is deployed may be larger than any call. Who may not deploy has been refused before.
    server.post("/v1/admin/releases/:app", { bodyLimit: releaseBodyMax(settings) }, (request, reply) =>
      this.#answer(request, reply),
    );
    server.all("*", (request, reply) => this.#answer(request, reply));
    if (this.#upgrades.length > 0) {
      server.server.on("upgrade", (request, socket, head) => this.#upgrade(server, request, socket, head));
    }
    return server;
  }

  /** By the head alone. @throws MoonportError why it is refused */
  #begin(request: FastifyRequest, reply: FastifyReply, connections: Connections): "admitted" | "answered" {
    const { headers, raw } = request;
    connections.check(raw.socket);
    this.#origins.check(request.method, headers);
    const forPages = this.#origins.headers(headers);
    if (forPages !== undefined) reply.headers(forPages);
    const preflight = this.#origins.preflight(request.method, headers);
    if (preflight !== undefined) {
      void reply.code(204).headers(preflight).send();
      return "answered";
    }
    request.admitted = this.#admit(request, reply);
    if (headers.expect?.toLowerCase() === "100-continue") reply.raw.writeContinue();
    return "admitted";
  }

  #admit({ raw, headers }: FastifyRequest, reply: FastifyReply): Admitted {
    const line = requestLineOf(raw.method ?? "GET", raw.url ?? "/");
    const operation = this.#operationOf(line);
    if (this.#stopping) {
      reply.header("connection", "close");
      if (operation.whileStopping !== true) throw stopping();
    }
    const { check } = operation;
    if (check === undefined) return { line, operation, principal: openAuthenticator.authenticate(undefined) };
    const principal = this.#auth.authenticate(this.#auth.isOpen ? undefined : bearerToken(headers.authorization));
    check(principal);
    return { line, operation, principal };
  }

  #operationOf(line: RequestLine): HttpOperation {
    for (const handler of this.#handlers) {
      const operation = handler.operation(line);
      if (operation !== undefined) return operation;
    }
    throw routeNotFound(line.url);
  }

  /** No promise: the library would listen for its reply's end. */
  #answer(request: FastifyRequest, reply: FastifyReply): void {
    void this.#operate(request, reply).then(
      (answer) => this.#leave(reply, () => this.#send(reply, answer)),
      (error: unknown) => this.#leave(reply, () => this.#fail(reply, error)),
    );
  }

  /** What can be written neither as an answer nor as an error ends its own connection, and nobody else's. */
  #leave(reply: FastifyReply, write: () => void): void {
    this.#turnEnd.add(() => {
      try {
        write();
      } catch (error) {
        this.#options.world.log.error({ error, url: reply.request.url }, "an answer could not be written");
        reply.raw.destroy();
      }
    });
  }

  async #operate(request: FastifyRequest, reply: FastifyReply): Promise<HttpAnswer> {
    const { admitted, body, headers } = request;
    assert(admitted !== null, "a request is answered after it was admitted");
    return await admitted.operation.answer({
      line: admitted.line,
      headers,
      body: Buffer.isBuffer(body) ? body : undefined,
      principal: admitted.principal,
      caller: this.#callerOf(reply),
      isStopping: this.#stopping,
    });
  }

  #upgrade(server: FastifyInstance, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Java's client offers h2c with its first request: that is no reason to refuse it.
    if (request.headers.upgrade?.toLowerCase() !== "websocket") {
      socket.unshift(withoutUpgrade(request, head));
      server.server.emit("connection", socket);
      return;
    }
    try {
      if (this.#stopping) throw stopping();
      this.#connections?.check(request.socket);
      this.#origins.check("GET", request.headers);
      const url = request.url ?? "/";
      const upgrade = this.#upgrades.find(({ path }) => path === url.split("?", 1)[0]);
      if (upgrade === undefined) throw routeNotFound(url);
      upgrade.upgrade(request, socket, head);
    } catch (error) {
      socket.on("error", () => socket.destroy());
      refuseConnection(socket, asMoonportError(error));
    }
  }

  #send(reply: FastifyReply, answer: HttpAnswer): void {
    // What its handler writes itself is past being an error.
    if (answer.kind === "open") return openAnswer(reply, answer);
    try {
      reply.code(answer.status).headers(JSON_HEADERS);
      for (const name in answer.headers) reply.header(name, answer.headers[name]);
      reply.send(answer.body);
    } catch (error) {
      this.#fail(reply, error);
    }
  }

  /** Gone when the connection closes before the answer is written. */
  #callerOf({ raw }: FastifyReply): Presence {
    const caller = new Presence();
    const { socket } = raw;
    if (socket !== null) this.#connections?.answering(socket);
    raw.once("close", () => {
      if (socket !== null) this.#connections?.answered(socket);
      if (!raw.writableFinished) caller.giveUp();
    });
    return caller;
  }

  #fail(reply: FastifyReply, thrown: unknown): void {
    const error = doorError(thrown, this.#options.settings, reply.request.url);
    if (isOwn(error, "internal")) {
      const { object, callId } = error;
      this.#options.world.log.error({ error: error.cause ?? error, object, callId }, "a request hit a fault");
    }
    const retryAfter = retryAfterSeconds(error);
    if (retryAfter !== undefined) reply.header("retry-after", String(retryAfter));
    // Only our own code's details may become a header: a class may throw any.
    const allowed = isOwn(error, "method_not_allowed") ? error.details?.allow : undefined;
    if (Array.isArray(allowed)) reply.header("allow", allowed.join(", "));
    if (isOwn(error, "not_a_reading_method")) reply.header("allow", "POST");
    if (isOwn(error, "unauthenticated")) reply.header("www-authenticate", challenge(reply.request.headers));
    // What is left of a body that nobody wants is not worth reading.
    if (isOwn(error, "node_full", "too_large")) reply.header("connection", "close");
    reply
      .code(error.entry.status)
      .headers({ ...STANDING_HEADERS, "content-type": PROBLEM_TYPE })
      .send(JSON.stringify(problemOf(error)));
  }
}

const STANDING_HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
const JSON_HEADERS = { ...STANDING_HEADERS, "content-type": "application/json; charset=utf-8" };

function openAnswer(reply: FastifyReply, answer: Extract<HttpAnswer, { kind: "open" }>): void {
  reply.hijack();
  for (const [name, value] of Object.entries({ ...STANDING_HEADERS, ...reply.getHeaders() })) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  answer.take(reply.raw);
}

function stopping(): MoonportError {
  return MoonportError.of("node_stopping", "the node is shutting down");
}

/** The request's head as it came, but for the offer to change the protocol, and what came after it. */
function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage, head: Buffer): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (!/^(upgrade|connection|http2-settings)$/i.test(name)) lines.push(`${name}: ${rawHeaders[at + 1]}`);
  }
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), head]);
}
