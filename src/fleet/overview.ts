/** The fleet as operators see it from one of its nodes: who is there, where objects belong, how the node itself stands. */
import { type ObjectIdentity, PARTITION_COUNT, partitionOf } from "../identity.js";
import type { FleetStatus, NodeInfo, RingInfo } from "../node-api.js";
import type { FleetMember } from "./fleet-member.js";

export function nodesOf(fleet: FleetMember): readonly NodeInfo[] {
  return fleet.seen().map(({ record, standing }) => {
    const { ttlMs: _, ...shown } = record;
    return { ...shown, standing, own: record.session === fleet.session };
  });
}

export function ringOf({ ring }: FleetMember): RingInfo {
  return { partitions: Array.from({ length: PARTITION_COUNT }, (_, at) => homesIn(ring, at)) };
}

/** @param session that the object's record names */
export function placeInRing(fleet: FleetMember, object: ObjectIdentity, session: string | undefined): RingInfo {
  const owner = session === undefined ? undefined : fleet.nodeOf(session);
  const partitions = [homesIn(fleet.ring, partitionOf(object.id))];
  return { partitions, object: object.id, ...(owner !== undefined && { owner }) };
}

export function fleetStatusOf(fleet: FleetMember): FleetStatus {
  const { node, session, address } = fleet.self;
  const { isLeavingToOthers: isLeaving } = fleet;
  const whyInvalid = fleet.whyInvalid();
  const standing = { valid: whyInvalid === undefined, ...(whyInvalid !== undefined && { whyInvalid }) };
  const journalBroken = fleet.whyJournalBroken();
  const journal = journalBroken !== undefined && { journalBroken };
  return { node, session, address, nodes: fleet.members.length, isLeaving, ...standing, ...journal };
}

function homesIn(ring: FleetMember["ring"], partition: number): RingInfo["partitions"][number] {
  return { partition, homes: ring.homesOf(partition) };
}
