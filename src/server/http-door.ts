/**
 * The HTTP door: a node's operations over HTTP/1.1, documented in docs/http.md.
 *
 * It owns the listening socket and nothing of the node: it checks what came in (size before parsing, then encoding, depth,
 * grammar), hands one operation to the {@link NodeApi}, and renders what comes back. Every error leaves as an RFC 9457
 * problem with a code of src/errors.ts. A caller that goes away before its reply aborts the call's signal.
 */
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { asMoonportError, MoonportError } from "../errors.js";
import type { NodeApi } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { PROBLEM_TYPE, problemOf, retryAfterSeconds } from "../wire/problem.js";
import type { World } from "../world/world.js";
import { checkLocalRequest, loopbackAddress } from "./loopback.js";
import { type DoorAnswer, operate } from "./operations.js";
import { type Route, routeOf } from "./routes.js";

export interface HttpDoorOptions {
  readonly node: NodeApi;
  readonly settings: Settings;
  readonly world: Pick<World, "timers" | "log">;
  /** A loopback address: there is no auth yet. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
}

/** A key of 256 bytes is 768 characters when each is percent-encoded; what is longer gets `bad_key`, not "no route". */
const PATH_PART_CHARACTERS_MAX = 16_384;

export class HttpDoor {
  readonly #options: HttpDoorOptions;
  #server: FastifyInstance | undefined;
  #stopping = false;

  constructor(options: HttpDoorOptions) {
    this.#options = options;
  }

  /** @throws MoonportError `insecure_bind`, `address_in_use`, `bad_option` for an address that this machine does not have */
  async start(): Promise<{ readonly url: string }> {
    const { port } = this.#options;
    const host = loopbackAddress(this.#options.host);
    const server = this.#build();
    try {
      await server.listen({ host, port });
    } catch (cause) {
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
    await server.close();
    force.cancel();
  }

  #build(): FastifyInstance {
    const { settings, world } = this.#options;
    const server = Fastify({
      logger: false,
      bodyLimit: settings.HTTP_BODY_BYTES_MAX,
      // For receiving a request: one that trickles in must not hold a connection for ever.
      requestTimeout: settings.CALL_TIMEOUT_MS,
      forceCloseConnections: "idle",
      return503OnClosing: false,
      routerOptions: { maxParamLength: PATH_PART_CHARACTERS_MAX },
      exposeHeadRoutes: false,
      // The router's own complaints (a broken escape, a method it has never heard of) come here.
      frameworkErrors: (error, _request, reply) => this.#fail(reply, error),
      clientErrorHandler: (error, socket) => {
        world.log.debug({ error: error.code }, "a connection sent no HTTP");
        if (socket.writable) socket.end(malformedAnswer(error.code));
        else socket.destroy();
      },
    });
    server.server.maxConnections = settings.HTTP_CONNECTIONS_MAX;
    server.removeAllContentTypeParsers();
    server.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    server.setErrorHandler((error, _request, reply) => this.#fail(reply, error));
    server.setNotFoundHandler((request, reply) => this.#answer(request, reply));
    server.addHook("onRequest", async (request) => {
      checkLocalRequest(request.headers.host, request.headers.origin);
    });
    server.all("*", (request, reply) => this.#answer(request, reply));
    return server;
  }

  async #answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    try {
      const route = routeOf(request.method, request.raw.url ?? "/");
      if (this.#stopping) return this.#whileStopping(route, reply);
      const answer = await operate(this.#options, route, {
        body: Buffer.isBuffer(request.body) ? request.body : undefined,
        headers: request.headers,
        gone: goneSignal(reply),
      });
      return this.#send(reply, answer);
    } catch (error) {
      return this.#fail(reply, error);
    }
  }

  #whileStopping(route: Route, reply: FastifyReply): FastifyReply {
    reply.header("connection", "close");
    if (route.kind !== "readyz") throw MoonportError.of("node_stopping", "the node is shutting down");
    return this.#send(reply, {
      status: 503,
      body: JSON.stringify({ ready: false, reason: "the node is shutting down" }),
    });
  }

  #send(reply: FastifyReply, answer: DoorAnswer): FastifyReply {
    return reply
      .code(answer.status)
      .headers({ ...STANDING_HEADERS, "content-type": "application/json; charset=utf-8", ...answer.headers })
      .send(answer.body);
  }

  #fail(reply: FastifyReply, thrown: unknown): FastifyReply {
    const error = doorError(thrown, this.#options.settings);
    if (error.code === "internal") {
      const { object, callId } = error;
      this.#options.world.log.error({ error: error.cause ?? error, object, callId }, "a request hit a fault");
    }
    const retryAfter = retryAfterSeconds(error);
    if (retryAfter !== undefined) reply.header("retry-after", String(retryAfter));
    // Only our own code's details may become a header: a class may throw any.
    const allowed = error.code === "method_not_allowed" ? error.details?.allow : undefined;
    if (Array.isArray(allowed)) reply.header("allow", allowed.join(", "));
    if (error.code === "not_a_reading_method") reply.header("allow", "POST");
    return reply
      .code(error.entry.status)
      .headers({ ...STANDING_HEADERS, "content-type": PROBLEM_TYPE })
      .send(JSON.stringify(problemOf(error)));
  }
}

const STANDING_HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** Aborted when the connection closes before the reply is written. */
function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}

/** What the HTTP library throws is the request's fault when it says so, and ours otherwise. */
function doorError(thrown: unknown, settings: Settings): MoonportError {
  if (thrown instanceof MoonportError) return thrown;
  const { code, statusCode, message } = thrown as { code?: string; statusCode?: number; message?: string };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return MoonportError.of("too_large", `the body is larger than ${settings.HTTP_BODY_BYTES_MAX} bytes`, {
      hint: "the limit is HTTP_BODY_BYTES_MAX",
    });
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return MoonportError.of("bad_request", message ?? "the request is malformed", { cause: thrown });
  }
  return asMoonportError(thrown);
}

function listenError(cause: unknown, host: string, port: number): MoonportError {
  const errno = (cause as NodeJS.ErrnoException).code;
  if (errno === "EADDRINUSE") {
    return MoonportError.of("address_in_use", `${host}:${port} is taken by another process`, {
      cause,
      hint: "--port 0 picks a free one",
    });
  }
  if (errno === "EADDRNOTAVAIL" || errno === "EACCES" || errno === "EAFNOSUPPORT") {
    return MoonportError.of("bad_option", `cannot listen on ${host}:${port} (${errno})`, { cause });
  }
  return asMoonportError(cause);
}

/** For bytes that are no HTTP request there is no reply object; this is the whole answer. */
function malformedAnswer(errno: string | undefined): string {
  const reason = errno === "HPE_HEADER_OVERFLOW" ? "the headers are too large" : "this is not an HTTP/1.1 request";
  const body = JSON.stringify(problemOf(MoonportError.of("bad_request", reason)));
  const headers = [
    "HTTP/1.1 400 Bad Request",
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "Connection: close",
  ];
  return `${headers.join("\r\n")}\r\n\r\n${body}`;
}
