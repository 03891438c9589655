/** What goes wrong in a simulation, as its plan says, drawn from its seed, and how often each kind did. */
import type { Fault } from "../../src/bucket/memory-faults.js";
import { BUCKET_OPERATIONS } from "../../src/bucket/memory-faults.js";
import type { SimulatedFleet, SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import { sleep, type World } from "../../src/world/world.js";
import type { DiskLosses } from "./disk-losses.js";
import { FAULT_KINDS, type FaultKind, type Plan } from "./plan.js";

export interface NemesisParts {
  readonly fleet: SimulatedFleet;
  readonly diskLosses: DiskLosses;
  readonly world: World;
  readonly plan: Plan;
  /** When it strikes. */
  readonly random: SeededRandom;
  /** All else about one strike, by its number: so that one that is left out changes no other. */
  readonly randomOf: (strike: number) => SeededRandom;
  readonly tell: (what: string) => void;
}

const STEPS_MAX = 400;

export class Nemesis {
  readonly counts = new Map<FaultKind, number>();
  readonly #parts: NemesisParts;
  #strikes = 0;
  readonly #stopping = new Set<Promise<void>>();
  #isOver = false;
  /** Furthest that a wall clock was ever set ahead, and behind. */
  #wallMaxMs = 0;
  #wallMinMs = 0;

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  /** So far, those that were skipped included. */
  get strikes(): number {
    return this.#strikes;
  }

  /** How far ahead of the outside wall clocks were at most, which is how far they are in calm, and how far apart from each other. */
  get wallClocks(): { readonly aheadMs: number; readonly apartMs: number } {
    return { aheadMs: this.#wallMaxMs, apartMs: this.#wallMaxMs - this.#wallMinMs };
  }

  /** @param untilMs of virtual time */
  async run(untilMs: number): Promise<void> {
    const { fleet, random, world, plan } = this.#parts;
    while (fleet.time.nowMs < untilMs) {
      await sleep(world, 50 + random.below(plan.strikeMs));
      if (fleet.time.nowMs < untilMs) this.#strike();
    }
  }

  /** Everything is well again: what is down starts, what is stopped goes on, and all wall clocks agree, so that all is due that was set. */
  async heal(): Promise<void> {
    this.#isOver = true;
    const { fleet, plan } = this.#parts;
    fleet.network.heal();
    for (const node of fleet.nodes.values()) {
      node.bucket.faults.clear();
      node.resume(plan.resume);
      for (const other of fleet.nodes.keys()) if (other !== node.name) fleet.network.slow(node.name, other, undefined);
    }
    // Whom a leaping clock made believe that others are dead believes it until they have other sessions.
    if (this.counts.has("clock_leap")) for (const node of fleet.nodes.values()) node.crash();
    // One that still stops is up until it has.
    await Promise.all(this.#stopping);
    for (const { world } of fleet.nodes.values()) world.wallOffsetMs = this.#wallMaxMs;
    await Promise.all([...fleet.nodes.values()].map((node) => this.#bringUp(node)));
    for (const node of fleet.nodes.values()) if (node.node.fleet.isLeaving) this.#drain(node, true);
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
    const { plan, randomOf } = this.#parts;
    const strike = this.#strikes++;
    const random = randomOf(strike);
    const weightOf = (kind: FaultKind): number => plan.faults[kind] ?? 0;
    let draw = random.fraction() * FAULT_KINDS.reduce((sum, kind) => sum + weightOf(kind), 0);
    const isDrawn = (kind: FaultKind): boolean => {
      draw -= weightOf(kind);
      return draw < 0;
    };
    const kind = FAULT_KINDS.find(isDrawn);
    if (kind === undefined || plan.skipped.includes(strike)) return;
    const node = this.#someNode(random);
    if (kind === "disk_lost" && !this.#parts.diskLosses.mayLose(node)) return;
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    this.#inflict(kind, node, random);
  }

  #inflict(kind: FaultKind, node: SimulatedNode, random: SeededRandom): void {
    const { fleet, plan, tell } = this.#parts;
    const { network } = fleet;
    // A node that is alone has nobody to be cut off from.
    const other = fleet.nodes.size > 1 ? this.#someNode(random, node) : node;
    const faults = node.bucket.faults;
    tell(`${kind} ${node.name}`);
    switch (kind) {
      case "crash":
      case "power_cut":
        return this.#crash(node, random, { power: kind === "power_cut" });
      case "crash_between_steps":
        return fleet.time.afterSteps(random.below(STEPS_MAX), () =>
          this.#crash(node, random, { power: random.fraction() < 0.5 }),
        );
      case "disk_lost":
        this.#parts.diskLosses.lost(node);
        return this.#crash(node, random, { disk: true });
      case "pause":
        node.pause();
        return this.#later(random.below(3 * fleet.settings.NODE_TTL_MS), () => node.resume(plan.resume));
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
      case "bucket_lands_late": {
        const times = 1 + random.below(4);
        const fault: Fault = { kind: "late", landsAfterMs: random.below(6_000) };
        return faults.failNext(times, fault, ["write"]);
      }
      case "bucket_slow": {
        // First answers take their time, then perhaps nothing gets through any more.
        const answers = faults.hold(BUCKET_OPERATIONS, "after");
        const slowMs = random.below(1_500);
        const goneMs = random.fraction() < 0.5 ? random.below(3_000) : 0;
        return this.#later(slowMs, () => {
          answers.release();
          if (this.#isOver || goneMs === 0) return;
          const requests = faults.hold();
          this.#later(goneMs, () => requests.release());
        });
      }
      case "bucket_gone": {
        const hold = faults.hold();
        return this.#later(random.below(4_000), () => hold.release());
      }
      case "wall_clock_step":
        return this.#stepWall(node, (random.fraction() - 0.5) * 4 * 3_600_000);
      case "clock_leap":
        node.world.leapMs += random.below(3 * fleet.settings.NODE_TTL_MS);
        return;
      case "stop":
        if (!node.isUp) return;
        this.#stop(node);
        return this.#later(random.below(3_000), () => this.#start(node));
      case "drain":
        this.#drain(node);
        return this.#later(random.below(4_000), () => this.#drain(node, true));
    }
  }

  #stepWall({ world }: SimulatedNode, byMs: number): void {
    world.wallOffsetMs += byMs;
    this.#wallMaxMs = Math.max(this.#wallMaxMs, world.wallOffsetMs);
    this.#wallMinMs = Math.min(this.#wallMinMs, world.wallOffsetMs);
  }

  /** An operator has it give its objects away, or take some again. */
  #drain(node: SimulatedNode, undo = false): void {
    if (!node.isUp) return;
    const ended = (what: string) => (): void => this.#parts.tell(`${node.name} ${what}`);
    const asking = node.ask((api) => api.drain({ undo }));
    void asking.then(ended(undo ? "takes objects" : "is drained"), ended("is not drained"));
  }

  #stop(node: SimulatedNode): void {
    const stopping: Promise<void> = node.stop().then(
      () => {},
      () => {},
    );
    this.#stopping.add(stopping);
    void stopping.then(() => this.#stopping.delete(stopping));
  }

  #crash(node: SimulatedNode, random: SeededRandom, how: { readonly power?: boolean; readonly disk?: boolean }): void {
    if (this.#isOver) return;
    node.crash(how);
    this.#later(random.below(random.fraction() < 0.3 ? 8_000 : 1_500), () => this.#start(node));
  }

  #start(node: SimulatedNode): void {
    // In calm all are up, and who is down then has been stopped for good.
    if (node.isDown && !this.#isOver) void this.#bringUp(node);
  }

  #later(delayMs: number, run: () => void): void {
    this.#parts.fleet.time.after(delayMs, run);
  }

  #someNode(random: SeededRandom, but?: SimulatedNode): SimulatedNode {
    const nodes = [...this.#parts.fleet.nodes.values()].filter((node) => node !== but);
    return nodes[random.below(nodes.length)] as SimulatedNode;
  }
}
