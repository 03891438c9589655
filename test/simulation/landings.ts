/**
 * What nodes say has landed, and told of it: each time it is looked up whether it had, in the bucket and on the disks, as
 * they are at that very moment.
 */
import { objectOfId } from "../../src/identity.js";
import type { Observation, Observer } from "../../src/observation.js";
import { ownershipOf } from "../../src/shipping/manifest.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { DiskLosses } from "./disk-losses.js";
import { journalIdOnDisk, tailOnDisk } from "./journal-on-disk.js";
import { manifestIn } from "./manifests.js";

type Landed = Extract<Observation, { kind: "landed" }>;

export interface ToldEvent {
  readonly life: string;
  readonly object: string;
  readonly number: number;
  readonly data: unknown;
}

export class Landings {
  /** In the order in which they were told. */
  readonly events: ToldEvent[] = [];
  readonly faults: { readonly check: "owners" | "landed"; readonly what: string }[] = [];
  readonly #fleet: () => SimulatedFleet;
  readonly #diskLosses: () => DiskLosses;
  readonly #lives = new Map<string, number>();
  readonly #owners = new Map<string, string>();

  constructor(fleet: () => SimulatedFleet, diskLosses: () => DiskLosses) {
    this.#fleet = fleet;
    this.#diskLosses = diskLosses;
  }

  /** Of one life of a node. */
  observer(node: string): Observer {
    const count = (this.#lives.get(node) ?? 0) + 1;
    this.#lives.set(node, count);
    const life = `${node}, life ${count}`;
    return (observation) => {
      if (observation.kind === "landed") this.#landed(life, observation);
      else if (observation.kind === "event") {
        const { object, number, data } = observation;
        this.events.push({ life, object, number, data });
      }
    };
  }

  #landed(life: string, landed: Landed): void {
    const { object, epoch } = landed;
    const key = `${object} ${epoch}`;
    const owner = this.#owners.get(key) ?? life;
    this.#owners.set(key, owner);
    if (owner !== life) {
      this.faults.push({
        check: "owners",
        what: `${object}: both ${owner} and ${life} landed writes in epoch ${epoch}`,
      });
    }
    const lack = this.#lack(landed);
    if (lack === undefined) return;
    const atMs = this.#fleet().time.nowMs;
    const what = `${object}: at ${atMs} ms ${life} released seq ${landed.seq} of epoch ${epoch}, ${lack}`;
    this.faults.push({ check: "landed", what });
  }

  /** O2, as whoever comes next will find it: what is missing. */
  #lack({ object, epoch, seq }: Landed): string | undefined {
    const { contents, nodes } = this.#fleet();
    const standing = manifestIn(contents, objectOfId(object));
    if (standing === undefined) return "and the object has no record";
    const { covered, set, quorum, tailEpoch } = ownershipOf(standing.manifest);
    if (covered >= seq) return undefined;
    if (tailEpoch !== epoch) return `and by then epoch ${tailEpoch} counted, from ${covered}`;
    const holding = set.filter((member) => {
      if (this.#diskLosses().hasJustLost(member.node)) return true;
      const world = nodes.get(member.node)?.world;
      if (world === undefined || journalIdOnDisk(world) !== member.journal) return false;
      const tail = tailOnDisk(world, member.journal, object);
      return tail?.tailEpoch === epoch && tail.have >= seq;
    });
    if (quorum.acksToLand > 0 && holding.length >= quorum.acksToLand) return undefined;
    const names = holding.map(({ node }) => node).join(" and ") || "no journal";
    return `and the bucket covered ${covered}, while ${names} of the ${quorum.acksToLand} that it takes held it`;
  }
}
