/**
 * Crashes at every await, and every way in which a bucket fails, under virtual time: each run is a plan, and the same plan
 * gives the same run.
 *
 * MOONPORT_CRASH_RUNS makes it longer; a failure prints the seed and path of its smallest plan, which MOONPORT_SEED and
 * MOONPORT_PATH repeat.
 */
import fs from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readAppSource } from "../../src/app-source.js";
import type { BucketOperation, Fault } from "../../src/bucket/memory-faults.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ledgerApp } from "./ledger-node.js";
import { draft } from "./ledger-plans.js";
import { KEYS, type Life, type Plan, type Played, play, type Step } from "./virtual-ledger.js";

const RUNS = Number(process.env.MOONPORT_CRASH_RUNS ?? 60);
const SEED = process.env.MOONPORT_SEED;
const PATH = process.env.MOONPORT_PATH;
const LONG_MS = Math.max(60_000, RUNS * 1_000);

/** Small bounds, so that a short plan meets idle eviction, checkpoints, snapshots, full mailboxes and a gate that runs out. */
const settings = fc.record({
  OBJECT_ACK_GATE_MS: fc.constantFrom(20, 400),
  OBJECT_IDLE_MS: fc.constantFrom(10, 60_000),
  OBJECT_FILES_OPEN_MAX: fc.constantFrom(1, 1_000),
  OBJECT_WAL_BYTES_MAX: fc.constantFrom(16_384, 262_144),
  OBJECT_BURST_CALLS_MAX: fc.constantFrom(1, 3, 64),
  OBJECT_MAILBOX_MAX: fc.constantFrom(2, 128),
  OBJECT_SHIP_FAILURES_MAX: fc.constantFrom(1, 6),
  OBJECT_SHIP_BACKOFF_MS: fc.constantFrom(1, 50),
  COMPACT_SEGMENTS_MAX: fc.constantFrom(2, 64),
  COMPACT_BYTES_MIN: fc.constantFrom(0, 65_536),
  SNAPSHOT_INLINE_BYTES_MAX: fc.constantFrom(65_536, 4_194_304),
  SNAPSHOT_PART_BYTES: fc.constant(65_536),
  DELTA_CACHE_BYTES: fc.constantFrom(0, 33_554_432),
  NODE_CLAIMS_MAX: fc.constantFrom(1, 100_000),
  NODE_RESIDENT_MAX: fc.constantFrom(2, 10_000),
  CALL_TIMEOUT_MS: fc.constant(5_000),
  DRAIN_MS: fc.constant(3_000),
});

const key = fc.integer({ min: 0, max: KEYS.length - 1 });
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({ kind: fc.constantFrom("refused" as const, "lost_request" as const, "lost_answer" as const) }),
  fc.record({ kind: fc.constant("late" as const), landsAfterMs: fc.integer({ min: 0, max: 1_000 }) }),
);
const operations: fc.Arbitrary<BucketOperation[]> = fc.constantFrom<BucketOperation[]>(
  ["write"],
  ["write", "write_stream"],
  ["get", "read_stream"],
  ["get", "write", "write_stream", "read_stream", "list", "delete"],
);
const calm: fc.WeightedArbitrary<Step>[] = [
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("call" as const), key, draft, withId: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("read" as const), key }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(0, 0, 1, 7, 100, 1_000) }),
  },
];
const rough: fc.WeightedArbitrary<Step> = {
  weight: 2,
  arbitrary: fc.record({
    kind: fc.constant("fault" as const),
    fault,
    requests: fc.integer({ min: 1, max: 4 }),
    operations,
  }),
};

function planOf(step: fc.Arbitrary<Step>, end: fc.Arbitrary<Life["end"]>, livesMax: number): fc.Arbitrary<Plan> {
  const life = fc.record({ steps: fc.array(step, { minLength: 4, maxLength: 24 }), end, wiped: fc.boolean() });
  return fc.record({
    atomic: fc.boolean(),
    latencyMs: fc.constantFrom(0, 3),
    settings,
    lives: fc.array(life, { minLength: 1, maxLength: livesMax }),
  });
}

const stop = fc.record({ kind: fc.constant("stop" as const) });
const crash = fc.record({ kind: fc.constant("crash" as const), point: fc.integer({ min: 1, max: 800 }) });

const folders = (): (() => string) => {
  const parent = temporaryFolder();
  let count = 0;
  return () => {
    const folder = `${parent}/${++count}`;
    fs.mkdirSync(folder);
    return folder;
  };
};

/** Plays each plan in a folder of its own, which goes with the run. */
function player(): (plan: Plan) => Promise<Played> {
  const next = folders();
  const app = readAppSource("default", new RealFolder(ledgerApp()));
  return async (plan) => {
    const folder = next();
    try {
      return await play(plan, app, folder);
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  };
}

async function holdsFor(plans: fc.Arbitrary<Plan>, runs: number): Promise<void> {
  const playOne = player();
  const property = fc.asyncProperty(plans, async (plan) => void (await playOne(plan)));
  await fc.assert(property, {
    numRuns: runs,
    ...(SEED !== undefined && { seed: Number(SEED) }),
    ...(PATH !== undefined && { path: PATH }),
  });
}

test(
  "a node that crashes anywhere, its bucket failing in every way, keeps what it acknowledged",
  async () => {
    await holdsFor(planOf(fc.oneof(...calm, rough), fc.oneof(crash, stop), 3), RUNS);
  },
  LONG_MS,
);

test(
  "a failing bucket alone loses nothing",
  async () => {
    await holdsFor(planOf(fc.oneof(...calm, rough), stop, 1), Math.ceil(RUNS / 4));
  },
  LONG_MS,
);

test(
  "a crash at each point of one life, one after the other",
  async () => {
    const seed = SEED === undefined ? 20_260_101 : Number(SEED);
    const [drawn] = fc.sample(planOf(fc.oneof(...calm), stop, 1), { seed, numRuns: 1 });
    if (drawn?.lives[0] === undefined) throw new Error("no plan was drawn");
    const [life] = drawn.lives;
    const playOne = player();
    const crashingAt = (point: number): Plan => ({ ...drawn, lives: [{ ...life, end: { kind: "crash", point } }] });
    const { points } = await playOne(drawn);
    const stride = Math.max(1, Math.floor(points / RUNS));
    for (let point = 1; point <= points; point += stride) {
      await playOne(crashingAt(point)).catch((cause: unknown) => {
        throw new Error(`MOONPORT_SEED=${seed}, crash at point ${point} of ${points}`, { cause });
      });
    }
  },
  LONG_MS,
);

test("the same plan gives the same trace", async () => {
  const plans = planOf(fc.oneof(...calm, rough), fc.oneof(crash, stop), 2);
  const playOne = player();
  for (const plan of fc.sample(plans, { seed: 7, numRuns: 3 })) {
    const first = await playOne(plan);
    expect(await playOne(plan)).toEqual(first);
    expect(first.trace.length).toBeGreaterThan(1);
  }
});
