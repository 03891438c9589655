/**
 * One simulation: a fleet, clients at work, everything going wrong for a while, then calm, then the question whether all
 * promises were kept. The same seed gives the same run, to the last message.
 */
import { createHash } from "node:crypto";
import path from "node:path";
import type { AppSource } from "../../src/app-source.js";
import { objectOfId, partitionOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { Logger } from "../../src/world/logger.js";
import { sleep } from "../../src/world/world.js";
import { checkEvents } from "./check-events.js";
import { checkList } from "./check-list.js";
import { checkCounter, checkRegister } from "./check-register.js";
import { SimulatedClient } from "./client.js";
import { Deploys, firstApp } from "./deploys.js";
import { DiskLosses } from "./disk-losses.js";
import { Doers } from "./doers.js";
import { History, type Operation } from "./history.js";
import { Landings } from "./landings.js";
import { Nemesis } from "./nemesis.js";
import { type FaultKind, type Plan, planOf } from "./plan.js";
import { type Restored, restored } from "./restored.js";
import { Watchers } from "./watchers.js";

export interface SimulationOptions {
  readonly seed: number;
  /** In place of what the seed draws. */
  readonly plan?: Partial<Plan>;
  /** False: as the first simulations were (plan.ts). */
  readonly isVaried?: boolean;
  /** Told each line of what happens. */
  readonly trace?: (line: string) => void;
}

export type Check =
  /** What clients heard fits no order. */
  | "history"
  /** Somebody does not answer in calm. */
  | "stuck"
  /** In calm an object lives on another node than the one that all prefer for it. */
  | "placed"
  /** An error that says that a promise was broken. */
  | "error"
  /** Two lives of nodes landed writes in one epoch, or a write was released that had not landed. */
  | "owners"
  | "landed"
  /** Something is under way, or left behind, when all is done. */
  | "leak"
  /** The bucket alone does not give back what was read last, or not the events. */
  | "bucket"
  | "events"
  /** A timer, a message or a command took effect too often, never, or early; or somebody was told what is not so of one. */
  | "timers"
  | "messages"
  /** A directory's row is not what its object is. */
  | "directory"
  /** A node does not serve the release that it should, or one wrote where a newer one had been. */
  | "release"
  /** It came to no end. */
  | "end";

export interface Violation {
  readonly check: Check;
  readonly what: string;
}

export interface SimulationResult {
  readonly seed: number;
  readonly plan: Plan;
  /** Of all that was told to the trace. */
  readonly hash: string;
  readonly violations: readonly Violation[];
  readonly faults: ReadonlyMap<FaultKind, number>;
  /** How often something was to go wrong; those that a plan skips are counted. */
  readonly strikes: number;
  readonly acknowledged: number;
  readonly unknown: number;
  readonly failed: number;
  /** Reads that a copy answered. */
  readonly fromCopies: number;
  readonly virtualMs: number;
}

const CALM_MS = 5_000;
/** Until every object lives at its home: the longest pause after one that did not go, and a ttl. */
const PLACED_MS = 12_000;
const PLACED_LOOK_MS = 500;
/** For what was under way when the last node had stopped to come to its end. */
const REST_MS = 5_000;
const LOOKS_MAX = 20;

/** Beside the sources, whether they run as they are or compiled. */
const APP = path.join(import.meta.dirname.replace(/([/\\])dist([/\\]test)/, "$2"), "app");
let app: AppSource | undefined;

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return new Simulation(options).run();
}

class Simulation {
  readonly #seed: number;
  readonly #plan: Plan;
  readonly #trace: ((line: string) => void) | undefined;
  readonly #fleet: SimulatedFleet;
  /** Outside of all nodes. */
  readonly #world: VirtualWorld;
  readonly #diskLosses: DiskLosses;
  readonly #nemesis: Nemesis;
  readonly #history = new History();
  readonly #landings: Landings;
  readonly #hash = createHash("sha256");
  readonly #objects: readonly string[];
  readonly #clients: SimulatedClient[] = [];
  #nextValue = 1;

