/** A WebSocket of Node that writes the frames of one turn together: a system call for each would cost more than a call does. */
import type { Socket } from "node:net";
import { WebSocket } from "ws";

/** `closeTimeout`, milliseconds: a dead peer never answers the closing handshake. */
const OPTIONS = { closeTimeout: 2_000, perMessageDeflate: false };

/** The node gets to work on the first ones while the others are made. */
const GATHERED_MAX = 16;

export class TurnSocket extends WebSocket {
  /** Once it is connected. */
  #raw: Socket | undefined;
  #gathered = 0;

  constructor(url: string, protocol: string) {
    super(url, protocol, OPTIONS);
    this.once("upgrade", ({ socket }) => {
      this.#raw = socket;
    });
  }

  override send(data: Parameters<WebSocket["send"]>[0], ...more: unknown[]): void {
    const raw = this.#raw;
    if (raw === undefined) return super.send(data, ...(more as []));
    if (this.#gathered === 0) {
      raw.cork();
      // After all that is resolved now: whoever is answered calls again.
      process.nextTick(() => this.#leave(raw));
    }
    this.#gathered++;
    super.send(data, ...(more as []));
    if (this.#gathered === GATHERED_MAX) this.#leave(raw);
  }

  #leave(raw: Socket): void {
    this.#gathered = 0;
    raw.uncork();
  }
}
