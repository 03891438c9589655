/** The node behind the rows on very many delayed commands. Their shards are given them in batches, as a fleet's nodes do. */
import { setTimeout as pause } from "node:timers/promises";
import type { CommandRequest } from "../../src/delay/command.js";
import { DELAY_SHARD } from "../../src/delay/shard-class.js";
import { identityOf, partitionOf, SYSTEM_APP } from "../../src/identity.js";
import { encodeValue } from "../../src/store/value-codec.js";
import type { PlainValue } from "../../src/values.js";
import { BenchNode } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { cpuTime, percentileOf } from "../support/measure.js";
import { Rings } from "../support/rings.js";

export interface PendingMemory {
  readonly rssBytes: number;
  readonly heapBytes: number;
}

export interface DueTogether {
  /** From the first to the last. */
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly lost: number;
  readonly cpuUs: number;
}

const OBJECTS = 1_000;
const FILES_OPEN_MAX = 3_000;
const BATCH = 256;
/** So many come first, so that what a node makes once is not counted. */
const WARM_UP = 20_000;
const SETTLE_MS = 300;
const LEAD_MS = 1_000;
const YEAR_MS = 365 * 86_400_000;
/** After it, what has not come is lost. */
const PATIENCE_MS = 600_000;

const rings = new Rings();
let bench: BenchNode | undefined;
let given = 0;

const commands = {
  open: async (folder: string): Promise<null> => {
    bench = await BenchNode.open(folder, { OBJECT_FILES_OPEN_MAX: FILES_OPEN_MAX }, undefined, rings.observer);
    return null;
  },
  /** What so many cost that wait for next year. */
  pending: async (count: number): Promise<PendingMemory> => {
    const dueMs = Date.now() + YEAR_MS;
    await give(WARM_UP, () => dueMs);
    const before = await settled();
    await give(count, () => dueMs);
    const after = await settled();
    return { rssBytes: after.rss - before.rss, heapBytes: after.heapUsed - before.heapUsed };
  },
  /** So many that fall due within one second. */
  due: async (count: number): Promise<DueTogether> => {
    const perMs = (await timeOf(() => give(WARM_UP, () => Date.now() + YEAR_MS))) / WARM_UP;
    const firstMs = Date.now() + LEAD_MS + 2 * perMs * count;
    const lateMs: number[] = [];
    const heard = rings.heard(count, 0, lateMs);
    await give(count, (index) => firstMs + (index * 1_000) / count);
    await pause(Math.max(0, firstMs - Date.now()));
    const before = cpuTime();
    const beganMs = performance.now();
    const over = new AbortController();
    await Promise.race([heard, pause(PATIENCE_MS, undefined, { signal: over.signal }).catch(() => {})]);
    over.abort();
    const seconds = (performance.now() - beganMs) / 1_000;
    const cpuUs = (cpuTime().allUs - before.allUs) / count;
    const sorted = Float64Array.from(lateMs).sort();
    const [p50Ms, p99Ms] = [percentileOf(sorted, 50), percentileOf(sorted, 99)];
    return { seconds, p50Ms, p99Ms, lost: count - lateMs.length, cpuUs };
  },
};

export type PendingCommands = typeof commands;

serve(commands, async () => bench?.close());

/** To their shards. */
async function give(count: number, dueMs: (index: number) => number): Promise<void> {
  const batches = new Map<number, CommandRequest[]>();
  const shards = bench?.settings.DELAY_SHARDS ?? 1;
  for (let index = 0; index < count; index++) {
    const key = `t${index % OBJECTS}`;
    const shard = partitionOf(identityOf("default", "Timed", key).id) % shards;
    const batch = batches.get(shard) ?? [];
    batches.set(shard, batch);
    batch.push(commandOf(key, dueMs(index)));
    if (batch.length >= BATCH) await append(shard, batch.splice(0));
  }
  for (const [shard, batch] of batches) await append(shard, batch);
}

function commandOf(key: string, dueMs: number): CommandRequest {
  return {
    id: `bench-${given++}`,
    app: "default",
    className: "Timed",
    key,
    method: "ring",
    args: encodeValue([dueMs / 1_000], Number.POSITIVE_INFINITY, "the arguments"),
    argsHash: null,
    plan: { kind: "at", atMs: Math.ceil(dueMs) },
    expiresMs: null,
    caller: {},
    outcome: null,
    triedAs: null,
  };
}

async function append(shard: number, batch: readonly CommandRequest[]): Promise<void> {
  const entries = batch.map((command) => ({ kind: "schedule", command }));
  await bench?.node.call({
    object: identityOf(SYSTEM_APP, DELAY_SHARD, String(shard)),
    method: "append",
    args: [entries as unknown as PlainValue, 0],
    caller: { kind: "system" },
  });
}

async function timeOf(run: () => Promise<void>): Promise<number> {
  const beganMs = performance.now();
  await run();
  return performance.now() - beganMs;
}

async function settled(): Promise<NodeJS.MemoryUsage> {
  await pause(SETTLE_MS);
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage();
}
