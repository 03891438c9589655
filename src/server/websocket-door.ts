/**
 * The WebSocket door: `/v1/socket` on the HTTP door's own port, documented in docs/websocket.md.
 *
 * It decides who becomes a socket (subprotocol, how many there may be; the HTTP door has looked at Host and Origin), looks after all of them
 * (pings, changes of tokens, the end of the node), and leaves each to its {@link ClientSocket}.
 */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { Authenticator } from "../auth/contract.js";
import { openAuthenticator } from "../auth/open-auth.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { NodeApi, NodeInfo } from "../node-api.js";
import type { LiveApi } from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import { codecOf, type FrameCodec } from "../wire/codec.js";
import { JSON_PROTOCOL, MSGPACK_PROTOCOL, SOCKET_PATH } from "../wire/frames.js";
import { Deadlines } from "../world/deadlines.js";
import type { Timer, World } from "../world/world.js";
import { ClientSocket, type SocketContext } from "./client-socket.js";
import type { UpgradeHandler } from "./http-handler.js";
import { refuseConnection } from "./raw-answer.js";
import { RightsWalk } from "./rights-walk.js";
import { TurnEnd } from "./turn-end.js";

export interface WebSocketDoorOptions {
  readonly node: NodeApi;
  readonly live: LiveApi;
  readonly settings: Settings;
  readonly world: Pick<World, "clock" | "timers" | "log">;
  readonly session: string;
  /** Everybody may do everything without. */
  readonly auth?: Authenticator;
}

/** How long the other side has to answer a close; then the connection is cut. */
const CLOSE_ANSWER_MS = 5_000;

export class WebSocketDoor implements UpgradeHandler {
  readonly path = SOCKET_PATH;
  readonly #context: SocketContext;
  readonly #server: WebSocketServer;
  readonly #sockets = new Map<WebSocket, ClientSocket>();
  readonly #walk: RightsWalk;
  #pings: Timer | undefined;
  #allClosed: (() => void) | undefined;
  #isStopping = false;

  constructor({ node, live, settings, world, session, auth = openAuthenticator }: WebSocketDoorOptions) {
    this.#context = {
      node,
      live,
      settings,
      world,
      session,
      auth,
      deadlines: new Deadlines(world),
      turnEnd: new TurnEnd(world),
    };
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: settings.SOCKET_FRAME_BYTES_MAX,
      handleProtocols: (offered) => codecFor([...offered])?.protocol ?? false,
      closeTimeout: CLOSE_ANSWER_MS,
    } as ConstructorParameters<typeof WebSocketServer>[0]);
    this.#walk = new RightsWalk(auth, world, () => this.#renewals());
    this.#armPings();
  }

  /** Open sockets, and what is under way on them. */
  get load(): { readonly sockets: number; readonly calls: number; readonly subscriptions: number } {
    const loads = [...this.#sockets.values()].map((socket) => socket.load);
    return {
      sockets: loads.length,
      calls: loads.reduce((sum, { calls }) => sum + calls, 0),
      subscriptions: loads.reduce((sum, { subscriptions }) => sum + subscriptions, 0),
    };
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Until ws takes it, and after a refusal, nobody else listens.
    socket.on("error", ignore);
    try {
      const codec = this.#admit(request);
      this.#server.handleUpgrade(request, socket, head, (ws) => this.#opened(ws, codec, socket));
    } catch (error) {
      refuseConnection(socket, asMoonportError(error));
    }
  }

  /** The node is about to stop: clients hear where else they may go. Everything is answered as before. */
  async leaving(): Promise<void> {
    const nodes = otherAddresses(await this.#context.node.nodes());
    for (const socket of this.#sockets.values()) socket.leaving(nodes);
  }

  /** Takes no new sockets, tells subscribers, answers the calls under way (within DRAIN_MS), closes all. Idempotent. */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#pings?.cancel();
    this.#walk.stop();
    const { timers } = this.#context.world;
    const sockets = [...this.#sockets.values()];
    const force = timers.after(this.#context.settings.DRAIN_MS, () => {
      for (const socket of sockets) socket.close("stopping", "the node has stopped");
    });
    await Promise.all(sockets.map((socket) => socket.stop()));
    force.cancel();
    if (this.#sockets.size > 0) await this.#closed();
    this.#context.deadlines.stop();
    this.#server.close();
  }

  #closed(): Promise<void> {
    return new Promise((resolve) => {
      this.#allClosed = resolve;
    });
  }

  /** @throws MoonportError when this request becomes no socket */
  #admit({ headers }: IncomingMessage): FrameCodec {
    if (this.#isStopping) throw MoonportError.of("node_stopping", "the node is shutting down");
    const { SOCKETS_MAX } = this.#context.settings;
    if (this.#sockets.size >= SOCKETS_MAX) {
      throw MoonportError.of("node_full", `the node has ${SOCKETS_MAX} open WebSockets`, { retryAfterMs: 1_000 });
    }
    return negotiated(headers["sec-websocket-protocol"]);
  }

  #opened(ws: WebSocket, codec: FrameCodec, raw: Duplex): void {
    this.#sockets.set(ws, new ClientSocket(this.#context, codec, ws, raw));
    ws.on("close", () => {
      this.#sockets.delete(ws);
      if (this.#sockets.size === 0) this.#allClosed?.();
    });
  }

  *#renewals(): Generator<void> {
    for (const socket of [...this.#sockets.values()]) yield* socket.renew();
  }

  #armPings(): void {
    const { world, settings } = this.#context;
    this.#pings = world.timers.after(settings.SOCKET_PING_MS, () => {
      for (const socket of this.#sockets.values()) socket.ping();
      this.#armPings();
    });
  }
}

/** The first of the client's that there is. @throws MoonportError `bad_request` */
function negotiated(header: string | undefined): FrameCodec {
  const offered = (header ?? "").split(",").map((name) => name.trim());
  const codec = codecFor(offered);
  if (codec !== undefined) return codec;
  const found = header === undefined ? "none is named" : `there is no "${offered.join(", ").slice(0, 80)}"`;
  throw MoonportError.of("bad_request", `a WebSocket needs a subprotocol, and ${found}`, {
    hint: `new WebSocket(url, "${JSON_PROTOCOL}"), or "${MSGPACK_PROTOCOL}"`,
  });
}

function codecFor(offered: readonly string[]): FrameCodec | undefined {
  return offered.map(codecOf).find((codec) => codec !== undefined);
}

/** Where clients reach the other nodes that live and take objects. */
function otherAddresses(nodes: readonly NodeInfo[]): readonly string[] {
  const others = nodes.filter(({ own, standing, weight }) => !own && standing === "live" && weight > 0);
  return others.flatMap(({ clientAddress }) => clientAddress ?? []);
}

function ignore(): void {}
