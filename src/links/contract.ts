/**
 * Messages between nodes. A `Network` makes channels, real ones over WebSocket or simulated ones; `Links` makes of them one
 * authenticated link a pair of nodes, with requests, answers and heartbeats. Everything above speaks to `Peers` only.
 */

/** Whole messages to one other process, in order, each once or not at all: a lost one takes all later ones with it. */
export interface Channel {
  /** Queues it; never throws. A channel that is closed drops it. The bytes may not be changed afterwards. */
  send(message: Uint8Array): void;
  /** Queued here and not yet handed to the network. */
  readonly bufferedBytes: number;
  /**
   * The other side has proved who it is. Until then a channel that brings more than {@link STRANGER_BYTES_MAX} in all is
   * closed by the network.
   */
  trust(): void;
  /** What was sent before still leaves, if the other side takes it. Idempotent. */
  close(reason: string): void;
}

/** What somebody who has not yet proved anything may send. */
export const STRANGER_BYTES_MAX = 8_192;

/** Told by a channel; `closed` is called at most once, and nothing is called after it, nor after one's own `close`. */
export interface ChannelEvents {
  /** The bytes are the receiver's to keep. */
  message(message: Uint8Array): void;
  closed(reason: string): void;
}

export interface Listening {
  /** Where others reach it: `ws://host:port` for the real network. */
  readonly address: string;
  /** Nobody is accepted any more. Channels stay: whoever took them closes them. */
  close(): Promise<void>;
}

export interface Network {
  /**
   * `events` may be told of a message before the promise is continued, but only if the other side speaks first.
   * @throws MoonportError `node_unreachable`
   */
  connect(address: string, events: ChannelEvents, timeoutMs: number): Promise<Channel>;
  /**
   * @param accept is given each channel that somebody opened, and returns who is told of it
   * @throws MoonportError `address_in_use`, `bad_option` for an address that this machine does not have
   */
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

/** Whoever waits for an answer. */
export interface Asker {
  isGone(): boolean;
  /** `tell` is called when it goes, or at once if it has gone. Of several given to one asker the last counts. */
  whenGone(tell: () => void): void;
}

/**
 * Answers a request of a peer, at once or by a promise. `asker` has gone when the peer says so, and when its link ends. A MoonportError that it throws reaches the asker with its code, hint
 * and details; of anything else that it throws the asker hears `internal`, and the log the rest.
 */
export type RequestHandler = (body: unknown, from: PeerName, asker: Asker) => unknown;

/** Serves a stream to a peer. It is left (`return`) when the peer does not read on; what it throws crosses as from a request. */
export type StreamHandler = (body: unknown, from: PeerName) => AsyncIterable<unknown>;

export interface RequestOptions {
  /** Default LINK_REQUEST_MS. */
  readonly timeoutMs?: number;
  /** The other side is told when it goes, if it speaks protocol 2. It answers all the same. */
  readonly asker?: Asker;
}

/**
 * Bodies, answers and items are what msgpack carries: plain values, `undefined`, bytes (which arrive as Uint8Array on memory of
 * their own), dates. Functions are dropped, maps and sets arrive as objects and arrays, and a field `__proto__` is renamed:
 * values of users cross as bytes that their codec made.
 */
export interface Peers {
  /**
   * Asks a node and waits for its answer. Requests to one address arrive in the order in which they were made, unless the link
   * breaks between them.
   * @throws MoonportError `node_unreachable` (it was not sent), `link_refused` (nor then: the other side is not of this fleet,
   * or of a release too far away), `link_broken` (it may have been heeded, the answer is lost or late), `link_full`,
   * `too_large`, `bad_value`, `node_stopping`, or what the handler threw
   */
  request(to: PeerAddress, kind: string, body: unknown, options?: RequestOptions): Promise<unknown>;
  /** Before the links start. @param kind names what is asked; one handler each */
  handle(kind: string, handler: RequestHandler): void;
  /**
   * Items that a node makes as they are read, at most LINK_STREAM_WINDOW of them ahead. It is asked for at the first read, and
   * leaving the loop ends it over there. Nothing bounds how long the next item takes: a link that breaks ends it.
   * Reading throws what {@link request} throws.
   */
  openStream(to: PeerAddress, kind: string, body: unknown): AsyncIterable<unknown>;
  /** Before the links start; kinds of streams are apart from those of requests. */
  handleStream(kind: string, handler: StreamHandler): void;
}
