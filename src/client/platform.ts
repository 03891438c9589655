/**
 * What the client needs of the place it runs in, Node or a browser: a clock, timers, randomness, and sockets.
 *
 * The first three are parts of a node's World, told again here: the types of a page's client lead to no file system.
 */
export interface ClientPlatform {
  readonly clock: { wallMs(): number; monotonicMs(): number };
  readonly random: { fraction(): number; bytes(count: number): Uint8Array };
  readonly timers: { after(delayMs: number, callback: () => void): PlatformTimer };
  /** Begins to connect; never throws. Nothing is told after `closed`, or after {@link Socket.drop}. */
  openSocket(url: string, protocol: string, events: SocketEvents): Socket;
}

export interface PlatformTimer {
  /** Idempotent; the callback never runs afterwards. */
  cancel(): void;
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
