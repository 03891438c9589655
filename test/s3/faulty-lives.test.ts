/**
 * Random lives of nodes on a real S3 server: calls, crashes, lost disks, and every fault that a network has between a node
 * and its bucket. The model decides.
 *
 * MOONPORT_S3_RUNS makes it longer; MOONPORT_SEED repeats the plans that a failure printed (as far as races can be repeated).
 */
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test, vi } from "vitest";
import { readAppSource } from "../../src/app-source.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { ledgerApp } from "../drill/ledger-app.js";
import { draft } from "../drill/ledger-plans.js";
import { startFaultProxy } from "../support/fault-proxy.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import {
  KEYS,
  type Life,
  makeFolder,
  type Plan,
  type PlannedFault,
  type Played,
  play,
  type Stage,
  type Step,
} from "./faulty-ledger.js";

const RUNS = Number(process.env.MOONPORT_S3_RUNS ?? 4);
const SEED = process.env.MOONPORT_SEED;
const LONG_MS = Math.max(120_000, RUNS * 15_000);

const settings = fc.record({
  OBJECT_ACK_GATE_MS: fc.constantFrom(60, 600),
  OBJECT_IDLE_MS: fc.constantFrom(20, 60_000),
  OBJECT_FILES_OPEN_MAX: fc.constantFrom(1, 1_000),
  OBJECT_WAL_BYTES_MAX: fc.constantFrom(16_384, 262_144),
  OBJECT_BURST_CALLS_MAX: fc.constantFrom(1, 64),
  OBJECT_SHIP_FAILURES_MAX: fc.constantFrom(1, 6),
  OBJECT_SHIP_BACKOFF_MS: fc.constantFrom(1, 20),
  OBJECT_SHIP_BACKOFF_MAX_MS: fc.constant(100),
  COMPACT_SEGMENTS_MAX: fc.constantFrom(2, 64),
  COMPACT_BYTES_MIN: fc.constantFrom(0, 65_536),
  SNAPSHOT_INLINE_BYTES_MAX: fc.constantFrom(65_536, 4_194_304),
  SNAPSHOT_PART_BYTES: fc.constant(65_536),
  SEGMENT_INLINE_BYTES_MAX: fc.constantFrom(0, 2_048, 8_192),
  MANIFEST_INLINE_BYTES_MAX: fc.constantFrom(4_096, 32_768),
  NODE_CLAIMS_MAX: fc.constantFrom(1, 100_000),
  NODE_RESIDENT_MAX: fc.constantFrom(2, 10_000),
  BUCKET_FLUSH_MS: fc.constantFrom(0, 15),
  BUCKET_TIMEOUT_MS: fc.constantFrom(300, 700),
  BUCKET_CONNECT_MS: fc.constant(2_000),
  BUCKET_REQUESTS_MAX: fc.constantFrom(2, 64),
  BUCKET_TRIES_MAX: fc.constantFrom(1, 3),
  BUCKET_PAUSE_MAX_MS: fc.constant(100),
  CALL_TIMEOUT_MS: fc.constant(5_000),
  DRAIN_MS: fc.constant(700),
});

const bytes = fc.integer({ min: 0, max: 3_000 });
const forwards = fc.boolean();
const fault: fc.Arbitrary<PlannedFault> = fc.oneof(
  fc.record({
    kind: fc.constantFrom(
      "answer_lost" as const,
      "write_lost" as const,
      "reset_before_headers" as const,
      "reset_after_status_line" as const,
    ),
  }),
  fc.record({ kind: fc.constant("lands_late" as const), afterMs: fc.integer({ min: 0, max: 600 }) }),
  fc.record({
    kind: fc.constantFrom("reset_in_request_body" as const, "reset_in_response_body" as const),
    afterBytes: bytes,
  }),
  fc.record({ kind: fc.constant("replaced" as const), status: fc.constantFrom(500, 502, 503), forwards }),
  fc.record({
    kind: fc.constant("replaced" as const),
    status: fc.constant(500),
    code: fc.constant("InternalError"),
    forwards,
  }),
  // Answers that say that nothing was done tell the truth.
  fc.constantFrom<PlannedFault>(
    { kind: "replaced", status: 503, code: "SlowDown", headers: { "retry-after": "1" } },
    { kind: "replaced", status: 429, code: "TooManyRequests" },
    { kind: "replaced", status: 409, code: "ConditionalRequestConflict" },
    { kind: "replaced", status: 403, code: "AccessDenied" },
    { kind: "replaced", status: 403, code: "RequestTimeTooSkewed" },
  ),
  fc.record({
    kind: fc.constant("slow_body" as const),
    chunkBytes: fc.constantFrom(100, 2_000),
    everyMs: fc.integer({ min: 0, max: 20 }),
  }),
  fc.record({ kind: fc.constant("latency" as const), ms: fc.integer({ min: 0, max: 300 }) }),
  fc.record({ kind: fc.constant("black_hole" as const), forwards }),
);

const key = fc.integer({ min: 0, max: KEYS.length - 1 });
const call: fc.Arbitrary<Step> = fc.record({ kind: fc.constant("call"), key, draft, withId: fc.boolean() });
const faultStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant("fault"),
  fault,
  requests: fc.integer({ min: 1, max: 3 }),
  target: fc.constantFrom("write", "manifest", "body", "read"),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: call },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("read"), key }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("wait"), ms: fc.constantFrom(0, 2, 10, 30) }) },
  { weight: 4, arbitrary: faultStep },
);

