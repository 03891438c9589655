/**
 * One simulation: a fleet, clients at work, everything going wrong for a while, then calm, then the question whether all
 * promises were kept. The same seed gives the same run, to the last message.
 */
import { createHash } from "node:crypto";
import os from "node:os";
import path from "node:path";
import type { AppSource } from "../../src/app-source.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { Logger } from "../../src/world/logger.js";
import { sleep } from "../../src/world/world.js";
import { checkList } from "./check-list.js";
import { checkCounter, checkRegister } from "./check-register.js";
import { SimulatedClient } from "./client.js";
import { History, type Operation } from "./history.js";
import { type FaultKind, Nemesis } from "./nemesis.js";
import { Watchers } from "./watchers.js";

export const WORKLOADS = ["list", "register", "counter", "mixed"] as const;
export type Workload = (typeof WORKLOADS)[number];

export interface SimulationOptions {
  readonly seed: number;
  /** Default drawn from the seed: 1 to 5. */
  readonly nodes?: number;
  readonly workload?: Workload;
  readonly objects?: number;
  /** Of virtual time, in which things go wrong. Default 12,000. */
  readonly stormMs?: number;
  /** Who watch lists meanwhile. Default 9 in two thirds of the seeds. */
  readonly watchers?: number;
  readonly without?: readonly FaultKind[];
  /** Told each line of what happens. */
  readonly trace?: (line: string) => void;
}

export interface SimulationResult {
  readonly seed: number;
  readonly nodes: number;
  readonly workload: Workload;
  /** Of all that was told to the trace. */
  readonly hash: string;
  readonly violations: readonly string[];
  readonly faults: ReadonlyMap<FaultKind, number>;
  readonly acknowledged: number;
  readonly unknown: number;
  readonly failed: number;
  readonly virtualMs: number;
}

const CLIENTS = 5;
const CALM_MS = 20_000;
const SETTINGS = {
  NODE_TTL_MS: 1_000,
  NODE_TTL_MARGIN_MS: 100,
  COVER_MS: 300,
  CLAIM_MS: 2_000,
  LINK_CONNECT_MS: 400,
  LINK_REQUEST_MS: 1_000,
  LINK_HEARTBEAT_MS: 100,
  LINK_BACKOFF_MAX_MS: 300,
  OBJECT_ACK_GATE_MS: 2_000,
  OBJECT_IDLE_MS: 2_000,
  CALL_TIMEOUT_MS: 4_000,
  DRAIN_MS: 2_000,
  HEALTH_INTERVAL_MS: 0,
  JOURNAL_FILE_BYTES: 65_536,
  // So that no watcher has to hear of a gap, whatever the wall clock does.
  EVENT_RETENTION_MS: 86_400_000,
  EVENT_PAGE_MAX: 8,
  EVENT_BUFFER_MAX: 4,
};

