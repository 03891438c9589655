/**
 * Three nodes on this machine: the owner in this process, two in processes of their own, journals of all on one disk. A write
 * is released by two of three journals. The floors: a sync of the disk, and a round trip over a link.
 */
import { type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { FleetCommands } from "../load/fleet-child.js";
import { BenchFleetNode, ECHO } from "../support/bench-fleet-node.js";
import { removeFolder, scratchFolder, workObject } from "../support/bench-node.js";
import type { Amount, Case, Group } from "../support/case.js";
import { Child } from "../support/child.js";
import { roundOfCalls } from "../support/measure.js";

const OTHERS = ["b", "c"] as const;
const OBJECTS = 1_000;
const STRIDE = 617;
const WARM_UP_WRITES = 64;
const POLL_MS = 20;
const SYNC = "fdatasync of a 4 KB append";
const ROUND_TRIP = "link round trip";
const LOCAL_READ = "three nodes read hot 1 in flight";
const LOCAL_WRITE = "three nodes write hot 1 in flight";
const FORWARDED_READ = "three nodes forwarded read 1 in flight";

export class Fleet implements Group {
  readonly cases: readonly Case[];
  readonly #parent: string;
  #folder = "";
  #owner: BenchFleetNode | undefined;
  #others: Child<FleetCommands>[] = [];
  #made = 0;
  #many: ObjectIdentity[] = [];
  #entries = 0;
  #syncs = 0;

  constructor(parent: string) {
    this.#parent = parent;
    this.cases = [
      { name: ROUND_TRIP, isFloor: true, round: (bounds) => roundOfCalls(bounds, 1, () => this.#echo()) },
      {
        name: LOCAL_WRITE,
        against: [{ figure: "p50", floors: [SYNC, ROUND_TRIP, ROUND_TRIP] }],
        round: (bounds) => this.#hot(bounds, 1),
      },
      {
        name: "three nodes write hot 64 in flight",
        against: [{ figure: "rate", floors: ["write hot 64 in flight"] }],
        round: (bounds) => this.#hot(bounds, 64),
      },
      {
        name: "three nodes write 1000 64 in flight",
        against: [{ figure: "rate", floors: ["write 1000 64 in flight"] }],
        round: (bounds) => roundOfCalls(bounds, 64, (index) => this.#running().write(this.#manyAt(index), index)),
      },
      {
        name: LOCAL_READ,
        round: async (bounds) => {
          const object = await this.#own();
          return roundOfCalls(bounds, 1, () => this.#running().look(object));
        },
      },
      {
        name: FORWARDED_READ,
        against: [
          { figure: "p50", floors: [ROUND_TRIP] },
          { figure: "p50", floors: [LOCAL_READ] },
        ],
        round: async (bounds) => {
          const object = await this.#elsewhere();
          return roundOfCalls(bounds, 1, () => this.#running().look(object));
        },
      },
      {
        name: "three nodes forwarded write 1 in flight",
        against: [
          { figure: "p50", floors: [LOCAL_WRITE] },
          { figure: "p50", floors: [LOCAL_WRITE, ROUND_TRIP] },
        ],
        round: async (bounds) => {
          const object = await this.#elsewhere();
          return roundOfCalls(bounds, 1, (index) => this.#running().write(object, index));
        },
      },
      {
        name: "three nodes replica read 1 in flight",
        against: [{ figure: "p50", floors: [FORWARDED_READ] }],
        round: async (bounds) => {
          const object = await this.#elsewhere();
          const { replicaReads } = this.#running().node.counters;
          const byOwner = replicaReads.owner;
          const round = await roundOfCalls(bounds, 1, () => this.#running().look(object, "replica"));
          if (replicaReads.owner - byOwner > round.calls / 10) throw new Error("the owner answers in the copy's place");
          return round;
        },
      },
    ];
  }

  async open(selected: readonly Case[]): Promise<void> {
    this.#folder = scratchFolder(this.#parent);
    this.#owner = await BenchFleetNode.open({ folder: this.#folder, node: "a" });
    for (const node of OTHERS) {
      const child = new Child<FleetCommands>("load/fleet-child.js");
      this.#others.push(child);
      await child.ask("open", { folder: this.#folder, node });
    }
    // Sets have three journals as soon as all have seen each other.
    while (this.#owner.node.fleet.members.length <= OTHERS.length) await pause(POLL_MS);
    for (const child of this.#others) while ((await child.ask("members", null)) <= OTHERS.length) await pause(POLL_MS);
    if (!selected.some(({ name }) => name.includes("1000"))) return;
    this.#many = [];
    while (this.#many.length < OBJECTS) this.#many.push(await this.#own());
  }

  async close(): Promise<void> {
    for (const child of this.#others) await child.close();
    await this.#owner?.close();
    removeFolder(this.#folder);
  }

  /** What the owner's journal came to over all rounds. */
  amounts(): Amount[] {
    if (this.#syncs === 0) return [];
    return [
      {
        name: "three nodes journal batch",
        value: this.#entries / this.#syncs,
        unit: "entries/sync",
        note: `${this.#entries} entries, ${this.#syncs} syncs of the owner's journal, 64 in flight`,
      },
    ];
  }

  async #hot(bounds: Parameters<Case["round"]>[0], inFlight: number): ReturnType<Case["round"]> {
    const owner = this.#running();
    const object = await this.#own();
    for (let index = 0; index < WARM_UP_WRITES; index++) await owner.write(object, index);
    const before = owner.node.fleet.journalCounts;
    const round = await roundOfCalls(bounds, inFlight, (index) => owner.write(object, index));
    const after = owner.node.fleet.journalCounts;
    if (inFlight > 1) {
      this.#entries += after.entries - before.entries;
      this.#syncs += after.syncs - before.syncs;
    }
    return round;
  }

  /** A fresh object whose home is this process's node. */
  async #own(): Promise<ObjectIdentity> {
    for (;;) {
      const object = workObject(`fleet-${this.#made++}`);
      if (this.#homeOf(object) !== "a") continue;
      await this.#running().write(object, 0);
      return object;
    }
  }

  async #elsewhere(): Promise<ObjectIdentity> {
    for (;;) {
      const object = workObject(`fleet-${this.#made++}`);
      if (this.#homeOf(object) === "a") continue;
      await this.#running().write(object, 0);
      return object;
    }
  }

  #homeOf(object: ObjectIdentity): string {
    return this.#running().node.fleet.homeOf(partitionOf(object.id));
  }

  #manyAt(index: number): ObjectIdentity {
    return this.#many[(index * STRIDE) % OBJECTS] as ObjectIdentity;
  }

  async #echo(): Promise<void> {
    const { fleet } = this.#running().node;
    const to = fleet.member("b");
    if (to === undefined) throw new Error("the other nodes are not there");
    await fleet.links.request({ node: to.node, address: to.address }, ECHO, null);
  }

  #running(): BenchFleetNode {
    if (this.#owner === undefined) throw new Error("the node of this group is not open");
    return this.#owner;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
