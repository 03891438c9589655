/** The doors of a node on one address: HTTP with everything that answers on it, and the WebSocket. `moonport start` and embedding open the same ones. */
import type { Authenticator } from "../auth/contract.js";
import type { MeasuredNode } from "../metrics/measured.js";
import type { NodeApi } from "../node-api.js";
import type { LiveApi } from "../realtime/contract.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import { HttpDoor } from "./http-door.js";
import { metricsHandler } from "./metrics-handler.js";
import { EventStreams } from "./sse.js";
import { WebSocketDoor } from "./websocket-door.js";

export interface DoorsOptions {
  readonly node: NodeApi & LiveApi & MeasuredNode;
  /** This life of the node. */
  readonly session: string;
  readonly settings: Settings;
  readonly world: World;
  /** A loopback address, unless there is auth. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Default: none, everybody may do everything. */
  readonly auth?: Authenticator;
  /** Origins whose pages may reach the node. Default: without auth those of this machine, with auth none. */
  readonly allowOrigins?: readonly string[];
}

export interface Doors {
  readonly url: string;
  /** The node is about to stop: WebSocket clients are told where else to go, everything is answered as before. */
  leaving(): void;
  /** Takes nothing new, waits for what runs (at most DRAIN_MS), closes every connection. Idempotent. */
  stop(): Promise<void>;
}

/**
 * @throws MoonportError `insecure_bind`, `address_in_use`, `bad_option` for an address that this machine does not have or for
 * what is no origin
 */
export async function openDoors(options: DoorsOptions): Promise<Doors> {
  const sockets = new WebSocketDoor({ ...options, live: options.node });
  const streams = new EventStreams({ ...options, live: options.node });
  try {
    const metrics = metricsHandler({
      node: options.node,
      doors: () => ({
        sockets: sockets.load.sockets,
        socketCalls: sockets.load.calls,
        httpConnections: door.connections,
      }),
    });
    const door: HttpDoor = new HttpDoor({ ...options, handlers: [streams, metrics], upgrades: [sockets] });
    const { url } = await door.start();
    return { url, leaving: () => void sockets.leaving(), stop: () => door.stop() };
  } catch (error) {
    streams.stop();
    await sockets.stop();
    throw error;
  }
}
