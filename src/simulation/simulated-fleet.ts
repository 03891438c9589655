/**
 * A fleet in one process, under virtual time and from one seed: the nodes are real, with their Lua, their SQLite files and
 * journals; the network, the bucket, the disks' sync and the clocks are simulated, and can be made to fail.
 *
 * Two runs of the same seed and the same commands are the same, to the last message. A node's files are real files in a
 * folder of its own and survive its crashes.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import type { AppSource } from "../app-source.js";
import { MemoryBucket } from "../bucket/memory-bucket.js";
import { MemoryContents } from "../bucket/memory-contents.js";
import { assert, MoonportError } from "../errors.js";
import { FleetNode } from "../fleet/fleet-node.js";
import type { ProtocolRange } from "../links/handshake.js";
import type { CallReply, CallRequest } from "../node-api.js";
import type { Observer } from "../observation.js";
import type { Sink, SubscribeRequest, Subscription, ViewRequest } from "../realtime/contract.js";
import { resolveSettings, type Settings } from "../settings/settings.js";
import { SeededRandom } from "../testing/seeded-random.js";
import { type LatencyMs, SimulatedNetwork } from "../testing/simulated-network.js";
import { VirtualMarks } from "../testing/virtual-marks.js";
import { VirtualTime } from "../testing/virtual-time.js";
import { VirtualWorld } from "../testing/virtual-world.js";
import type { NativeClasses } from "../units/native.js";
import { deferred } from "../world/deferred.js";
import { type Logger, silentLogger } from "../world/logger.js";
import { bucketOf, networkOf } from "./simulated-process.js";

export interface SimulatedFleetOptions {
  /** Default 1. */
  readonly seed?: number;
  readonly apps: readonly AppSource[];
  /** Apps that nodes serve as was deployed, once something was. Default: none. */
  readonly followsReleases?: readonly string[];
  readonly settings?: Readonly<Record<string, number>>;
  /** Whether the bucket writes several keys at once, as the embedded one does; false: as S3. Default false. */
  readonly atomicBucket?: boolean;
  /** One way of a request to the bucket, milliseconds. Default 1 to 20. */
  readonly bucketLatencyMs?: LatencyMs;
  /** One way of a message between nodes, milliseconds. Default 0.2 to 2. */
  readonly linkLatencyMs?: LatencyMs;
  readonly observer?: (node: string) => Observer;
  readonly log?: (node: string) => Logger;
}

export interface StartOptions {
  readonly zone?: string;
  readonly weight?: number;
  /** How fast its monotonic clock runs. Default 1. */
  readonly clockRate?: number;
  /** Host code of its own, by class name. */
  readonly native?: NativeClasses;
  /** Protocols of links that it speaks. Default: this release's. */
  readonly protocols?: ProtocolRange;
  /** How long its disk takes for a sync, milliseconds. Default 0.5. */
  readonly diskSyncMs?: number;
  /** In place of the fleet's, of those that may differ. */
  readonly settings?: Readonly<Record<string, number>>;
}

export interface CrashOptions {
  /** The machine loses its power: what no sync had reached may be gone, and nobody is told. Default: the process dies. */
  readonly power?: boolean;
  /** Its disk is gone with it: it comes back with an empty one. Nobody is told. */
  readonly disk?: boolean;
}

const BUCKET_TIMEOUT_MS = 2_000;

export class SimulatedFleet {
  readonly time = new VirtualTime();
  readonly contents = new MemoryContents();
  readonly network: SimulatedNetwork;
  readonly random: SeededRandom;
  readonly settings: Settings;
  readonly nodes = new Map<string, SimulatedNode>();
  readonly options: SimulatedFleetOptions;
  readonly marks = new VirtualMarks();
  readonly #root: string;

  constructor(options: SimulatedFleetOptions) {
    const { seed = 1, linkLatencyMs, settings = {} } = options;
    this.options = options;
    this.random = new SeededRandom(seed);
    this.settings = resolveSettings(settings);
    this.network = new SimulatedNetwork(this.time, { seed, ...(linkLatencyMs && { latencyMs: linkLatencyMs }) });
    this.#root = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-fleet-"));
  }

  /** Makes a node and starts it. Resolves, in virtual time, when it serves. */
  async start(name: string, options: StartOptions = {}): Promise<SimulatedNode> {
    const node = this.add(name, options);
    await this.time.until(node.start());
    return node;
  }

