/**
 * The real network: WebSockets on a port of their own, `ws://host:port/v1/link`, subprotocol `moonport.link.v1`; `wss:` where
 * the fleet has certificates, and then nothing else.
 *
 * Nothing here knows who is who: until a channel is trusted it may bring a few kilobytes, and connections that never become
 * channels are cut by the HTTP server's own time-outs. Small messages leave at once (`ws` sets TCP_NODELAY).
 */
import { createServer, type IncomingMessage, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocket, WebSocketServer } from "ws";
import { asMoonportError, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { type Channel, type ChannelEvents, type Listening, type Network, STRANGER_BYTES_MAX } from "./contract.js";
import { type LinkTls, tlsOptions } from "./link-tls.js";

export interface WsNetworkOptions {
  /** Where to listen. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** By what host others reach this node; default `host`. */
  readonly advertisedHost?: string;
  /** By what whole address, `ws://host:port` or `wss://host:port`, where another port leads here; wins over the host. */
  readonly advertisedAddress?: string;
  /** Without it links are not encrypted. */
  readonly tls?: LinkTls;
  readonly settings: Settings;
}

const PATH = "/v1/link";
const PROTOCOL = "moonport.link.v1";
/** Of a request's head, which a stranger sends before anything else. */
const HEADER_BYTES_MAX = 8_192;
/** Beyond it the system's queue holds them; a fleet has a link or two a pair of nodes. */
const CONNECTIONS_MAX = 4_096;
/** How long the other side has to answer a close; then the connection is cut. */
const CLOSE_ANSWER_MS = 1_000;
/** A close frame has no room for more. */
const REASON_BYTES_MAX = 123;

export class WsNetwork implements Network {
  readonly #options: WsNetworkOptions;

  constructor(options: WsNetworkOptions) {
    this.#options = options;
  }

  connect(address: string, events: ChannelEvents, timeoutMs: number): Promise<Channel> {
    return new Promise((resolve, reject) => {
      const unreachable = (cause: unknown): void => {
        const why = cause instanceof Error ? cause.message : String(cause);
        reject(MoonportError.of("node_unreachable", `${address} cannot be reached: ${why}`, { cause }));
      };
      if (address.startsWith(`${this.#scheme === "ws" ? "wss" : "ws"}://`)) {
        return unreachable(`this node's links are ${this.#scheme}: and that one's are not`);
      }
      let ws: WebSocket;
      try {
        ws = new WebSocket(address + PATH, PROTOCOL, this.#clientOptions(timeoutMs));
      } catch (error) {
        return unreachable(error);
      }
      let raw: Socket | undefined;
      ws.on("upgrade", (response) => {
        raw = response.socket;
      });
      ws.on("error", unreachable);
      ws.on("open", () => {
        if (raw !== undefined) resolve(new WsChannel(ws, raw, () => events));
      });
    });
  }

  async listen(accept: (channel: Channel) => ChannelEvents): Promise<Listening> {
    const { host, port, advertisedHost = host, advertisedAddress } = this.#options;
    const server = this.#server(accept);
    await new Promise<void>((resolve, reject) => {
      server.on("error", (cause) => reject(listenError(cause, host, port)));
      server.listen({ host, port }, resolve);
    });
    const { port: bound } = server.address() as AddressInfo;
    const reachedAt = `${this.#scheme}://${advertisedHost.includes(":") ? `[${advertisedHost}]` : advertisedHost}:${bound}`;
    return {
      address: advertisedAddress ?? reachedAt,
      close: () => closed(server),
    };
  }

  get #scheme(): "ws" | "wss" {
    return this.#options.tls === undefined ? "ws" : "wss";
  }

  #clientOptions(timeoutMs: number): WebSocket.ClientOptions {
    const { tls } = this.#options;
    return {
      ...(tls && tlsOptions(tls)),
      handshakeTimeout: timeoutMs,
      perMessageDeflate: false,
      maxPayload: this.#options.settings.LINK_MESSAGE_BYTES_MAX,
      followRedirects: false,
      // Masks protect caches between browsers and servers. All zero, they cost nothing.
      generateMask: (mask) => void mask.fill(0),
      closeTimeout: CLOSE_ANSWER_MS,
    } as WebSocket.ClientOptions;
  }

  #server(accept: (channel: Channel) => ChannelEvents): Server {
    const { LINK_CONNECT_MS, LINK_MESSAGE_BYTES_MAX } = this.#options.settings;
    const sockets = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: LINK_MESSAGE_BYTES_MAX,
      handleProtocols: () => PROTOCOL,
      closeTimeout: CLOSE_ANSWER_MS,
    } as ConstructorParameters<typeof WebSocketServer>[0]);
    const server = this.#httpServer({
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: LINK_CONNECT_MS,
      requestTimeout: LINK_CONNECT_MS,
      connectionsCheckingInterval: Math.min(1_000, LINK_CONNECT_MS),
    });
    server.on("request", (_request, response) => {
      response.writeHead(426, { connection: "close" }).end("this port is for other nodes\n");
    });
    server.maxConnections = CONNECTIONS_MAX;
    server.on("upgrade", (request, socket, head) => {
      socket.on("error", ignore);
      if (!isLink(request)) return refuse(socket);
      sockets.handleUpgrade(request, socket, head, (ws) => {
        new WsChannel(ws, request.socket, accept);
      });
    });
    return server;
  }

  #httpServer(bounds: ServerOptions): Server {
    const { tls, settings } = this.#options;
    if (tls === undefined) return createServer(bounds);
    const { LINK_CONNECT_MS: handshakeTimeout } = settings;
    return createTlsServer({ ...bounds, ...tlsOptions(tls), requestCert: true, handshakeTimeout });
  }
}

