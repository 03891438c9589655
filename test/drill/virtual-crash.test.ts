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
import { ledgerApp } from "./ledger-app.js";
import { draft } from "./ledger-plans.js";
import { KEYS, type Life, type Plan, type Played, play, type Step } from "./virtual-ledger.js";

const RUNS_DEFAULT = 60;
const RUNS = Number(process.env.MOONPORT_CRASH_RUNS ?? RUNS_DEFAULT);
const SEED = process.env.MOONPORT_SEED;
const PATH = process.env.MOONPORT_PATH;
const STEPS_MAX = 24;
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
  PITR_RETENTION_MS: fc.constantFrom(-1, 0, 1_000),
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
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("read" as const), key }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(0, 1, 4, 15, 40, 100, 1_000) }),
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
  const life = fc.record({ steps: fc.array(step, { minLength: 4, maxLength: STEPS_MAX }), end, wiped: fc.boolean() });
  return fc.record({
    atomic: fc.boolean(),
    latencyMs: fc.constantFrom(0, 3, 30),
    settings,
    isSliced: fc.boolean(),
    lives: fc.array(life, { minLength: 1, maxLength: livesMax }),
  });
}

const stop = fc.record({ kind: fc.constant("stop" as const) });
const crash = fc.record({
  kind: fc.constant("crash" as const),
  afterStep: fc.integer({ min: 0, max: STEPS_MAX }),
  points: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 300 })),
});

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

/** Calls come faster than flights return, so that at most points one is under way, one is due and somebody waits. */
const BUSY: readonly Step[] = [
  { kind: "call", key: 0, draft: { method: "add", rows: 2, units: 300 }, withId: true },
  { kind: "wait", ms: 90 },
  { kind: "call", key: 0, draft: { method: "add", rows: 1, units: 3 }, withId: false },
  { kind: "wait", ms: 5 },
  { kind: "call", key: 0, draft: { method: "rewrite", back: 2, units: 5 }, withId: true },
  { kind: "read", key: 0 },
  { kind: "wait", ms: 30 },
  { kind: "call", key: 0, draft: { method: "refuse", rows: 2, units: 2 }, withId: false },
  { kind: "call", key: 0, draft: { method: "add", rows: 1, units: 9 }, withId: false },
  { kind: "wait", ms: 35 },
  { kind: "call", key: 0, draft: { method: "drop", back: 3 }, withId: false },
  { kind: "call", key: 1, draft: { method: "add", rows: 1, units: 1 }, withId: true },
];

test.each([
  ["every point", "an embedded", true, 1],
  // A remote one has more of them; the long run takes them all.
  [RUNS > RUNS_DEFAULT ? "every point" : "every third point", "a remote", false, RUNS > RUNS_DEFAULT ? 1 : 3],
] as const)("a crash at %s of a busy life on %s bucket", async (_points, _kind, atomic, stride) => {
  const playOne = player();
  const busy = (end: Life["end"]): Plan => ({
    atomic,
    latencyMs: 20,
    settings: { OBJECT_IDLE_MS: 25, COMPACT_SEGMENTS_MAX: 2, COMPACT_BYTES_MIN: 0 },
    lives: [{ steps: BUSY, end, wiped: false }],
  });
  const { points } = await playOne(busy({ kind: "stop" }));
  for (let point = 1; point <= points; point += stride) {
    await playOne(busy({ kind: "crash", afterStep: 0, points: point })).catch((cause: unknown) => {
      throw new Error(`crash at point ${point} of ${points}`, { cause });
    });
  }
});

test("a read that is asking the bucket when its node stops opens no file behind its back", async () => {
  const life = (steps: Step[]): Life => ({ steps, end: { kind: "stop" }, wiped: false });
  const add: Step = { kind: "call", key: 0, draft: { method: "add", rows: 1, units: 1 }, withId: true };
  // A file left open would be locked, and the last life could not open it.
  const lives = [life([add, { kind: "wait", ms: 1_000 }]), life([{ kind: "read", key: 0 }])];
  const { acknowledged } = await player()({ atomic: true, latencyMs: 30, settings: {}, lives });
  expect(acknowledged).toBe(1);
});

test("the same plan gives the same trace", async () => {
  const plans = planOf(fc.oneof(...calm, rough), fc.oneof(crash, stop), 2);
  const playOne = player();
  for (const plan of fc.sample(plans, { seed: 7, numRuns: 3 })) {
    const first = await playOne(plan);
    expect(await playOne(plan)).toEqual(first);
    expect(first.trace.length).toBeGreaterThan(1);
  }
});
