/** How the nodes of a fleet ask each other about releases: over links, and by what their records say that they serve. */
import type { NodeRecord } from "../membership/contract.js";
import type { NodeReleases } from "../release/node-releases.js";
import type { ReleasePeers } from "../release/peers.js";
import type { FleetMember } from "./fleet-member.js";

export const RELEASE = "release.ask";

/** From now on a node hears of what the others serve, and they of what it does. */
export function joinReleases(releasing: NodeReleases, fleet: FleetMember): void {
  const { node: self } = fleet;
  const others = (): readonly NodeRecord[] => fleet.members.filter(({ node }) => node !== self);
  const peers: ReleasePeers = {
    self,
    others: () => others().map(({ node, releases = [] }) => ({ node, releases })),
    ask: (node, question) => fleet.ask(fleet.peer(node), RELEASE, question) as Promise<never>,
  };
  releasing.joinPeers(peers, (served) => fleet.tellReleases(served));
  fleet.whenMembersChange(() => releasing.seen(others().flatMap(({ releases = [] }) => releases)));
}
