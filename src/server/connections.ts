/**
 * The connections of an HTTP server: how many there are, which are too many, which are stuck.
 *
 * One over HTTP_CONNECTIONS_MAX is still read, so that its request gets an answer (503) before it is closed; only a flood of
 * them is closed unanswered. One whose client does not take its answer is closed when nothing moved for HTTP_REQUEST_MS.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { Timer, World } from "../world/world.js";

/** Over the limit, and still read for the length of one refusal. */
const SURPLUS_MAX = 256;

interface Connection {
  readonly isSurplus: boolean;
  /** Requests that were read whole and whose answer is not written yet. */
  answering: number;
  /** Bytes sent and waiting when last looked at, if any waited. */
  waiting: { readonly sent: number; readonly queued: number } | undefined;
}

export class Connections {
  readonly #settings: Settings;
  readonly #timers: World["timers"];
  readonly #open = new Map<Socket, Connection>();
  #look: Timer | undefined;

  constructor(server: Server, settings: Settings, { timers }: Pick<World, "timers">) {
    this.#settings = settings;
    this.#timers = timers;
    server.maxConnections = settings.HTTP_CONNECTIONS_MAX + SURPLUS_MAX;
    server.on("connection", (socket) => this.#opened(socket));
    this.#lookLater();
  }

  get size(): number {
    return this.#open.size;
  }

  /** @throws MoonportError `node_full` for a connection over the limit */
  check(socket: Socket): void {
    if (this.#open.get(socket)?.isSurplus !== true) return;
    throw MoonportError.of("node_full", `this node has ${this.#settings.HTTP_CONNECTIONS_MAX} open connections`, {
      hint: "the limit is HTTP_CONNECTIONS_MAX; keep connections open and use them again",
      retryAfterMs: 1_000,
    });
  }

  /** A request has been read whole and its answer will be written. */
  answering(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection !== undefined) connection.answering += 1;
  }

  answered(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection !== undefined) connection.answering -= 1;
  }

  /** Whether bytes written to the socket now would be taken for the answer to an earlier request. */
  isAnswering(socket: Socket): boolean {
    return (this.#open.get(socket)?.answering ?? 0) > 0;
  }

  /** Closes those that have never sent a byte, as browsers open them in advance: the server would wait for them as if they had. */
  closeSilent(): void {
    for (const socket of this.#open.keys()) if (socket.bytesRead === 0) socket.destroy();
  }

  stop(): void {
    this.#look?.cancel();
  }

  #opened(socket: Socket): void {
    // A connection that offered to change its protocol is handed to the server a second time.
    if (this.#open.has(socket)) return;
    const isSurplus = this.#open.size >= this.#settings.HTTP_CONNECTIONS_MAX;
    this.#open.set(socket, { isSurplus, answering: 0, waiting: undefined });
    socket.once("close", () => this.#open.delete(socket));
  }

  #lookLater(): void {
    this.#look = this.#timers.after(this.#settings.HTTP_REQUEST_MS, () => {
      for (const [socket, connection] of this.#open) closeIfStuck(socket, connection);
      this.#lookLater();
    });
  }
}

function closeIfStuck(socket: Socket, connection: Connection): void {
  const queued = socket.writableLength;
  if (queued === 0) {
    connection.waiting = undefined;
    return;
  }
  const sent = socket.bytesWritten - queued;
  const { waiting } = connection;
  connection.waiting = { sent, queued };
  if (waiting?.sent === sent && waiting.queued === queued) socket.destroy();
}
