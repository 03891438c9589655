/** A node for the benchmark: the real world, an embedded bucket beside the data folder, a folder that is removed at the end. */
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { readAppSource } from "../../src/app-source.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";

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

  private constructor(node: MoonportNode, data: string) {
    this.node = node;
    this.data = data;
  }

  /** @param folder holds `data` and `bucket.sqlite`, from this life and earlier ones */
  static async open(folder: string, overrides: Readonly<Record<string, number>> = {}): Promise<BenchNode> {
    const data = path.join(folder, "data");
    const world = realWorld(data, silentLogger);
    const settings = resolveSettings(overrides);
    const node = await MoonportNode.open({
      world,
      bucket: openBucket(`sqlite:${path.join(folder, "bucket.sqlite")}`, world, settings),
      apps: [readAppSource("default", new RealFolder(BENCH_FOLDER))],
      settings,
      onClassError: "refuse",
    });
    return new BenchNode(node, data);
  }

  write(object: ObjectIdentity, index: number, callId?: string): Promise<CallReply> {
    const args: PlainValue[] = ["ada", index];
    return this.node.call({ object, method: "write", args, caller: CALLER, ...(callId !== undefined && { callId }) });
  }

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

/** Fresh call ids, UUIDv7 of now as clients make them; counted instead of drawn, so that making them costs the row little. */
export function callIdSource(): () => string {
  let count = 0;
  return () => {
    const time = Date.now().toString(16).padStart(12, "0");
    const low = (count++).toString(16).padStart(12, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${low}`;
  };
}
