/** What claiming and shipping need to know of the other nodes. A node that is alone has a view of its own: nobody else lives. */
import type { Member, ReplicaSet } from "../cluster/ownership.js";
import type { ObjectIdentity } from "../identity.js";
import type { JournalPort } from "../journal/contract.js";
import type { SessionStanding } from "../membership/contract.js";

export interface FleetView {
  /** This node's session; another one after a lapse. */
  readonly session: string;
  /** Whether the session is valid at this very moment: nothing that only it vouches for may be told otherwise (E4). */
  isValid(): boolean;
  /** Whether this node gives its objects away, and somebody is there who can take them. */
  readonly isLeavingToOthers: boolean;
  /** @throws MoonportError `bucket_failed` */
  standing(session: string): Promise<SessionStanding>;
  /** Which node has that session, as far as is known here. */
  nodeOf(session: string): string | undefined;
  /** The journals for an object that this node owns, its own first; undefined where it is alone and has none. */
  replicasFor(object: ObjectIdentity): ReplicaSet | undefined;
  /** Whether a set names a node that is gone, or other numbers than there should be by now. */
  mustRenew(current: ReplicaSet): boolean;
  /** A journal, this node's own or a peer's. */
  journalOf(member: Member): JournalPort;
}

export function loneFleet(session: string): FleetView {
  return {
    session,
    isValid: () => true,
    isLeavingToOthers: false,
    standing: async (other) => (other === session ? "live" : "dead"),
    nodeOf: () => undefined,
    replicasFor: () => undefined,
    mustRenew: () => false,
    journalOf: ({ node }) => {
      throw new Error(`a node that is alone reaches no journal of ${node}`);
    },
  };
}
