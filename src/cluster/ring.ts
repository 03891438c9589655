/**
 * Which nodes a partition prefers: an order of all nodes by weighted rendezvous hashing. The first is its home, the owner
 * and the next ones keep its journals.
 *
 * It promises that every node which knows of the same members makes the same order, that a node which joins or leaves moves
 * only partitions to or from itself, and that zones take turns. It decides nothing about ownership: two nodes whose members
 * differ for a while send each other calls, and no more than that (docs/cluster.md).
 */
import { assert } from "../errors.js";

export interface RingNode {
  readonly node: string;
  readonly zone: string;
  /** Share of the partitions that it takes, beside those of the others; 0 takes none. */
  readonly weight: number;
}

/**
 * All nodes, the partition's home first. Zones take turns: the best node of each zone, then the second best of each, and so
 * on. Nodes of weight 0 come after all others, so one is a home, or keeps a journal, only where nobody else is left.
 */
export function homesOf(partition: number, nodes: readonly RingNode[]): readonly string[] {
  return ordered(byScore(partition, nodes)).map(({ node }) => node);
}

/**
 * Who keeps the journals of an object: its owner, and the next of the list that bring other zones first.
 * @param owner stands among `nodes`
 * @param copies N, fewer where there are fewer nodes
 */
export function replicaMembers(
  partition: number,
  nodes: readonly RingNode[],
  owner: string,
  copies: number,
): readonly string[] {
  assert(
    nodes.some(({ node }) => node === owner),
    "an owner is one of the nodes",
  );
  return ordered(byScore(partition, nodes), owner)
    .slice(0, Math.max(1, copies))
    .map(({ node }) => node);
}

/** The orders of one set of nodes, each made when it is first asked for. */
export class Ring {
  readonly #nodes: readonly RingNode[];
  readonly #homes: (readonly string[])[] = [];
  readonly #replicas: Map<string, readonly string[]>[] = [];

  constructor(nodes: readonly RingNode[]) {
    this.#nodes = nodes;
  }

  homesOf(partition: number): readonly string[] {
    let homes = this.#homes[partition];
    if (homes === undefined) {
      homes = homesOf(partition, this.#nodes);
      this.#homes[partition] = homes;
    }
    return homes;
  }

  replicaMembers(partition: number, owner: string, copies: number): readonly string[] {
    let ofPartition = this.#replicas[partition];
    if (ofPartition === undefined) {
      ofPartition = new Map();
      this.#replicas[partition] = ofPartition;
    }
    const asked = `${copies} ${owner}`;
    let members = ofPartition.get(asked);
    if (members === undefined) {
      members = replicaMembers(partition, this.#nodes, owner, copies);
      ofPartition.set(asked, members);
    }
    return members;
  }

  /** Whether another set of nodes would make the same orders. */
  isOf(nodes: readonly RingNode[]): boolean {
    return identityOf(nodes) === identityOf(this.#nodes);
  }
}

function identityOf(nodes: readonly RingNode[]): string {
  return JSON.stringify(nodes.map(({ node, zone, weight }) => [node, zone, weight]).sort());
}

interface Scored {
  readonly node: string;
  readonly zone: string;
  readonly weight: number;
  readonly score: number;
}

/** Best first. */
function byScore(partition: number, nodes: readonly RingNode[]): Scored[] {
  return nodes
    .map(({ node, zone, weight }) => ({ node, zone, weight, score: scoreOf(node, partition, weight) }))
    .sort((left, right) => right.score - left.score || (left.node < right.node ? -1 : 1));
}

/**
 * With h evenly spread in (0, 1), −ln h is exponentially spread, and so is −ln h / weight, at a rate of weight: the node
 * with the least of it wins with a probability of its share of all weights. A node's score depends on no other node, which
 * is why only what the node itself wins or loses ever moves.
 */
function scoreOf(node: string, partition: number, weight: number): number {
  return (weight === 0 ? 1 : weight) / -Math.log(fractionOf(`${node}/${partition}`));
}

/**
 * The owner first, then those that have a weight, then those that have none; among equals those first whose zone has fewer
 * nodes before them, the owner's zone included; then the order given.
 */
function ordered(scored: readonly Scored[], owner?: string): readonly Scored[] {
  const tierOf = ({ node, weight }: Scored): number => (node === owner ? 0 : weight > 0 ? 1 : 2);
  const inTiers = [...scored].sort((left, right) => tierOf(left) - tierOf(right));
  const inZone = new Map<string, number>();
  const placed = inTiers.map((one) => {
    const round = inZone.get(one.zone) ?? 0;
    inZone.set(one.zone, round + 1);
    return { one, tier: tierOf(one), round };
  });
  return placed.sort((left, right) => left.tier - right.tier || left.round - right.round).map(({ one }) => one);
}

/**
 * A number in (0, 1) that any text fixes: two 32-bit lanes of multiply and xor over the text, each finished as MurmurHash3
 * finishes, of which 52 bits are taken. Not for secrets. Changing it moves every partition of every fleet.
 */
function fractionOf(text: string): number {
  let first = 0x9e3779b9;
  let second = 0x85ebca6b;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    first = Math.imul(first ^ unit, 0x01000193);
    second = Math.imul(second ^ unit, 0x5bd1e995);
    second ^= second >>> 13;
  }
  first = finished(first ^ (second >>> 7));
  second = finished(second ^ first);
  return ((first >>> 6) * 2 ** 26 + (second >>> 6) + 0.5) / 2 ** 52;
}

function finished(lane: number): number {
  let mixed = lane;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
