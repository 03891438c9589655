/** What all links of a node share. */
import type { LinkCounters } from "../metrics/fleet-counters.js";
import type { Settings } from "../settings/settings.js";
import type { Deadlines } from "../world/deadlines.js";
import type { World } from "../world/world.js";
import type { Network, PeerName } from "./contract.js";
import { NONCE_BYTES, type Party, type ProtocolRange } from "./handshake.js";

export interface LinkContext {
  readonly world: Pick<World, "timers" | "random" | "log">;
  readonly settings: Settings;
  readonly deadlines: Deadlines;
  readonly network: Network;
  readonly self: () => PeerName;
  readonly secret: string;
  readonly fleet: string;
  readonly version: string;
  readonly protocols: ProtocolRange;
  readonly counters: LinkCounters;
  /** A link to another node stood and broke. */
  readonly lost: () => void;
}

/** Of one link: streams may last, and must leave room for requests. */
export function streamsAtMost({ LINK_REQUESTS_MAX }: Pick<Settings, "LINK_REQUESTS_MAX">): number {
  return Math.ceil(LINK_REQUESTS_MAX / 2);
}

/** This node in one handshake. */
export function partyOf({ world, settings, self, secret, fleet, version, protocols }: LinkContext): Party {
  return {
    self: self(),
    fleet,
    secret,
    version,
    protocols,
    messageBytesMax: settings.LINK_MESSAGE_BYTES_MAX,
    nonce: world.random.bytes(NONCE_BYTES),
  };
}