/** Beside the sources, whether they run as they are or compiled. */
const APP = path.join(import.meta.dirname.replace(/([/\\])dist([/\\]test)/, "$2"), "app");
let app: AppSource | undefined;

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return new Simulation(options).run();
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #random: SeededRandom;
  readonly #nodes: number;
  readonly #workload: Workload;
  readonly #fleet: SimulatedFleet;
  readonly #world: VirtualWorld;
  readonly #history = new History();
  readonly #hash = createHash("sha256");
  readonly #objects: readonly string[];
  #nextValue = 1;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = new SeededRandom(options.seed * 7_919 + 17);
    this.#nodes = options.nodes ?? 1 + this.#random.below(5);
    this.#workload = options.workload ?? (WORKLOADS[this.#random.below(WORKLOADS.length)] as Workload);
    const count = options.objects ?? (this.#random.fraction() < 0.5 ? 1 + this.#random.below(3) : 12);
    this.#objects = Array.from({ length: count }, (_, index) => `${this.#className(index)}/k${index}`);
    app ??= appIn(APP);
    this.#fleet = new SimulatedFleet({
      seed: options.seed,
      apps: [app],
      settings: {
        ...SETTINGS,
        COMPACT_SEGMENTS_MAX: this.#random.fraction() < 0.5 ? 4 : 64,
        SEGMENT_INLINE_BYTES_MAX: this.#random.fraction() < 0.5 ? 0 : 8_192,
      },
      atomicBucket: this.#random.fraction() < 0.3,
      log: (node) => this.#logger(node),
    });
    const root = path.join(os.tmpdir(), "moonport-no-folder");
    this.#world = new VirtualWorld({ time: this.#fleet.time, root, seed: options.seed + 1_000_003 });
  }

  async run(): Promise<SimulationResult> {
    const { time } = this.#fleet;
    try {
      const violations = await time.until(this.#play(), 10 * 60_000).catch((error: Error) => {
        if (this.#options.trace !== undefined) this.#tell(`${error.stack}`);
        return [`the simulation did not end: ${error.message}`];
      });
      return this.#result(violations);
    } finally {
      this.#fleet.close();
    }
  }

  async #play(): Promise<readonly string[]> {
    const { time } = this.#fleet;
    const { stormMs = 12_000 } = this.#options;
    for (let index = 0; index < this.#nodes; index++) {
      this.#fleet.add(`n${index}`, { zone: `z${index % 2}`, clockRate: 1 + (this.#random.fraction() - 0.5) * 0.02 });
    }
    await Promise.all([...this.#fleet.nodes.values()].map((node) => node.start()));
    const nemesis = new Nemesis({
      fleet: this.#fleet,
      world: this.#world,
      random: new SeededRandom(this.#options.seed + 31),
      tell: (what) => this.#tell(what),
      ...(this.#options.without && { without: this.#options.without }),
    });
    this.#faults = nemesis.counts;
    const untilMs = time.nowMs + stormMs;
    const clients = Array.from({ length: CLIENTS }, (_, client) => this.#client(client, untilMs));
    const watchers = this.#newWatchers();
    await nemesis.run(untilMs);
    watchers?.stay();
    this.#tell("calm");
    await nemesis.heal();
    await Promise.all(clients);
    await sleep(this.#world, CALM_MS / 4);
    const stuck = await this.#lastReadings();
    const missed = await watchers?.end(this.#lists());
    return [...stuck, ...this.#check(), ...(missed ?? [])];
  }

  #newWatchers(): Watchers | undefined {
    const { seed, watchers: count = seed % 3 === 0 ? 0 : 9 } = this.#options;
    const objects = this.#objects.filter((object) => object.startsWith("List/"));
    if (count === 0 || objects.length === 0) return undefined;
    return new Watchers({
      fleet: this.#fleet,
      world: this.#world,
      random: new SeededRandom(seed * 211 + 3),
      objects,
      count,
      tell: (what) => this.#tell(what),
    });
  }

  /** As they were last read. */
  #lists(): ReadonlyMap<string, readonly number[]> {
    const lists = new Map<string, readonly number[]>();
    for (const { object, operation, ended } of this.#history.all) {
      if (operation.kind === "list" && ended.kind === "ok") lists.set(object, ended.value as readonly number[]);
    }
    return lists;
  }

  #faults: ReadonlyMap<FaultKind, number> = new Map();

  async #client(client: number, untilMs: number): Promise<void> {
    const { time } = this.#fleet;
    const random = new SeededRandom(this.#options.seed * 101 + client);
    const simulated = this.#newClient(client, random);
    while (time.nowMs < untilMs) {
      const object = this.#objects[random.below(this.#objects.length)] as string;
      const operation = this.#operation(object, random);
      const ended = await simulated.perform(object, operation);
      this.#tell(`client ${client} ${object} ${JSON.stringify(operation)} ${JSON.stringify(ended)}`);
      await sleep(this.#world, random.below(random.fraction() < 0.2 ? 600 : 60));
    }
  }

  /** Nobody may be stuck: each object answers through each node. */
  async #lastReadings(): Promise<string[]> {
    const stuck: string[] = [];
    const random = new SeededRandom(this.#options.seed + 5);
    const client = this.#newClient(CLIENTS, random);
    for (const node of this.#fleet.nodes.keys()) {
      for (const object of this.#objects) {
        const operation: Operation = { kind: object.startsWith("List/") ? "list" : "read" };
        const ended = await client.perform(object, operation, node);
        this.#tell(`last ${node} ${object} ${JSON.stringify(ended)}`);
        if (ended.kind !== "ok") stuck.push(`${object} does not answer through ${node} in calm: ${ended.code}`);
      }
    }
    return stuck;
  }

  #check(): readonly string[] {
    const violations: string[] = [];
    for (const [object, history] of this.#history.byObject()) {
      if (object.startsWith("List/")) violations.push(...checkList(history));
      else if (object.startsWith("Register/")) violations.push(...checkRegister(history));
      else violations.push(...checkCounter(history));
      for (const { ended } of history) {
        if (ended.kind !== "ok" && /internal|object_corrupt|storage_/.test(ended.code)) violations.push(ended.code);
      }
    }
    return violations;
  }

  #newClient(client: number, random: SeededRandom): SimulatedClient {
    return new SimulatedClient({ fleet: this.#fleet, world: this.#world, random, history: this.#history, client });
  }

  #operation(object: string, random: SeededRandom): Operation {
    const isReading = random.fraction() < 0.3;
    if (object.startsWith("List/")) return isReading ? { kind: "list" } : { kind: "append", value: this.#nextValue++ };
    if (isReading) return { kind: "read" };
    if (object.startsWith("Register/")) return { kind: "write", value: this.#nextValue++ };
    return { kind: "add", amount: 1 + random.below(9) };
  }

  #className(index: number): string {
    if (this.#workload === "list") return "List";
    if (this.#workload === "register") return "Register";
    if (this.#workload === "counter") return "Counter";
    return ["List", "Register", "Counter"][index % 3] as string;
  }

  #tell(what: string): void {
    const line = `${this.#fleet.time.nowMs.toFixed(3)} ${what}`;
    this.#hash.update(line);
    this.#options.trace?.(line);
  }

  #logger(node: string): Logger {
    const say = (level: string) => (fields: unknown, message?: string) => {
      this.#tell(`${node} ${level} ${typeof fields === "string" ? fields : `${message} ${JSON.stringify(fields)}`}`);
    };
    return { debug: () => {}, info: say("info"), warn: say("warn"), error: say("error") } as unknown as Logger;
  }

  #result(violations: readonly string[]): SimulationResult {
    const endings = this.#history.all.map(({ ended }) => ended.kind);
    const count = (kind: string): number => endings.filter((one) => one === kind).length;
    return {
      seed: this.#options.seed,
      nodes: this.#nodes,
      workload: this.#workload,
      hash: this.#hash.digest("hex"),
      violations,
      faults: this.#faults,
      acknowledged: count("ok"),
      unknown: count("unknown"),
      failed: count("failed"),
      virtualMs: this.#fleet.time.nowMs,
    };
  }
}