/** A write that goes wrong and has nothing after it to make it good: what was told of it is all that there is. */
const lastWrite: fc.Arbitrary<Step[]> = fc.tuple(
  fc.constant<Step>({ kind: "rest" }),
  fc.record({ kind: fc.constant("fault"), fault, requests: fc.constant(1), target: fc.constant("write") }),
  call,
  fc.constant<Step>({ kind: "rest" }),
);

const end: fc.Arbitrary<Life["end"]> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("crash"), afterMs: fc.constantFrom(0, 3, 20, 60, 200) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("stop") }) },
);
const life: fc.Arbitrary<Life> = fc.record({
  steps: fc
    .tuple(fc.array(step, { minLength: 20, maxLength: 40, size: "max" }), fc.option(lastWrite, { nil: [] }))
    .map(([steps, last]) => [...steps, ...last]),
  end,
  lost: fc.constantFrom("nothing", "objects", "everything"),
});
const plan: fc.Arbitrary<Plan> = fc.record({
  settings,
  lives: fc.array(life, { minLength: 2, maxLength: 3, size: "max" }),
});

/** Every fault once, at the last write of an object before its node crashes; no life finds the disk of the one before. */
const EVERY_FAULT: readonly PlannedFault[] = [
  { kind: "answer_lost" },
  { kind: "write_lost" },
  { kind: "reset_before_headers" },
  { kind: "lands_late", afterMs: 300 },
  { kind: "reset_in_request_body", afterBytes: 30 },
  { kind: "reset_after_status_line" },
  { kind: "reset_in_response_body", afterBytes: 0 },
  { kind: "replaced", status: 500, code: "InternalError", forwards: true },
  { kind: "replaced", status: 500, code: "InternalError" },
  { kind: "replaced", status: 503, forwards: true },
  { kind: "replaced", status: 503, code: "SlowDown" },
  { kind: "replaced", status: 409, code: "ConditionalRequestConflict" },
  { kind: "replaced", status: 403, code: "AccessDenied" },
  { kind: "slow_body", chunkBytes: 100, everyMs: 5 },
  { kind: "black_hole" },
  { kind: "black_hole", forwards: true },
];

/** As many in one life as there are objects. */
function livesOf(faults: readonly PlannedFault[]): Life[] {
  const lives: Life[] = [];
  for (let first = 0; first < faults.length; first += KEYS.length) {
    const steps = faults.slice(first, first + KEYS.length).flatMap((one, key): Step[] => {
      const add = { kind: "call", key, draft: { method: "add", rows: 1, units: 3 }, withId: false } as const;
      const meets = { kind: "fault", fault: one, requests: 1, target: "write" } as const;
      return [add, { kind: "rest" }, meets, add, { kind: "rest" }];
    });
    lives.push({ steps, end: { kind: "crash", afterMs: 0 }, lost: "everything" });
  }
  return lives;
}

const CALM = { BUCKET_TIMEOUT_MS: 1_000, BUCKET_PAUSE_MAX_MS: 100, OBJECT_ACK_GATE_MS: 10_000 };

describeOnRealS3("nodes that crash on S3 behind a network that fails", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  let stageOf: () => Promise<Stage>;
  beforeAll(() => {
    const parent = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-lives-"));
    const app = readAppSource("default", new RealFolder(ledgerApp(path.join(parent, "app"))));
    let count = 0;
    stageOf = async () => {
      const proxy = await startFaultProxy({ target: s3() });
      const bucketUrl = s3().bucketUrl(`lives/${randomUUID()}`, { endpoint: proxy.endpoint });
      return { proxy, bucketUrl, app, folder: makeFolder(parent, `${++count}`) };
    };
    return () => fs.rmSync(parent, { recursive: true });
  });

  const playOne = async (one: Plan): Promise<Played> => {
    const stage = await stageOf();
    try {
      return await play(one, stage);
    } finally {
      await stage.proxy.stop();
      fs.rmSync(stage.folder, { recursive: true, force: true });
    }
  };

  test("keep what they acknowledged when the last write before the crash met a fault, of any kind", async () => {
    const { struck } = await playOne({ settings: CALM, lives: livesOf(EVERY_FAULT) });
    expect(new Set(struck)).toEqual(new Set(EVERY_FAULT.map(({ kind }) => kind)));
  });

  test(
    "keep what they acknowledged, whole, and half of nothing",
    async () => {
      let acknowledged = 0;
      const struck = new Set<string>();
      const property = fc.asyncProperty(plan, async (one) => {
        const played = await playOne(one);
        acknowledged += played.acknowledged;
        for (const kind of played.struck) struck.add(kind);
      });
      // Smaller plans fail more seldom when it takes a race: the plan that failed is told as it is.
      const seed = SEED === undefined ? {} : { seed: Number(SEED) };
      await fc.assert(property, { numRuns: RUNS, endOnFailure: true, ...seed });
      expect(acknowledged).toBeGreaterThan(RUNS);
      expect(struck.size).toBeGreaterThan(3);
    },
    LONG_MS,
  );
});