  constructor({ seed, plan, isVaried = true, trace }: SimulationOptions) {
    this.#seed = seed;
    this.#plan = planOf(seed, plan, isVaried);
    this.#trace = trace;
    this.#objects = Array.from({ length: this.#plan.objects }, (_, index) => `${this.#className(index)}/k${index}`);
    app ??= appIn(APP);
    this.#landings = new Landings(
      () => this.#fleet,
      () => this.#diskLosses,
    );
    this.#fleet = new SimulatedFleet({
      seed,
      ...(this.#plan.deployers > 0 ? { apps: [firstApp(app)], followsReleases: [app.app] } : { apps: [app] }),
      settings: this.#plan.settings,
      atomicBucket: this.#plan.atomicBucket,
      observer: (node) => this.#landings.observer(node),
      log: (node) => this.#logger(node),
    });
    this.#diskLosses = new DiskLosses(this.#fleet);
    this.#world = new VirtualWorld({
      time: this.#fleet.time,
      root: this.#fleet.folderOf("outside"),
      seed: seed + 1_000_003,
    });
    this.#nemesis = this.#newNemesis(isVaried);
  }

  async run(): Promise<SimulationResult> {
    this.#tell(JSON.stringify(this.#plan));
    try {
      const violations = await this.#fleet.time.until(this.#play(), 10 * 60_000).catch((error: Error) => {
        this.#trace?.(`${error.stack}`);
        return [violation("end", error.message)];
      });
      for (const { check, what } of violations) this.#tell(`${check}: ${what}`);
      return this.#result(violations);
    } finally {
      this.#isOver = true;
      this.#fleet.close();
    }
  }

  async #play(): Promise<readonly Violation[]> {
    const { time, nodes } = this.#fleet;
    const { clockRates, diskSyncMs, stormMs, clients } = this.#plan;
    for (const [index, clockRate] of clockRates.entries()) {
      this.#fleet.add(`n${index}`, { zone: `z${index % 2}`, clockRate, diskSyncMs });
    }
    await Promise.all([...nodes.values()].map((node) => node.start()));
    const untilMs = time.nowMs + stormMs;
    const working = Array.from({ length: clients }, (_, client) => this.#client(client, untilMs));
    const watchers = this.#newWatchers();
    const doers = this.#newDoers();
    if (doers !== undefined) working.push(doers.work(untilMs));
    const deploys = this.#newDeploys();
    const deploying = deploys?.run(untilMs);
    await this.#nemesis.run(untilMs);
    watchers?.stay();
    this.#tell("calm");
    await this.#nemesis.heal();
    await Promise.all(working);
    await deploying;
    await sleep(this.#world, CALM_MS);
    const undone = (await doers?.end(this.#nemesis.wallClocks)) ?? [];
    const stuck = await this.#lastReadings();
    const misplaced = (await this.#misplacedInTheEnd()).map((what) => violation("placed", what));
    const misserved = ((await deploys?.end()) ?? []).map((what) => violation("release", what));
    const missed = ((await watchers?.end(this.#lastValues)) ?? []).map((what) => violation("events", what));
    const broken = [...stuck, ...misplaced, ...this.#checkHistory(), ...this.#landings.faults, ...missed];
    const violations = [...broken, ...undone, ...misserved];
    // What comes after rests on the calm: it would only say the same once more.
    if (violations.length > 0) return violations;
    return [...(await this.#stopAll()), ...(await this.#checkBucket())];
  }

  #newDeploys(): Deploys | undefined {
    const { deployers, faults } = this.#plan;
    if (deployers === 0) return undefined;
    return new Deploys({
      fleet: this.#fleet,
      world: this.#world,
      random: new SeededRandom(this.#seed * 307 + 11),
      base: app as AppSource,
      deployers,
      isQuiet: Object.keys(faults).length === 0,
      tell: (what) => this.#tell(what),
    });
  }

  #newWatchers(): Watchers | undefined {
    const lists = this.#objects.filter((object) => object.startsWith("List/"));
    if (this.#plan.watchers === 0 || lists.length === 0) return undefined;
    return new Watchers({
      fleet: this.#fleet,
      world: this.#world,
      random: new SeededRandom(this.#seed * 211 + 3),
      objects: lists,
      count: this.#plan.watchers,
      tell: (what) => this.#tell(what),
    });
  }

  #newDoers(): Doers | undefined {
    if (this.#plan.doers === 0) return undefined;
    return new Doers({
      fleet: this.#fleet,
      world: this.#world,
      randomOf: (client) => new SeededRandom(this.#seed * 307 + client),
      count: this.#plan.doers,
      ending: this.#plan.endingDoers,
      tell: (what) => this.#tell(what),
    });
  }

  async #client(client: number, untilMs: number): Promise<void> {
    const { time } = this.#fleet;
    const random = new SeededRandom(this.#seed * 101 + client);
    const simulated = this.#newClient(client, random);
    while (time.nowMs < untilMs) {
      const object = this.#objects[random.below(this.#objects.length)] as string;
      const operation = this.#operation(object, random);
      const ended = await simulated.perform(object, operation);
      this.#tell(`client ${client} ${object} ${JSON.stringify(operation)} ${JSON.stringify(ended)}`);
      await sleep(this.#world, random.below(random.fraction() < 0.2 ? 600 : 60));
    }
  }

  /** Objects that live elsewhere than at their home however long one waits. */
  async #misplacedInTheEnd(): Promise<readonly string[]> {
    for (let waitedMs = 0; ; waitedMs += PLACED_LOOK_MS) {
      const misplaced = this.#misplaced();
      if (misplaced.length === 0 || waitedMs >= PLACED_MS) return misplaced;
      await sleep(this.#world, PLACED_LOOK_MS);
    }
  }

  #misplaced(): string[] {
    return this.#objects.flatMap((name) => {
      const object = objectOfId(`default/${name}`);
      return [...this.#fleet.nodes.values()].flatMap(({ name: holder, node }) => {
        const [home] = node.fleet.ring.homesOf(partitionOf(object.id));
        return home === holder || !node.local.holds(object) ? [] : [`${name} lives on ${holder}, its home is ${home}`];
      });
    });
  }

  readonly #lastValues = new Map<string, unknown>();
  #isOver = false;

  /** Nobody may be stuck: each object answers through each node, also where a copy may. */
  async #lastReadings(): Promise<Violation[]> {
    const shares = this.#plan.replicaShare > 0 ? [0, 1] : [0];
    return (await Promise.all(shares.map((share) => this.#lastReadingsOf(share)))).flat();
  }

  async #lastReadingsOf(replicaShare: number): Promise<Violation[]> {
    const stuck: Violation[] = [];
    const random = new SeededRandom(this.#seed + 5 + replicaShare);
    const client = this.#newClient(this.#plan.clients + replicaShare, random, replicaShare);
    for (const node of this.#fleet.nodes.keys()) {
      for (const object of this.#objects) {
        const operation: Operation = { kind: object.startsWith("List/") ? "list" : "read" };
        const ended = await client.perform(object, operation, node);
        this.#tell(`last ${node} ${object} ${JSON.stringify(ended)}`);
        if (ended.kind === "ok") this.#lastValues.set(object, ended.value);
        else stuck.push(violation("stuck", `${object} does not answer through ${node} in calm: ${ended.code}`));
      }
    }
    return stuck;
  }

  #checkHistory(): Violation[] {
    const violations: Violation[] = [];
    for (const [object, history] of this.#history.byObject()) {
      violations.push(...checkOf(object)(history).map((what) => violation("history", what)));
      for (const { ended } of history) {
        if (ended.kind === "ok" || !BROKEN_PROMISE.test(ended.code)) continue;
        violations.push(violation("error", `${object}: ${ended.code}`));
      }
    }
    return violations;
  }

  /** Everybody goes in order: nothing is under way before, and nothing is left of them after. */
  async #stopAll(): Promise<Violation[]> {
    const { nodes, network } = this.#fleet;
    const left = await this.#unanswered();
    await Promise.all(
      [...nodes.values()].map(async (simulated) => {
        const { node, name } = simulated;
        const timersLeft = await simulated.stop();
        if (timersLeft > 0) left.push(`${name} has stopped and left ${timersLeft} timers behind`);
        const { unlanded } = node.local;
        if (unlanded !== undefined) left.push(`${name} stopped in calm, and not all had landed: ${unlanded.message}`);
      }),
    );
    await sleep(this.#world, REST_MS);
    if (network.openChannels > 0) left.push(`${network.openChannels} connections outlive their nodes`);
    return left.map((what) => violation("leak", what));
  }

  /** A moment without any request under way comes soon: what a node tells others now and then is answered at once. */
  async #unanswered(): Promise<string[]> {
    for (let looks = 0; ; looks++) {
      const waiting = [...this.#fleet.nodes.values()].flatMap(({ name, node }) => {
        const { underWay } = node.fleet.links;
        return underWay > 0 ? [`${name} waits for ${underWay} answers of other nodes in calm`] : [];
      });
      if (waiting.length === 0 || looks === LOOKS_MAX) return waiting;
      await sleep(this.#world, REST_MS / LOOKS_MAX);
    }
  }

  /** The bucket alone gives back what was read last. */
  async #checkBucket(): Promise<Violation[]> {
    const { contents, settings } = this.#fleet;
    const violations: Violation[] = [];
    for (const object of this.#objects) {
      const found = await restored(this.#world, contents, settings, object).catch((error: Error) => error);
      if (found instanceof Error)
        violations.push(violation("bucket", `${object} cannot be restored: ${found.message}`));
      else violations.push(...this.#checkRestored(object, found));
    }
    return violations;
  }

  #checkRestored(object: string, { value, events }: Restored): Violation[] {
    const last = JSON.stringify(this.#lastValues.get(object));
    const stands = JSON.stringify(value);
    if (last !== stands) return [violation("bucket", `${object}: ${last} was read last, and ${stands} stands there`)];
    if (!object.startsWith("List/")) return [];
    const told = this.#landings.events.filter((event) => event.object === `default/${object}`);
    const faults = checkEvents(value as readonly number[], events, told);
    return faults.map((fault) => violation("events", `${object}: ${fault}`));
  }

  #newClient(client: number, random: SeededRandom, replicaShare = this.#plan.replicaShare): SimulatedClient {
    const simulated = new SimulatedClient({
      fleet: this.#fleet,
      world: this.#world,
      random,
      history: this.#history,
      client,
      hasCallIds: this.#plan.destroyShare === 0,
      replicaShare,
    });
    this.#clients.push(simulated);
    return simulated;
  }

  #newNemesis(isVaried: boolean): Nemesis {
    const random = new SeededRandom(this.#seed + 31);
    return new Nemesis({
      fleet: this.#fleet,
      diskLosses: this.#diskLosses,
      world: this.#world,
      plan: this.#plan,
      random,
      randomOf: (strike) => (isVaried ? new SeededRandom(this.#seed * 1_009 + strike) : random),
      tell: (what) => this.#tell(what),
    });
  }

  #operation(object: string, random: SeededRandom): Operation {
    const isReading = random.fraction() < this.#plan.readShare;
    if (object.startsWith("List/")) return isReading ? { kind: "list" } : { kind: "append", value: this.#nextValue++ };
    if (isReading) return { kind: "read" };
    if (this.#plan.destroyShare > 0 && random.fraction() < this.#plan.destroyShare) return { kind: "destroy" };
    if (object.startsWith("Register/")) {
      const isFilling = this.#plan.fillShare > 0 && random.fraction() < this.#plan.fillShare;
      return { kind: isFilling ? "fill" : "write", value: this.#nextValue++ };
    }
    return { kind: "add", amount: 1 + random.below(9) };
  }

  #className(index: number): string {
    switch (this.#plan.workload) {
      case "list":
        return "List";
      case "register":
        return "Register";
      case "counter":
        return "Counter";
      case "mixed":
        return ["List", "Register", "Counter"][index % 3] as string;
    }
  }

  #tell(what: string): void {
    // What went on after it came to no end.
    if (this.#isOver) return;
    const line = `${this.#fleet.time.nowMs.toFixed(3)} ${what}`;
    this.#hash.update(line);
    this.#trace?.(line);
  }

  #logger(node: string): Logger {
    const say = (level: string) => (fields: unknown, message?: string) => {
      this.#tell(`${node} ${level} ${typeof fields === "string" ? fields : `${message} ${JSON.stringify(fields)}`}`);
    };
    return { debug: () => {}, info: say("info"), warn: say("warn"), error: say("error") } as unknown as Logger;
  }

  #result(violations: readonly Violation[]): SimulationResult {
    const endings = this.#history.all.map(({ ended }) => ended.kind);
    const count = (kind: string): number => endings.filter((one) => one === kind).length;
    return {
      seed: this.#seed,
      plan: this.#plan,
      hash: this.#hash.digest("hex"),
      violations,
      faults: this.#nemesis.counts,
      strikes: this.#nemesis.strikes,
      acknowledged: count("ok"),
      unknown: count("unknown"),
      failed: count("failed"),
      fromCopies: this.#clients.reduce((sum, { fromCopies }) => sum + fromCopies, 0),
      virtualMs: this.#fleet.time.nowMs,
    };
  }
}

const BROKEN_PROMISE = /internal|object_corrupt|journal_corrupt|storage_/;

function violation(check: Check, what: string): Violation {
  return { check, what };
}

function checkOf(object: string): typeof checkList {
  if (object.startsWith("List/")) return checkList;
  return object.startsWith("Register/") ? checkRegister : checkCounter;
}
