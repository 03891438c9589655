/**
 * Where a call goes: to the node that owns the object as far as is known here, else to the one that the ring prefers. Never
 * more than two hops: a guess of the caller's node, and a correction by the node that was guessed.
 */
import type { ObjectIdentity } from "../identity.js";
import { partitionOf } from "../identity.js";
import { RecentMap } from "../recent-map.js";

/** Nodes that a call may be sent on to, one after the other. */
export const HOPS_MAX = 2;

/** Owners learned from answers, the longest unused forgotten first. */
const LEARNED_MAX = 100_000;

export interface PlaceParts {
  readonly self: string;
  readonly isMember: (node: string) => boolean;
  readonly homeOf: (partition: number) => string;
}

export class Places {
  readonly #parts: PlaceParts;
  readonly #learned = new RecentMap<string, string>(LEARNED_MAX);

  constructor(parts: PlaceParts) {
    this.#parts = parts;
  }

  /** The node to ask; this one itself where it is to claim the object. */
  of(object: ObjectIdentity): string {
    const learned = this.#learned.get(object.id);
    if (learned !== undefined && this.#parts.isMember(learned)) return learned;
    return this.homeOf(object);
  }

  homeOf(object: ObjectIdentity): string {
    return this.#parts.homeOf(partitionOf(object.id));
  }

  learn(object: ObjectIdentity, node: string): void {
    if (node === this.#parts.self) this.forget(object);
    else this.#learned.set(object.id, node);
  }

  forget(object: ObjectIdentity): void {
    this.#learned.delete(object.id);
  }

  /** Whoever asks for it does not have it: sent back there, it would be claimed by the node that has just given it away. */
  isNotAt(object: ObjectIdentity, node: string): void {
    if (this.#learned.peek(object.id) === node) this.forget(object);
  }
}
