/** The fleet of the drill: three nodes on one bucket of a real S3 server, behind a proxy that can be told to misbehave. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageRoot } from "../../cli/package-root.js";
import { MoonportError } from "../../src/errors.js";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.js";
import { createBucket, type Radosgw, radosgwBucketUrl, startRadosgw } from "../support/radosgw.js";
import type { Armed } from "./armed.js";
import { DrillNode, type DrillNodeOptions, drillObject } from "./drill-node.js";
import { DrillBroken, type Line } from "./model.js";

export const NAMES = ["n1", "n2", "n3"] as const;

/**
 * History is compacted every few flights and bodies stand beside their manifests, so that all ways into the bucket are taken; what
 * failed is tried again soon. The bucket is slower than journals are, however slow those are here. Sessions live as long as by default: on a machine that does much else shorter ones lapse by themselves.
 */
const SETS: Readonly<Record<string, number>> = {
  COVER_MS: 1_000,
  FLIGHT_HEDGE_MS: 10_000,
  COMPACT_SEGMENTS_MAX: 4,
  SEGMENT_INLINE_BYTES_MAX: 0,
  PITR_RETENTION_MS: 0,
  DELAY_BACKOFF_MS: 100,
  DELAY_BACKOFF_MAX_MS: 1_000,
  DIRECTORY_BACKOFF_MAX_MS: 1_000,
};

/** All nodes being up, everything is answered well within this, on a busy machine too. */
export const CALM_MAX_MS = 120_000;

export interface FleetOptions {
  readonly sets?: Readonly<Record<string, number>>;
  /** @param cwd the app's folder */
  readonly node?: (name: string, cwd: string) => Partial<DrillNodeOptions>;
  /** Where nodes reach the bucket; the proxy by default. */
  readonly endpoint?: string;
}

export class DrillServer {
  readonly s3: Radosgw;
  readonly proxy: FaultProxy;
  readonly folder: string;
  readonly #guests: (() => Promise<void>)[] = [];
  #buckets = 0;

  private constructor(s3: Radosgw, proxy: FaultProxy, folder: string) {
    this.s3 = s3;
    this.proxy = proxy;
    this.folder = folder;
  }

  static async start(): Promise<DrillServer> {
    const s3 = await startRadosgw();
    const proxy = await startFaultProxy({ target: s3 });
    return new DrillServer(s3, proxy, fs.mkdtempSync(path.join(os.tmpdir(), "moonport-drill-")));
  }

  async fleet(options: FleetOptions = {}): Promise<DrillFleet> {
    const bucket = `drill-${++this.#buckets}`;
    await createBucket(this.s3, bucket);
    const cwd = path.join(this.folder, bucket);
    fs.cpSync(path.join(packageRoot, "test/crash-drill/app"), cwd, { recursive: true });
    const endpoint = options.endpoint ?? this.proxy.endpoint;
    const nodes = NAMES.map((name) => {
      const env = { ...this.s3.env, MOONPORT_FLEET_SECRET: "what all three of the drill know" };
      const given = {
        cwd,
        name,
        bucketUrl: radosgwBucketUrl(endpoint, bucket),
        env,
        sets: { ...SETS, ...options.sets },
      };
      return new DrillNode({ ...given, ...options.node?.(name, cwd) });
    });
    const fleet = new DrillFleet(nodes);
    this.beforeStop(() => fleet.kill());
    await fleet.start();
    return fleet;
  }

  /** What came last leaves first. */
  beforeStop(leave: () => Promise<void>): void {
    this.#guests.push(leave);
  }

  /** With all fleets on it. @param keep leaves the nodes' logs and data where they are, and says where */
  async stop(keep: boolean): Promise<void> {
    for (let leave = this.#guests.pop(); leave !== undefined; leave = this.#guests.pop()) await leave();
    await this.proxy.stop();
    await this.s3.stop();
    if (keep) console.log(`logs and data of the nodes: ${this.folder}`);
    else fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class DrillFleet {
  readonly nodes: readonly DrillNode[];

  constructor(nodes: readonly DrillNode[]) {
    this.nodes = nodes;
  }

  get up(): readonly DrillNode[] {
    return this.nodes.filter(({ isUp }) => isUp);
  }

  /** Starts those that are down, and waits until they know each other. */
  async start(): Promise<void> {
    await Promise.all(this.nodes.filter(({ isUp }) => !isUp).map((node) => node.start()));
    await eventually("all nodes are live", async () => {
      const seen = await Promise.all(this.up.map(async (node) => node.client.nodes()));
      return seen.every((nodes) => nodes.filter(({ standing }) => standing === "live").length === this.nodes.length);
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.up.map((node) => node.stop()));
  }

  async kill(): Promise<void> {
    await Promise.all(this.up.map((node) => node.kill()));
  }

  node(name: string): DrillNode {
    const found = this.nodes.find((node) => node.name === name);
    if (found === undefined) throw new Error(`no node is called ${name}`);
    return found;
  }

  async arm(armed: Armed | null, nodes: readonly DrillNode[] = this.up): Promise<void> {
    await Promise.all(nodes.map((node) => node.arm(armed)));
  }

  /** The node that has the object, once it has been used. */
  async ownerOf(key: string): Promise<DrillNode> {
    return eventually(`Drill/${key} has an owner`, async (attempt) => {
      const asked = this.up[attempt % this.up.length];
      const { node } = (await asked?.client.inspect(drillObject(key))) ?? {};
      return this.up.find(({ name }) => name === node);
    });
  }

  /** Through any node, once one answers. */
  async lines(key: string, through?: DrillNode): Promise<readonly Line[]> {
    return eventually(`Drill/${key} is read`, async (attempt) => {
      const { up } = this;
      const node = through ?? up[attempt % up.length];
      return (await node?.read(key, "lines")) as readonly Line[] | undefined;
    });
  }
}

/** Asks until the answer is true or something; errors of nodes are answers that say nothing. @throws DrillBroken when it stays so */
export async function eventually<T>(
  what: string,
  ask: (attempt: number) => Promise<T | false | undefined>,
  withinMs = CALM_MAX_MS,
): Promise<T> {
  const untilMs = performance.now() + withinMs;
  let last: unknown;
  for (let attempt = 0; ; attempt++) {
    try {
      const answer = await ask(attempt);
      if (answer !== false && answer !== undefined) return answer;
      last = undefined;
    } catch (error) {
      if (!(error instanceof MoonportError)) throw error;
      last = error;
    }
    if (performance.now() >= untilMs) {
      const why = last instanceof MoonportError ? ` (${last.code}: ${last.message})` : "";
      throw new DrillBroken(`not within ${withinMs} ms: ${what}${why}`);
    }
    await sleep(50);
  }
}
