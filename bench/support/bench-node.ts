/** A node for the benchmark: the real world, an embedded bucket beside the data folder, a folder that is removed at the end. */
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { readAppSource } from "../../src/app-source.js";
import type { Bucket } from "../../src/bucket/bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import type { Observer } from "../../src/observation.js";
import { resolveSettings, type Settings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";

/** The repository's `bench/`, whose `classes/` and `units/` are the benchmark's: the compiled files lie in `dist/bench/support`. */
export const BENCH_FOLDER = fileURLToPath(new URL("../../../bench", import.meta.url));

const CALLER = { kind: "client" } as const;

/** A folder of its own under `parent`; whoever asked removes it. */
export function scratchFolder(parent: string): string {
  return mkdtempSync(path.join(parent, "moonport-bench-"));
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

export class BenchNode {
  readonly node: MoonportNode;
  readonly data: string;
  readonly world: World;
  readonly settings: Settings;
  readonly bucket: Bucket;

  private constructor(node: MoonportNode, data: string, parts: Pick<BenchNode, "world" | "settings" | "bucket">) {
    this.node = node;
    this.data = data;
    this.world = parts.world;
    this.settings = parts.settings;
    this.bucket = parts.bucket;
  }

  /**
   * @param folder holds `data` and `bucket.sqlite`, from this life and earlier ones
   * @param bucketUrl in place of the file
   * @param observer told of what objects do
   */
  static async open(
    folder: string,
    overrides: Readonly<Record<string, number>> = {},
    bucketUrl = `sqlite:${path.join(folder, "bucket.sqlite")}`,
    observer?: Observer,
  ): Promise<BenchNode> {
    const data = path.join(folder, "data");
    const world = realWorld(data, silentLogger);
    const settings = resolveSettings(overrides);
    const bucket = openBucket(bucketUrl, world, settings);
    const node = await MoonportNode.open({
      world,
      bucket,
      apps: [readAppSource("default", new RealFolder(BENCH_FOLDER))],
      settings,
      onClassError: "refuse",
      ...(observer && { observer }),
    });
    return new BenchNode(node, data, { world, settings, bucket });
  }

  write(object: ObjectIdentity, index: number, callId?: string): Promise<CallReply> {
    const args: PlainValue[] = ["ada", index];
    return this.node.call({ object, method: "write", args, caller: CALLER, ...(callId !== undefined && { callId }) });
  }

  /** Runs the method. */
  lookAnew(object: ObjectIdentity): Promise<CallReply> {
    return this.node.call({ object, method: "look_anew", args: [], caller: CALLER });
  }

  /** May be answered from memory. */
  look(object: ObjectIdentity): Promise<CallReply> {
    return this.node.call({ object, method: "look", args: [], caller: CALLER });
  }

  close(): Promise<void> {
    return this.node.stop();
  }
}

export function workObject(key: string): ObjectIdentity {
  return identityOf("default", "Work", key);
}

/** Of the class whose writes are published to a directory. */
export function listedObject(key: string): ObjectIdentity {
  return identityOf("default", "Listed", key);
}

export function workObjects(prefix: string, count: number): ObjectIdentity[] {
  return Array.from({ length: count }, (_, index) => workObject(`${prefix}-${index}`));
}

/** One write on every object, 64 at a time. */
export async function writeAll(bench: BenchNode, objects: readonly ObjectIdentity[]): Promise<void> {
  let next = 0;
  const loop = async (): Promise<void> => {
    for (let object = objects[next++]; object !== undefined; object = objects[next++]) await bench.write(object, next);
  };
  await Promise.all(Array.from({ length: 64 }, loop));
}
