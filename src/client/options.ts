/** What `connect` may be told, its defaults, and the check of it. */
import { callback, checkOptions, flag, type OptionRule, type OptionRules, oneOf, text } from "../check-options.js";

export interface ConnectOptions {
  /** Sent with the first frame. A function is asked again at each connect: for tokens that run out. */
  readonly token?: string | (() => string | Promise<string>);
  /** The app whose objects are spoken of. Default `default`. */
  readonly app?: string;
  /**
   * Whether the client may also go to nodes whose addresses it hears from the node that it is connected to: to another when that
   * one stops, and with calls to the owners of their objects. Not where clients reach the nodes by other addresses than their
   * own, behind a load balancer for instance. Default false.
   */
  readonly learnNodes?: boolean;
  /** With `learnNodes`: sockets to owners of objects, beside the connection. Default 8. */
  readonly nodeSocketsMax?: number;
  /** With `learnNodes`: objects of which it is remembered where they live. Default 10,000. */
  readonly placesMax?: number;
  /** How frames travel: readable in a browser's tools, or smaller. Default `json`. */
  readonly codec?: "json" | "msgpack";
  /** How long a call may take in all, with everything that is tried again. Default 30,000. */
  readonly timeoutMs?: number;
  /** How long a connection may take to come about, the node's welcome included. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** After this much silence the node is asked for a sign of life. Default 15,000. */
  readonly pingIntervalMs?: number;
  /** A node that gives none for this long is taken for gone. Default 10,000. */
  readonly pingTimeoutMs?: number;
  /** The pause before the first try to connect again; it doubles, with jitter. Default 100. */
  readonly reconnectDelayMs?: number;
  /** The longest pause. Default 10,000. */
  readonly reconnectDelayMaxMs?: number;
  /** Tries in a row that may fail before the client gives up and closes. Default: no end. */
  readonly reconnectAttemptsMax?: number;
  /**
   * Calls that are with a node at the same time; further ones wait here. Default 100: below the node's own
   * SOCKET_OBJECT_CALLS_MAX and SOCKET_CALLS_MAX, at which it would read nothing more, cancellations neither.
   */
  readonly callsInFlightMax?: number;
  /** Calls under way in all; one more is refused with `client_full`. Default 10,000. */
  readonly callsMax?: number;
  /** Events that one subscription holds for its reader before it asks the node to pause. Default 1,000. */
  readonly eventsBufferedMax?: number;
}

export type ClientOptions = Required<Omit<ConnectOptions, "token">> & Pick<ConnectOptions, "token">;

const NUMBERS = {
  timeoutMs: 30_000,
  connectTimeoutMs: 10_000,
  pingIntervalMs: 15_000,
  pingTimeoutMs: 10_000,
  reconnectDelayMs: 100,
  reconnectDelayMaxMs: 10_000,
  reconnectAttemptsMax: Number.POSITIVE_INFINITY,
  callsInFlightMax: 100,
  callsMax: 10_000,
  eventsBufferedMax: 1_000,
  nodeSocketsMax: 8,
  placesMax: 10_000,
} as const;

export const amount: OptionRule = {
  is: "a number of at least 1",
  accepts: (value) => typeof value === "number" && value >= 1,
};

const RULES: OptionRules<ConnectOptions> = {
  token: {
    is: "a string, or a function that gives one",
    accepts: (value) => text.accepts(value) || callback.accepts(value),
  },
  app: text,
  learnNodes: flag,
  codec: oneOf("json", "msgpack"),
  timeoutMs: amount,
  connectTimeoutMs: amount,
  pingIntervalMs: amount,
  pingTimeoutMs: amount,
  reconnectDelayMs: amount,
  reconnectDelayMaxMs: amount,
  reconnectAttemptsMax: amount,
  callsInFlightMax: amount,
  callsMax: amount,
  eventsBufferedMax: amount,
  nodeSocketsMax: amount,
  placesMax: amount,
};

/** @throws MoonportError `bad_option` */
export function clientOptions(given: ConnectOptions): ClientOptions {
  checkOptions("connect", given, RULES);
  const present = Object.entries(given).filter(([, value]) => value !== undefined);
  return { app: "default", codec: "json", learnNodes: false, ...NUMBERS, ...Object.fromEntries(present) };
}
