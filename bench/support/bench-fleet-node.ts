/** A node of a fleet for the benchmark: real links over loopback, a journal on the disk, one embedded bucket that all share. */
import path from "node:path";
import { readAppSource } from "../../src/app-source.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { FleetNode } from "../../src/fleet/fleet-node.js";
import type { ObjectIdentity } from "../../src/identity.js";
import { WsNetwork } from "../../src/links/ws-network.js";
import type { CallReply, Consistency } from "../../src/node-api.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { BENCH_FOLDER } from "./bench-node.js";

/** Answers with nothing: what a link itself costs. */
export const ECHO = "bench.echo";

export interface BenchFleetOptions {
  /** Holds the bucket and every node's data. */
  readonly folder: string;
  readonly node: string;
  readonly settings?: Readonly<Record<string, number>>;
}

export class BenchFleetNode {
  readonly node: FleetNode;

  private constructor(node: FleetNode) {
    this.node = node;
  }

  static async open({ folder, node, settings: overrides = {} }: BenchFleetOptions): Promise<BenchFleetNode> {
    const world = realWorld(path.join(folder, node), silentLogger);
    const settings = resolveSettings(overrides);
    const bucket = openBucket(`sqlite:${path.join(folder, "bucket.sqlite")}?shared=1`, world, settings);
    const opened = await FleetNode.open(
      {
        world,
        bucket,
        apps: [readAppSource("default", new RealFolder(BENCH_FOLDER))],
        settings,
        onClassError: "refuse",
      },
      {
        node,
        zone: node,
        weight: 1,
        network: new WsNetwork({ host: "127.0.0.1", port: 0, settings }),
        secret: "the benchmark's own",
        handle: (peers) => peers.handle(ECHO, () => null),
      },
    );
    return new BenchFleetNode(opened);
  }

  write(object: ObjectIdentity, index: number): Promise<CallReply> {
    return this.node.call({ object, method: "write", args: ["ada", index], caller: { kind: "client" } });
  }

  look(object: ObjectIdentity, consistency?: Consistency): Promise<CallReply> {
    const request = { object, method: "look", args: [], caller: { kind: "client" } } as const;
    return this.node.call(consistency === undefined ? request : { ...request, consistency });
  }

  close(): Promise<void> {
    return this.node.stop();
  }
}
