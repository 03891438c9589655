/**
 * How many journals keep an object's tail, how many must hold a write before it lands, and how many must answer before
 * another node may take the object over. The three fit together: any set that let a write land and any set that answers
 * a takeover share a journal (docs/cluster.md).
 */
import { assert } from "../errors.js";

export interface Quorum {
  /** N: journals that are told, the owner's own among them. */
  readonly copies: number;
  /** W: how many of them must hold a write before it is released. 0: the bucket alone releases. */
  readonly acksToLand: number;
}

export interface QuorumSettings {
  readonly OBJECT_REPLICAS: number;
  readonly OBJECT_QUORUM: number;
}

/**
 * Adapts downward to the nodes there are. One copy lands nothing by itself: it would be on the disk that the bucket is
 * there to outlive.
 */
export function quorumFor(settings: QuorumSettings, activeNodes: number): Quorum {
  assert(Number.isSafeInteger(activeNodes) && activeNodes >= 1, "a fleet has at least one active node");
  const copies = Math.max(1, Math.min(settings.OBJECT_REPLICAS, activeNodes));
  return { copies, acksToLand: copies === 1 ? 0 : Math.min(settings.OBJECT_QUORUM, copies) };
}

/** N − W + 1: with fewer, the journals that hold a released write might be just those that did not answer (C2). */
export function answersNeeded({ copies, acksToLand }: Quorum): number {
  return acksToLand === 0 ? 0 : copies - acksToLand + 1;
}