  /** Makes a node that does not run yet. */
  add(name: string, options: StartOptions = {}): SimulatedNode {
    assert(!this.nodes.has(name), `${name} is there already`);
    const node = new SimulatedNode(this, name, this.folderOf(name), options);
    this.nodes.set(name, node);
    return node;
  }

  /** Removed with the fleet: of a node, or of somebody outside. */
  folderOf(name: string): string {
    const folder = path.join(this.#root, name);
    fs.mkdirSync(folder, { recursive: true });
    return folder;
  }

  node(name: string): SimulatedNode {
    const node = this.nodes.get(name);
    assert(node !== undefined, `no node is called ${name}`);
    return node;
  }

  /** Everything ends at once, and its files are removed. */
  close(): void {
    for (const node of this.nodes.values()) node.discard();
    fs.rmSync(this.#root, { recursive: true, force: true });
  }
}

type Life =
  | { readonly kind: "down" }
  | { readonly kind: "starting"; readonly died: Promise<never>; readonly die: (error: Error) => void }
  | {
      readonly kind: "up";
      readonly node: FleetNode;
      readonly died: Promise<never>;
      readonly die: (error: Error) => void;
    };

export class SimulatedNode {
  readonly name: string;
  readonly #fleet: SimulatedFleet;
  readonly #options: StartOptions;
  #world: VirtualWorld;
  /** Of its present or last life; set faults on it for this node alone. */
  bucket: MemoryBucket;
  #life: Life = { kind: "down" };

  constructor(fleet: SimulatedFleet, name: string, root: string, options: StartOptions) {
    this.#fleet = fleet;
    this.name = name;
    this.#options = options;
    this.#world = new VirtualWorld({
      time: fleet.time,
      root,
      seed: this.#drawSeed(),
      log: fleet.options.log?.(name) ?? silentLogger,
      monotonicRate: options.clockRate ?? 1,
      diskSyncMs: options.diskSyncMs ?? 0.5,
    });
    this.bucket = this.#newBucket();
  }

  get world(): VirtualWorld {
    return this.#world;
  }

  get isUp(): boolean {
    return this.#life.kind === "up";
  }

  get isDown(): boolean {
    return this.#life.kind === "down";
  }

