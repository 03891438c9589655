/** What the client needs of the place it runs in, Node or a browser: a clock, a timer, randomness, and sockets. */
import type { Timers, World } from "../world/world.js";

export interface ClientPlatform extends Pick<World, "clock" | "random"> {
  readonly timers: Pick<Timers, "after">;
  /** Begins to connect; never throws. Nothing is told after `closed`, or after {@link Socket.drop}. */
  openSocket(url: string, protocol: string, events: SocketEvents): Socket;
}

export interface SocketEvents {
  /** @param protocol the one that the other side agreed to */
  opened(protocol: string): void;
  received(data: string | Uint8Array): void;
  /** @param why as far as the platform says; browsers tell next to nothing of a connection that never came about */
  closed(code: number, why: string): void;
}

export interface Socket {
  send(data: string | Uint8Array): void;
  /** Closes it, and says so to the other side where that is still possible. Idempotent. */
  drop(): void;
}
