/** What goes wrong in a simulation, drawn from its seed, and how often each kind did. */
import type { Fault } from "../../src/bucket/memory-faults.js";
import type { SimulatedFleet, SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import { sleep, type World } from "../../src/world/world.js";

export type FaultKind =
  | "crash"
  | "power_cut"
  | "crash_between_steps"
  | "pause"
  | "cut"
  | "cut_one_way"
  | "partition"
  | "reset"
  | "slow_link"
  | "bucket_refuses"
  | "bucket_loses_requests"
  | "bucket_loses_answers"
  | "bucket_lands_late"
  | "bucket_gone"
  | "wall_clock_step"
  | "stop";

export const FAULT_WEIGHTS: Readonly<Record<FaultKind, number>> = {
  crash: 3,
  power_cut: 3,
  crash_between_steps: 6,
  pause: 3,
  cut: 2,
  cut_one_way: 3,
  partition: 1,
  reset: 2,
  slow_link: 2,
  bucket_refuses: 2,
  bucket_loses_requests: 2,
  bucket_loses_answers: 3,
  bucket_lands_late: 3,
  bucket_gone: 1,
  wall_clock_step: 1,
  stop: 1,
};

export interface NemesisParts {
  readonly fleet: SimulatedFleet;
  readonly world: World;
  readonly random: SeededRandom;
  readonly tell: (what: string) => void;
  /** Kinds that are left out. */
  readonly without?: readonly FaultKind[];
}

const STEPS_MAX = 400;

export class Nemesis {
  readonly counts = new Map<FaultKind, number>();
  readonly #parts: NemesisParts;
  #isOver = false;

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  /** @param untilMs of virtual time */
  async run(untilMs: number): Promise<void> {
    const { fleet, random, world } = this.#parts;
    while (fleet.time.nowMs < untilMs) {
      await sleep(world, 50 + random.below(1_500));
      if (fleet.time.nowMs < untilMs) this.#strike();
    }
  }

  /** Everything is well again: what is down starts, what is stopped goes on. */
  async heal(): Promise<void> {
    this.#isOver = true;
    const { fleet } = this.#parts;
    fleet.network.heal();
    for (const node of fleet.nodes.values()) {
      node.bucket.faults.clear();
      node.resume();
      for (const other of fleet.nodes.keys()) if (other !== node.name) fleet.network.slow(node.name, other, undefined);
    }
    await Promise.all([...fleet.nodes.values()].map((node) => this.#bringUp(node)));
  }

  async #bringUp(node: SimulatedNode): Promise<void> {
    const { world, tell } = this.#parts;
    for (let tries = 0; tries < 50 && !node.isUp; tries++) {
      if (node.isDown) {
        await node.start().catch((error: Error) => tell(`${node.name} does not start: ${error.message}`));
      }
      if (!node.isUp) await sleep(world, 200);
    }
  }

  #strike(): void {
    const { without = [] } = this.#parts;
    const kinds = (Object.keys(FAULT_WEIGHTS) as FaultKind[]).filter((kind) => !without.includes(kind));
    let draw = this.#parts.random.fraction() * kinds.reduce((sum, kind) => sum + FAULT_WEIGHTS[kind], 0);
    const isDrawn = (kind: FaultKind): boolean => {
      draw -= FAULT_WEIGHTS[kind];
      return draw < 0;
    };
    const kind = kinds.find(isDrawn) ?? "crash";
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    this.#inflict(kind);
  }

  #inflict(kind: FaultKind): void {
    const { fleet, random, tell } = this.#parts;
    const { network } = fleet;
    const node = this.#someNode();
    // A node that is alone has nobody to be cut off from.
    const other = fleet.nodes.size > 1 ? this.#someNode(node) : node;
    const faults = node.bucket.faults;
    tell(`${kind} ${node.name}`);
    switch (kind) {
      case "crash":
      case "power_cut":
        return this.#crash(node, kind === "power_cut");
      case "crash_between_steps":
        return fleet.time.afterSteps(random.below(STEPS_MAX), () => this.#crash(node, random.fraction() < 0.5));
      case "pause":
        node.pause();
        return this.#later(random.below(3 * fleet.settings.NODE_TTL_MS), () => node.resume());
      case "cut":
      case "cut_one_way":
        network.cut(node.name, other.name, kind === "cut_one_way");
        return this.#later(random.below(4_000), () => network.heal(node.name, other.name));
      case "partition": {
        const rest = [...fleet.nodes.keys()].filter((name) => name !== node.name);
        network.partition([node.name], rest);
        return this.#later(random.below(4_000), () => network.heal());
      }
      case "reset":
        return network.reset(node.name, other.name);
      case "slow_link":
        network.slow(node.name, other.name, { min: 20, max: 600 });
        return this.#later(random.below(4_000), () => network.slow(node.name, other.name, undefined));
      case "bucket_refuses":
        return faults.failNext(1 + random.below(10), { kind: "refused" });
      case "bucket_loses_requests":
        return faults.failNext(1 + random.below(5), { kind: "lost_request" });
      case "bucket_loses_answers":
        return faults.failNext(1 + random.below(5), { kind: "lost_answer" });
      case "bucket_lands_late":
        return faults.failNext(1 + random.below(4), this.#late(), ["write"]);
      case "bucket_gone": {
        const hold = faults.hold();
        return this.#later(random.below(4_000), () => hold.release());
      }
      case "wall_clock_step":
        node.world.wallOffsetMs += (random.fraction() - 0.5) * 4 * 3_600_000;
        return;
      case "stop":
        if (!node.isUp) return;
        void node.stop().catch(() => {});
        return this.#later(random.below(3_000), () => this.#start(node));
    }
  }

  #late(): Fault {
    return { kind: "late", landsAfterMs: this.#parts.random.below(6_000) };
  }

  #crash(node: SimulatedNode, power: boolean): void {
    if (this.#isOver) return;
    node.crash({ power });
    const { random } = this.#parts;
    this.#later(random.below(random.fraction() < 0.3 ? 8_000 : 1_500), () => this.#start(node));
  }

  #start(node: SimulatedNode): void {
    if (node.isDown) void this.#bringUp(node);
  }

  #later(delayMs: number, run: () => void): void {
    this.#parts.fleet.time.after(delayMs, run);
  }

  #someNode(but?: SimulatedNode): SimulatedNode {
    const nodes = [...this.#parts.fleet.nodes.values()].filter((node) => node !== but);
    return nodes[this.#parts.random.below(nodes.length)] as SimulatedNode;
  }
}