class WsChannel implements Channel {
  readonly #ws: WebSocket;
  readonly #raw: Socket;
  readonly #events: ChannelEvents;
  readonly #bytesBefore: number;
  #isTrusting = false;
  #isOver = false;

  constructor(ws: WebSocket, raw: Socket, accept: (channel: Channel) => ChannelEvents) {
    this.#ws = ws;
    this.#raw = raw;
    this.#bytesBefore = raw.bytesRead;
    ws.on("message", (data, isBinary) => this.#received(data as Buffer, isBinary));
    ws.on("error", (error) => this.#closed(error.message));
    ws.on("close", (code, reason) => this.#closed(`${code} ${reason.toString()}`.trim()));
    // After `ws` has looked at the same bytes: they may hold what makes this side trust.
    raw.on("data", this.#count);
    this.#events = accept(this);
  }

  get bufferedBytes(): number {
    return this.#ws.bufferedAmount;
  }

  send(message: Uint8Array): void {
    if (!this.#isOver) this.#ws.send(message, { binary: true }, ignore);
  }

  trust(): void {
    this.#isTrusting = true;
    this.#raw.off("data", this.#count);
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ws.close(1_000, clipped(reason));
  }

  readonly #count = (): void => {
    if (this.#isTrusting || this.#raw.bytesRead - this.#bytesBefore <= STRANGER_BYTES_MAX) return;
    this.#ws.terminate();
    this.#closed(`more than ${STRANGER_BYTES_MAX} bytes came from a stranger`);
  };

  #received(data: Buffer, isBinary: boolean): void {
    if (this.#isOver) return;
    if (isBinary) return this.#events.message(new Uint8Array(data.buffer, data.byteOffset, data.length));
    this.#ws.terminate();
    this.#closed("a text message came, where all are binary");
  }

  #closed(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.closed(reason);
  }
}

function isLink({ url, headers }: IncomingMessage): boolean {
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  return url === PATH && offered.includes(PROTOCOL);
}

function refuse(socket: Duplex): void {
  socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", () => socket.destroy());
}

/** Connections that became channels are their owners' to close, and are waited for. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function listenError(cause: Error, host: string, port: number): MoonportError {
  const errno = (cause as NodeJS.ErrnoException).code;
  if (errno === "EADDRINUSE") {
    return MoonportError.of("address_in_use", `${host}:${port} is taken by another process`, { cause });
  }
  if (errno === "EADDRNOTAVAIL" || errno === "EACCES" || errno === "ENOTFOUND" || errno === "EAFNOSUPPORT") {
    return MoonportError.of("bad_option", `cannot listen on ${host}:${port} (${errno})`, { cause });
  }
  return asMoonportError(cause);
}

/** Cut between two characters. */
function clipped(text: string): string {
  let clip = text.slice(0, REASON_BYTES_MAX);
  while (Buffer.byteLength(clip) > REASON_BYTES_MAX) clip = clip.slice(0, -1);
  return clip.toWellFormed();
}

function ignore(): void {}
