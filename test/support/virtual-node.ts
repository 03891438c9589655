/** A whole node under virtual time with a memory bucket: calls, crashes, restarts. */
import type { AppSource } from "../../src/app-source.js";
import { readAppSource } from "../../src/app-source.js";
import { MemoryBucket, type MemoryBucketOptions } from "../../src/bucket/memory-bucket.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply, CallRequest, UnitRequest, UnitResponse } from "../../src/node-api.js";
import type { NodeOptions } from "../../src/node-options.js";
import type { Observation } from "../../src/observation.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { lastingBucket } from "../../src/testing/lasting-bucket.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import type { Logger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "./temporary-folder.js";

/** Settings under which what a compaction replaces is deleted at once. */
export const NO_PAST = { PITR_RETENTION_MS: 0 };

export interface VirtualNodeOptions {
  readonly settings?: Readonly<Record<string, number>>;
  readonly bucket?: MemoryBucketOptions;
  /** Lua by class name; default the repository's `classes/`. */
  readonly classes?: Readonly<Record<string, string>>;
  /** Lua by unit name. */
  readonly units?: Readonly<Record<string, string>>;
  /** Lua by module name. */
  readonly modules?: Readonly<Record<string, string>>;
  readonly followsReleases?: readonly string[];
  readonly native?: NodeOptions["native"];
  readonly outbound?: NodeOptions["outbound"];
  readonly fleet?: NodeOptions["fleet"];
  readonly seed?: number;
  /** The data folder; default a temporary one. */
  readonly root?: string;
  readonly onClassError?: "refuse" | "report";
  readonly descriptorsMax?: number;
  readonly log?: Logger;
}

export class VirtualNode {
  readonly time: VirtualTime;
  readonly bucket: MemoryBucket;
  readonly observations: Observation[] = [];
  world: VirtualWorld;
  node!: MoonportNode;
  readonly #options: VirtualNodeOptions;

  private constructor(options: VirtualNodeOptions, beside?: VirtualNode) {
    this.#options = options;
    const seed = (options.seed ?? 1) + (beside ? 2_000_000 : 0);
    this.time = beside?.time ?? new VirtualTime();
    this.world = new VirtualWorld({
      time: this.time,
      root: options.root ?? temporaryFolder(),
      seed,
      ...(options.log !== undefined && { log: options.log }),
    });
    // The bucket lives in a world of its own: a node's crash does not touch it.
    const cloud = new VirtualWorld({ time: this.time, root: temporaryFolder(), seed: seed + 1_000_000 });
    this.bucket = beside?.bucket ?? new MemoryBucket(cloud, options.bucket);
  }

  static async start(options: VirtualNodeOptions = {}): Promise<VirtualNode> {
    const virtual = new VirtualNode(options);
    await virtual.bucket.start();
    await virtual.open();
    return virtual;
  }

  /** Another node on the same bucket, with a folder of its own. */
  async sibling(): Promise<VirtualNode> {
    const sibling = new VirtualNode(this.#options, this);
    await sibling.open();
    return sibling;
  }

  /** @param settings in place of those it was started with */
  async open(apps: readonly AppSource[] = [this.#app()], settings = this.#options.settings): Promise<void> {
    const opening = MoonportNode.open({
      world: { ...this.world, descriptorsMax: this.#options.descriptorsMax },
      bucket: lastingBucket(this.bucket),
      apps,
      // Probing writes would use up what tests plan for the bucket's next requests.
      settings: resolveSettings({ HEALTH_INTERVAL_MS: 0, ...settings }),
      onClassError: this.#options.onClassError ?? "refuse",
      observer: (observation) => void this.observations.push(observation),
      ...(this.#options.followsReleases !== undefined && { followsReleases: this.#options.followsReleases }),
      ...(this.#options.native !== undefined && { native: this.#options.native }),
      ...(this.#options.outbound !== undefined && { outbound: this.#options.outbound }),
      ...(this.#options.fleet !== undefined && { fleet: this.#options.fleet }),
    });
    this.node = await this.time.until(opening);
  }

  /** A reply promise; nothing happens until virtual time is driven. */
  start(
    target: string,
    method: string,
    args: readonly PlainValue[] = [],
    more: Partial<CallRequest> = {},
  ): Promise<CallReply> {
    const object = this.identity(target);
    return this.#overWire(this.node.call({ object, method, args, caller: { kind: "client" }, ...more }));
  }

  /** As `start`, of a unit. */
  startUnit(unit: string, more: Partial<UnitRequest> = {}): Promise<UnitResponse> {
    const caller = { kind: "client" as const };
    const plain = { app: "default", unit, method: "POST", path: "/", query: {}, headers: {}, caller };
    return this.#overWire(this.node.runUnit({ ...plain, ...more }));
  }

  /** What a unit answers as JSON, driving time until it is there. */
  async unit(unit: string, body?: PlainValue, more: Partial<UnitRequest> = {}): Promise<unknown> {
    const response = this.startUnit(unit, { ...(body !== undefined && { body }), ...more });
    return JSON.parse(String((await this.time.until(response)).body));
  }

  /** The wire is cut with the machine: what its memory still comes to after a crash reaches nobody. */
  #overWire<T>(answer: Promise<T>): Promise<T> {
    const { world } = this;
    const whileAlive =
      <V>(settle: (outcome: V) => void) =>
      (outcome: V): void => {
        if (!world.revoked) settle(outcome);
      };
    const received = new Promise<T>((resolve, reject) => {
      answer.then(whileAlive(resolve), whileAlive(reject));
    });
    received.catch(() => {});
    return received;
  }

  /** The value of a call, driving time until it is there. */
  async call(target: string, method: string, ...args: PlainValue[]): Promise<PlainValue> {
    return (await this.time.until(this.start(target, method, args))).value;
  }

  identity(target: string): ObjectIdentity {
    const [className = "", ...key] = target.split("/");
    return identityOf("default", className, key.join("/"));
  }

  /** Flights of one object that landed, in order. */
  flights(target: string): Extract<Observation, { kind: "landed" }>[] {
    const { id } = this.identity(target);
    return this.observations.filter((one) => one.kind === "landed").filter((one) => one.object === id);
  }

  /** Keys in the bucket. */
  async keys(prefix: string): Promise<readonly string[]> {
    return (await this.time.until(this.bucket.list(prefix))).keys;
  }

  async stop(): Promise<void> {
    await this.time.until(this.node.stop());
  }

  /** The classes become these, as `dev` does on save. */
  async reload(
    classes: Readonly<Record<string, string>>,
    units: Readonly<Record<string, string>> = {},
    modules: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    this.node.reload([appOf(classes, units, modules)]);
    await this.time.settle();
  }

  /** The power goes. Replies still under way never come. */
  crash(): void {
    this.world = this.world.crash();
  }

  #app(): AppSource {
    const { classes, units, modules } = this.#options;
    return classes === undefined ? readAppSource("default", new RealFolder(".")) : appOf(classes, units, modules);
  }
}

export function appOf(
  classes: Readonly<Record<string, string>>,
  units: Readonly<Record<string, string>> = {},
  modules: Readonly<Record<string, string>> = {},
): AppSource {
  const sources = Object.entries(classes).map(([name, text]) => ({
    app: "default",
    name,
    file: `classes/${name}.lua`,
    text,
  }));
  const unitSources = Object.entries(units).map(([name, text]) => ({
    kind: "unit" as const,
    app: "default",
    name,
    file: `units/${name}.lua`,
    text,
  }));
  const moduleSources = Object.entries(modules).map(([name, text]) => ({
    kind: "module" as const,
    app: "default",
    name,
    file: `lib/${name.replaceAll(".", "/")}.lua`,
    text,
  }));
  return { app: "default", classes: sources, units: unitSources, modules: moduleSources };
}