  /** @throws MoonportError `node_unreachable` unless it is up */
  get node(): FleetNode {
    if (this.#life.kind === "up") return this.#life.node;
    throw MoonportError.of("node_unreachable", `${this.name} is not up`);
  }

  /** Resolves when it serves; rejects when it could not start, or died meanwhile. */
  async start(): Promise<void> {
    assert(this.#life.kind === "down", `${this.name} is not down`);
    const death = deferred<never>();
    death.promise.catch(() => {});
    const died = { died: death.promise, die: death.reject };
    this.#life = { kind: "starting", ...died };
    this.bucket = this.#newBucket();
    const world = this.#world;
    const { zone = "z", weight = 1, native, protocols } = this.#options;
    const { apps, followsReleases = [], observer } = this.#fleet.options;
    const opening = this.bucket.start().then(() =>
      FleetNode.open(
        {
          world,
          bucket: bucketOf(world, this.bucket),
          apps,
          followsReleases,
          settings: { ...this.#fleet.settings, ...this.#options.settings },
          onClassError: "refuse",
          ...(native !== undefined && { native }),
          ...(observer && { observer: observer(this.name) }),
        },
        {
          node: this.name,
          zone,
          weight,
          network: networkOf(world, this.#fleet.network.of(this.name)),
          secret: "simulated",
          ...(protocols !== undefined && { protocols }),
        },
      ),
    );
    try {
      const node = await Promise.race([opening, death.promise]);
      if (world === this.#world && !world.revoked) this.#life = { kind: "up", node, ...died };
    } catch (error) {
      if (world === this.#world && !world.revoked) this.#life = { kind: "down" };
      throw error;
    }
  }

  /** As a client that is connected to this node. @throws MoonportError `node_unreachable`, `outcome_unknown` if it dies meanwhile */
  async call(request: CallRequest): Promise<CallReply> {
    const reply = await this.ask((node) => node.call(request));
    return reply.isShared ? { ...reply, value: structuredClone(reply.value) } : reply;
  }

  /** As {@link call}, whatever is asked. */
  async ask<T>(what: (node: FleetNode) => Promise<T>): Promise<T> {
    const life = this.#life;
    if (life.kind !== "up") throw MoonportError.of("node_unreachable", `${this.name} is not up`);
    const asking = this.#world.running().then(() => what(life.node));
    return Promise.race([asking, life.died]);
  }

  /** As a client that is connected to this node, which nobody tells when it dies. @throws MoonportError as {@link call} */
  subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    return this.#connected(sink, (node, heard) => node.subscribe(request, heard));
  }

  /** As {@link subscribe}. */
  view(request: ViewRequest, sink: Sink): Promise<Subscription> {
    return this.#connected(sink, (node, heard) => node.view(request, heard));
  }

  async #connected(sink: Sink, begin: (node: FleetNode, heard: Sink) => Promise<Subscription>): Promise<Subscription> {
    const life = this.#life;
    if (life.kind !== "up") throw MoonportError.of("node_unreachable", `${this.name} is not up`);
    const heard: Sink = {
      deliver: (delivery) => {
        if (this.#life === life) sink.deliver(delivery);
      },
      room: () => sink.room(),
      isFull: () => sink.isFull(),
    };
    const beginning = this.#world.running().then(() => begin(life.node, heard));
    const subscription = await Promise.race([beginning, life.died]);
    return {
      get after() {
        return subscription.after;
      },
      close: () => {
        if (this.#life === life) subscription.close();
      },
    };
  }

  /**
   * Ends orderly: drains, and gives its session up.
   * @returns how many timers it left behind. @throws MoonportError `node_unreachable` unless it is up, `outcome_unknown` if it dies meanwhile
   */
  async stop(): Promise<number> {
    const life = this.#life;
    if (life.kind !== "up") throw MoonportError.of("node_unreachable", `${this.name} is not up`);
    await Promise.race([life.node.stop(), life.died]);
    await this.bucket.stop();
    // Whoever waited for the bucket has to hear that first.
    await new Promise<void>((resolve) => void this.#fleet.time.soon(resolve));
    const { timersLeft } = this.#world;
    this.#fleet.network.kill(this.name);
    this.#endLife();
    this.#world = this.#world.crash(this.#drawSeed());
    return timersLeft;
  }

  crash({ power = false, disk = false }: CrashOptions = {}): void {
    if (this.#life.kind === "down") return;
    this.#fleet.network.kill(this.name, { silently: power || disk });
    this.#world = this.#nextWorld(power, disk);
    this.#endLife();
  }

  #nextWorld(power: boolean, disk: boolean): VirtualWorld {
    if (disk) return this.#world.loseDisk(this.#drawSeed());
    return power ? this.#world.powerCut(this.#drawSeed()) : this.#world.crash(this.#drawSeed());
  }

  /** As SIGSTOP. */
  pause(): void {
    this.#world.stopProcess();
  }

  /** As SIGCONT. @param first what came meanwhile may be seen before the clock is looked at */
  resume(first?: "in_order" | "arrivals"): void {
    this.#world.continueProcess(first);
  }

  discard(): void {
    this.#endLife();
    this.#world.revoke();
  }

  #endLife(): void {
    const life = this.#life;
    this.#life = { kind: "down" };
    if (life.kind !== "down") life.die(MoonportError.of("outcome_unknown", `${this.name} died`));
  }

  #newBucket(): MemoryBucket {
    const { options, time, contents } = this.#fleet;
    const { min, max } = options.bucketLatencyMs ?? { min: 1, max: 20 };
    // Requests that are on their way when the node dies arrive all the same.
    const outside = new VirtualWorld({
      time,
      root: path.join(os.tmpdir(), "moonport-no-folder"),
      seed: this.#drawSeed(),
    });
    const { atomicBucket = false } = options;
    return new MemoryBucket(outside, {
      atomic: atomicBucket,
      ...(atomicBucket && { marks: this.#fleet.marks.of(this.#world) }),
      contents,
      timeoutMs: BUCKET_TIMEOUT_MS,
      latencyMs: (_, { random }) => min + (max - min) * random.fraction(),
    });
  }

  #drawSeed(): number {
    return Math.floor(this.#fleet.random.fraction() * 2 ** 31);
  }
}
