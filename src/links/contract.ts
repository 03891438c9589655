/**
 * Messages between nodes. A `Network` makes channels, real ones over WebSocket or simulated ones; `Links` makes of them one
 * authenticated link a pair of nodes, with requests, answers and heartbeats. Everything above speaks to `Peers` only.
 */

/** Whole messages to one other process, in order, each once or not at all. */
export interface Channel {
  /** Queues it; never throws. A channel that is closed drops it. */
  send(message: Uint8Array): void;
  /** Queued here and not yet handed to the network. */
  readonly bufferedBytes: number;
  /** Idempotent. */
  close(reason: string): void;
}

/** Told by a channel; none is called after `closed`, and `closed` is called once. */
export interface ChannelEvents {
  message(message: Uint8Array): void;
  closed(reason: string): void;
}

export interface Listening {
  /** Where others reach it: `ws://host:port` for the real network. */
  readonly address: string;
  close(): Promise<void>;
}

export interface Network {
  /** @throws MoonportError `node_unreachable` */
  connect(address: string, events: ChannelEvents, timeoutMs: number): Promise<Channel>;
  /** @param accept is given each channel that somebody opened, and returns who is told of it */
  listen(accept: (channel: Channel) => ChannelEvents): Promise<Listening>;
}

/** A node as one link knows it. */
export interface PeerName {
  readonly node: string;
  readonly session: string;
}

export interface PeerAddress {
  readonly node: string;
  readonly address: string;
}

/** Answers a request of a peer. A MoonportError that it throws reaches the asker with its code, hint and details. */
export type RequestHandler = (body: unknown, from: PeerName) => unknown;

export interface RequestOptions {
  /** Default LINK_REQUEST_MS. */
  readonly timeoutMs?: number;
}

export interface Peers {
  /**
   * Asks a node and waits for its answer. Requests to one node arrive in the order in which they were made, unless the link
   * breaks between them. A body is whatever msgpack carries; bytes arrive as Uint8Array.
   * @throws MoonportError `node_unreachable` (it was not sent), `link_broken` (it may have been heeded, the answer is lost),
   * `link_full`, or what the handler threw
   */
  request(to: PeerAddress, kind: string, body: unknown, options?: RequestOptions): Promise<unknown>;
  /** Before the links start. @param kind names what is asked; one handler each */
  handle(kind: string, handler: RequestHandler): void;
}
