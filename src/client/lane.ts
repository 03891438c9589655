/** One way to a node as the calls see it: what waits for it, in the order in which it is to leave, and what was sent over it. */
import type { MoonportError } from "../errors.js";
import type { ClientFrame } from "../wire/frames.js";

/** What was asked for and has no answer yet: the node does not say which frame it was that it closed the connection over. */
export interface Asked {
  readonly frame: ClientFrame;
  fail(error: MoonportError): void;
}

/** What calls and watches need of the connection. */
export interface Wire {
  readonly isUp: boolean;
  /** A number that no other frame of this client has carried. */
  nextId(): number;
  /** Only while it is up. */
  send(frame: ClientFrame): void;
}

export class Lane<Call> {
  readonly wire: Wire;
  readonly waiting = new Set<Call>();
  /** By the numbers of their frames. */
  readonly sent = new Map<number, Call>();

  constructor(wire: Wire) {
    this.wire = wire;
  }

  /** Everything on it, as it came; nothing is left. */
  empty(): { readonly sent: readonly Call[]; readonly waiting: readonly Call[] } {
    const all = { sent: [...this.sent.values()], waiting: [...this.waiting] };
    this.sent.clear();
    this.waiting.clear();
    return all;
  }
}
