/** Nodes of one fleet over real sockets, in real time, behind their real doors, in this process. */
import { expect } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import { type ConnectOptions, connect, type MoonportClient } from "../../src/client/index.js";
import { FleetNode } from "../../src/fleet/fleet-node.js";
import { identityOf } from "../../src/identity.js";
import { WsNetwork } from "../../src/links/ws-network.js";
import { type Doors, openDoors } from "../../src/server/doors.js";
import { resolveSettings, type Settings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { TALLY } from "../client/support/tally.js";
import { temporaryFolder } from "../support/temporary-folder.js";

export interface RealNode {
  readonly node: FleetNode;
  readonly doors: Doors;
  readonly bucket: MemoryBucket;
}

export class RealFleet {
  readonly names: readonly string[];
  readonly #settings: Settings;
  readonly #running = new Map<string, RealNode>();
  readonly #clients: MoonportClient[] = [];

  private constructor(names: readonly string[], settings: Readonly<Record<string, number>>) {
    this.names = names;
    this.#settings = resolveSettings({
      NODE_TTL_MS: 900,
      NODE_TTL_MARGIN_MS: 200,
      BUCKET_TIMEOUT_MS: 500,
      DRAIN_MS: 2_000,
      ...settings,
    });
  }

  /** Resolves when each knows where clients reach the others. */
  static async start(
    names: readonly string[],
    settings: Readonly<Record<string, number>> = {},
    classes: Readonly<Record<string, string>> = { Tally: TALLY },
  ): Promise<RealFleet> {
    const fleet = new RealFleet(names, settings);
    const contents = new MemoryContents();
    for (const name of names) fleet.#running.set(name, await fleet.#open(name, contents, classes));
    for (const name of names) {
      const known = async (): Promise<number> =>
        (await fleet.at(name).node.nodes()).filter(({ clientAddress }) => clientAddress !== undefined).length;
      await expect.poll(known, { timeout: 10_000, interval: 10 }).toBe(names.length);
    }
    return fleet;
  }

  at(name: string): RealNode {
    const found = this.#running.get(name);
    if (found === undefined) throw new Error(`${name} does not run`);
    return found;
  }

  client(name: string, options: ConnectOptions = {}): MoonportClient {
    const client = connect(this.at(name).doors.url.replace(/^http/, "ws"), { reconnectDelayMs: 10, ...options });
    this.#clients.push(client);
    return client;
  }

  async ownerSeenBy(name: string, className: string, key: string): Promise<string> {
    return (await this.at(name).node.inspect(identityOf("default", className, key))).node ?? "";
  }

  /** Gone without a word: nothing of the fleet reaches it or comes from it any more. */
  async die(name: string): Promise<void> {
    const { node, bucket } = this.at(name);
    bucket.faults.hold();
    await node.fleet.links.stop();
  }

  async stop(name: string): Promise<void> {
    const { node, doors } = this.at(name);
    this.#running.delete(name);
    await doors.stop();
    await node.stop();
  }

  async close(): Promise<void> {
    for (const client of this.#clients) void client.close();
    const running = [...this.#running.values()];
    for (const { bucket } of running) bucket.faults.clear();
    await Promise.all(running.map(({ doors }) => doors.stop()));
    await Promise.all(running.map(({ node }) => node.stop()));
  }

  async #open(name: string, contents: MemoryContents, texts: Readonly<Record<string, string>>): Promise<RealNode> {
    const settings = this.#settings;
    const world = realWorld(temporaryFolder(), silentLogger);
    const bucket = new MemoryBucket(world, { contents, atomic: false, timeoutMs: settings.BUCKET_TIMEOUT_MS });
    const classes = Object.entries(texts).map(([className, text]) => ({
      app: "default",
      name: className,
      file: `classes/${className}.lua`,
      text,
    }));
    const node = await FleetNode.open(
      { world, bucket, apps: [{ app: "default", classes }], settings, onClassError: "refuse" },
      {
        node: name,
        zone: "z",
        weight: 1,
        network: new WsNetwork({ host: "127.0.0.1", port: 0, settings }),
        secret: "a secret of nodes on loopback",
      },
    );
    const { session } = node.local;
    const doors = await openDoors({ node, session, settings, world, host: "127.0.0.1", port: 0 });
    node.serveClientsAt(doors.url);
    return { node, doors, bucket };
  }
}
