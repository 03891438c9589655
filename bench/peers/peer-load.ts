/** What the process that calls another product is told. */

/** How the calls get there. */
export type Way =
  /** The same requests as a node gets. */
  | "workerd http"
  /** A WebSocket to each object. */
  | "workerd sockets"
  /** One WebSocket to a worker, which asks the objects. */
  | "workerd worker"
  /** One connection. */
  | "redis"
  /** One connection, and WAIT 1 behind the calls of each write to it. */
  | "redis wait"
  /** A connection for each call in flight, and WAIT 1 behind its call. */
  | "redis wait each";

export interface PeerLoadSpec {
  readonly way: Way;
  readonly url: string;
  readonly method: "write" | "look";
  /** The calls go round these. */
  readonly keys: readonly string[];
  readonly inFlight: number;
}
