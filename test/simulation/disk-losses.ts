/**
 * Whether a node may lose its disk now without losing what was promised: a fleet lives through the loss of one journal of an
 * object's set, until a record names others, and through no second one.
 */
import { ownershipOf } from "../../src/shipping/manifest.js";
import type { SimulatedFleet, SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import { journalIdOnDisk } from "./journal-on-disk.js";
import { manifestsIn } from "./manifests.js";

/** Longer than a write to the bucket may be under way: no record that names a lost journal lands after that. */
const APART_MS = 9_000;

/** An answer on its way through the slowest link. */
const UNDER_WAY_MS = 1_500;

export class DiskLosses {
  readonly #fleet: SimulatedFleet;
  #last: { readonly node: string; readonly atMs: number } | undefined;

  constructor(fleet: SimulatedFleet) {
    this.#fleet = fleet;
  }

  mayLose(node: SimulatedNode): boolean {
    if (node.isDown || (this.#last !== undefined && this.#fleet.time.nowMs < this.#last.atMs + APART_MS)) return false;
    const ids = new Map([...this.#fleet.nodes].map(([name, { world }]) => [name, journalIdOnDisk(world)]));
    return manifestsIn(this.#fleet.contents).every((manifest) =>
      ownershipOf(manifest).set.every((member) => member.node === node.name || ids.get(member.node) === member.journal),
    );
  }

  lost({ name }: SimulatedNode): void {
    this.#last = { node: name, atMs: this.#fleet.time.nowMs };
  }

  /** So lately that its journal's last acknowledgements may just be heard. */
  hasJustLost(node: string): boolean {
    return this.#last?.node === node && this.#fleet.time.nowMs < this.#last.atMs + UNDER_WAY_MS;
  }
}
