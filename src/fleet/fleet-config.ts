/** How a process says which fleet it belongs to, and under what name. */
import type { LinkTls } from "../links/link-tls.js";

export interface FleetConfig {
  /** Name of the node, the same across restarts and no other node's. Default: the machine's name, made valid. */
  readonly node?: string;
  /** `HOST:PORT` to listen on for the other nodes; on a loopback address port 0 picks a free one. */
  readonly listen: string;
  /**
   * What the others dial, `ws://HOST:PORT`, or `wss://HOST:PORT` with certificates. Default: the address listened on, or this
   * machine's own where that is all of them.
   */
  readonly advertise?: string;
  /** Copies of an object go to different zones first. Default `default`. */
  readonly zone?: string;
  /** Share of the objects that it takes, beside those of the others; 0 takes none. Default 1. */
  readonly weight?: number;
  /** Shared by all nodes, at least 16 characters; only nodes that listen on loopback addresses may do without. */
  readonly secret?: string;
  /** Certificates, as PEM texts: links are encrypted then, on all nodes of the fleet. */
  readonly tls?: LinkTls;
}
