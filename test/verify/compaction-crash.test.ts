/**
 * A node dies at a request of a compaction, or of a restore in place: before it leaves, after it took effect but before its answer, or so that it takes
 * effect only when the next node owns the object. Nothing acknowledged is lost, everything can be restored, and one compaction
 * later, or the first after retention, nothing is left over.
 *
 * Each kind of compaction is rehearsed once to see which requests it makes; then the same calls are played again for each of
 * them.
 */
import { afterEach, describe, expect, it } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, type Manifest } from "../../src/shipping/manifest.js";
import { MARGIN_MS, pastIn } from "../../src/shipping/retention.js";
import { bodyKeysOf } from "../../src/shipping/sweep.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import type { VerifyReport } from "../../src/verify/report.js";
import { verifyBucket } from "../../src/verify/verify-bucket.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { appOf } from "../support/virtual-node.js";
import { Note, wellWith } from "./support.js";

type HowItEnds =
  /** It never leaves. */
  | "unsent"
  /** It takes effect, and its answer is not heard. */
  | "unheard"
  /** It takes effect when the next node has the object. */
  | "late"
  /** It takes effect when the next node has written to it. */
  | "later";

interface Request {
  readonly operation: string;
  readonly changes: boolean;
}

/** The node's line to its bucket. Once cut, nothing leaves and no answer arrives. */
class Line {
  readonly bucket: Bucket;
  readonly requests: Request[] = [];
  isCut = false;
  /** Of the request it was cut at, when that is to take effect late. */
  late: (() => Promise<unknown>) | undefined;
  #cutAt: { readonly request: number; readonly how: HowItEnds } | undefined;

  constructor(bucket: Bucket) {
    this.bucket = {
      name: bucket.name,
      atomic: bucket.atomic,
      start: async () => {},
      stop: async () => {},
      get: (key) => this.#carry("get", () => bucket.get(key)),
      write: (writes) => this.#carry("write", () => bucket.write(writes)),
      writeStream: async (key, parts) => {
        // A request is on its way when its last byte is: a node that dies earlier has sent nothing that counts.
        const bytes = Buffer.concat(await all(parts));
        return this.#carry("write_stream", () => bucket.writeStream(key, one(bytes)));
      },
      readStream: (key) => this.#carry("read_stream", () => bucket.readStream(key)),
      list: (prefix, options) => this.#carry("list", () => bucket.list(prefix, options)),
      delete: (keys) => this.#carry("delete", () => bucket.delete(keys)),
    };
  }

  /** Counted from now on. */
  cutAt(request: number, how: HowItEnds): void {
    this.requests.length = 0;
    this.#cutAt = { request, how };
  }

  #carry<T>(operation: string, request: () => Promise<T>): Promise<T> {
    if (this.isCut) return new Promise(() => {});
    this.requests.push({ operation, changes: ["write", "write_stream", "delete"].includes(operation) });
    const { how } = this.#cutAt?.request === this.requests.length ? this.#cutAt : {};
    if (how !== undefined) this.isCut = true;
    if (how === "late" || how === "later") this.late = request;
    if (how === "unheard") request().catch(() => {});
    if (how !== undefined) return new Promise(() => {});
    return new Promise((resolve, reject) => {
      request().then(
        (answer) => this.isCut || resolve(answer),
        (error: unknown) => this.isCut || reject(error),
      );
    });
  }
}

interface Kind {
  readonly atomic: boolean;
  readonly retentionMs: number;
}

interface Scenario {
  readonly what: string;
  readonly settings: Readonly<Record<string, number>>;
  readonly atomic: readonly boolean[];
  /** Bytes of each call, from the first on; then a few. */
  readonly growth: readonly number[];
  /** Compactions before the one that is cut off. */
  readonly compactionsBefore: number;
  /** The node takes the object over from one that died. */
  readonly isTakenOver?: boolean;
  /** The last call destroys the object. */
  readonly isEnd?: boolean;
  /** In place of the last call the object becomes what it was. */
  readonly isRestore?: boolean;
  /** What it leaves of the history before, or the rehearsal was in vain. */
  readonly keeps: "nothing" | "the snapshot";
  readonly operations: readonly string[];
}

const EACH = [true, false];
const RETENTION_MS = 600_000;
/** Beside the manifest, also where the bucket could take them in it. */
const BESIDE = { SEGMENT_INLINE_BYTES_MAX: 0, COMPACT_SEGMENTS_MAX: 3, COMPACT_BYTES_MIN: 1_000_000 };
/** Anew as soon as the segments weigh a tenth of the database. */
const ANEW = { SEGMENT_INLINE_BYTES_MAX: 0, COMPACT_BYTES_MIN: 0, COMPACT_SHARE_PERCENT: 10 };
const STREAMED = { ...ANEW, SNAPSHOT_INLINE_BYTES_MAX: 65_536, SNAPSHOT_PART_BYTES: 65_536 };

const scenarios: readonly Scenario[] = [
  {
    what: "a snapshot written whole",
    settings: ANEW,
    atomic: EACH,
    growth: [],
    compactionsBefore: 1,
    keeps: "nothing",
    operations: ["write", "delete"],
  },
  {
    what: "a snapshot written whole, of an object taken over",
    settings: ANEW,
    atomic: EACH,
    growth: [],
    compactionsBefore: 1,
    isTakenOver: true,
    keeps: "nothing",
    operations: ["get", "write", "read_stream", "get", "write", "list", "delete"],
  },
  {
    what: "a streamed snapshot",
    settings: STREAMED,
    atomic: EACH,
    growth: Array.from({ length: 40 }, () => 40_000),
    compactionsBefore: 1,
    keeps: "nothing",
    operations: ["write_stream", "write", "delete"],
  },
  {
    what: "a merged segment",
    settings: BESIDE,
    atomic: EACH,
    growth: [200_000],
    compactionsBefore: 2,
    keeps: "the snapshot",
    operations: ["write", "delete"],
  },
  {
    what: "a merged segment in the place of some that travelled in the manifest",
    settings: { MANIFEST_INLINE_BYTES_MAX: 4_000 },
    atomic: [false],
    growth: [200_000],
    compactionsBefore: 2,
    keeps: "the snapshot",
    operations: ["write"],
  },
  {
    what: "a tombstone",
    settings: ANEW,
    atomic: EACH,
    growth: [],
    compactionsBefore: 1,
    isEnd: true,
    keeps: "nothing",
    operations: ["write", "delete"],
  },
  {
    what: "a restore in place",
    settings: BESIDE,
    atomic: EACH,
    growth: [],
    compactionsBefore: 1,
    isRestore: true,
    keeps: "nothing",
    operations: ["list", "read_stream", "get", "write", "list", "delete"],
  },
];

const object = identityOf("default", "Note", "a");
const keys = new ObjectKeys(object);

/** One object, on one node after the other. */
class Play {
  readonly time = new VirtualTime();
  readonly bucket: MemoryBucket;
  readonly #scenario: Scenario;
  readonly #retentionMs: number;
  #world: VirtualWorld;
  #node!: MoonportNode;
  line!: Line;
  /** Lines of the object as calls were answered; undefined: it was destroyed. */
  acknowledged: string[] | undefined = [];

  private constructor(scenario: Scenario, { atomic, retentionMs }: Kind) {
    this.#scenario = scenario;
    this.#retentionMs = retentionMs;
    this.#world = new VirtualWorld({ time: this.time, root: temporaryFolder(), seed: 1 });
    const cloud = new VirtualWorld({ time: this.time, root: "/nonexistent", seed: 2 });
    this.bucket = new MemoryBucket(cloud, { atomic, latencyMs: 2 });
  }

  static async begin(scenario: Scenario, kind: Kind): Promise<Play> {
    const play = new Play(scenario, kind);
    played.push(play);
    await play.bucket.start();
    await play.open();
    return play;
  }

  async open(): Promise<void> {
    const line = new Line(this.bucket);
    this.line = line;
    const opening = MoonportNode.open({
      world: this.#world,
      bucket: line.bucket,
      apps: [appOf({ Note })],
      settings: resolveSettings({
        HEALTH_INTERVAL_MS: 0,
        PITR_RETENTION_MS: this.#retentionMs,
        ...this.#scenario.settings,
      }),
      onClassError: "refuse",
      observer: () => {},
    });
    this.#node = await this.time.until(opening);
  }

  /** The machine is gone, and its disk with it; what had left it is where it was sent. */
  async die(): Promise<void> {
    this.line.isCut = true;
    this.#world = this.#world.crash();
    this.#world.folder.removeTree("objects");
    await this.time.advance(100);
  }

  end(): void {
    this.#world.revoke();
  }

  /** @returns whether it was answered before the line was cut */
  async call(method: string, ...args: PlainValue[]): Promise<boolean> {
    return await this.#answered(this.#node.call({ object, method, args, caller: { kind: "client" } }));
  }

  async #answered(answer: Promise<unknown>): Promise<boolean> {
    let isAnswered = false;
    const { line } = this;
    answer.then(
      () => {
        isAnswered = true;
      },
      () => {},
    );
    while (!isAnswered && !line.isCut) await this.time.advance(1);
    // An answer that was on its way when the line was cut is heard.
    await this.time.settle();
    return isAnswered;
  }

  /** The `n`-th call, which is the same in each playing. */
  async add(n: number): Promise<void> {
    const text = `${n}${"x".repeat(this.#scenario.growth[n] ?? 0)}`;
    if (await this.call("add", text)) this.acknowledged = [...(this.acknowledged ?? []), text];
  }

  async destroy(): Promise<void> {
    if (await this.call("bye")) this.acknowledged = undefined;
  }

  /** To the oldest state that the manifest names. @returns how many lines it had */
  async restore(): Promise<number> {
    const { snapshot, segments } = this.standing() ?? { segments: [] };
    const seq = snapshot?.seq ?? segments[0]?.toSeq ?? 0;
    const isAnswered = await this.#answered(this.#node.restore(object, { at: { seq } }));
    if (isAnswered) this.acknowledged = this.acknowledged?.slice(0, seq);
    return seq;
  }

  async lines(): Promise<PlainValue> {
    const read = { object, method: "all", args: [], caller: { kind: "client" } } as const;
    return (await this.time.until(this.#node.call(read))).value;
  }

  standing(): Manifest | undefined {
    const found = this.bucket.contents.get(keys.manifest);
    return found && decodeManifest(object.id, found.bytes);
  }

  /** Keys that neither the manifest nor a past one inside retention accounts for. */
  unneeded(): readonly string[] {
    const stored = this.bucket.contents.list(keys.prefix, undefined, Number.MAX_SAFE_INTEGER).keys;
    const past = pastIn(stored).filter(({ untilMs }) => untilMs >= this.#world.clock.wallMs() - RETENTION_MS);
    const manifests = [keys.manifest, ...past.map(({ key }) => key)];
    const needed = new Set(manifests);
    for (const manifest of manifests) {
      const bytes = this.bucket.contents.get(manifest)?.bytes ?? new Uint8Array();
      for (const key of bodyKeysOf(keys, decodeManifest(object.id, bytes))) needed.add(key);
    }
    return stored.filter((key) => !needed.has(key));
  }

  async verified(): Promise<VerifyReport> {
    const world = new VirtualWorld({ time: this.time, root: temporaryFolder(), seed: 3 });
    const settings = resolveSettings();
    return this.time.until(
      verifyBucket({ bucket: this.bucket, world, settings, scope: { kind: "all" }, past: true, jobs: 1 }),
    );
  }
}

const played: Play[] = [];
afterEach(() => {
  for (const play of played.splice(0)) play.end();
});

function isCompacted(before: Manifest | undefined, after: Manifest | undefined): boolean {
  return before !== undefined && after !== undefined && after.segments.length <= before.segments.length;
}

/** Calls until so many compactions have landed. @returns how many calls it took */
async function untilCompacted(play: Play, times: number, from = 0): Promise<number> {
  let calls = from;
  for (let left = times; left > 0; ) {
    const before = play.standing();
    await play.add(calls++);
    if (isCompacted(before, play.standing())) left--;
    if (calls > from + 1_000) throw new Error("it is never compacted");
  }
  return calls;
}

/** Everything before the call that compacts. */
async function prepare(play: Play, { isTakenOver = false }: Scenario, calls: number): Promise<void> {
  for (let n = 0; n < calls; n++) await play.add(n);
  if (!isTakenOver) return;
  await play.time.advance(100);
  await play.die();
  await play.open();
}

/** @returns of a restore how many lines it leaves */
async function compact(play: Play, { isEnd = false, isRestore = false }: Scenario, calls: number): Promise<number> {
  if (isRestore) return await play.restore();
  if (isEnd) await play.destroy();
  else await play.add(calls);
  return Number.POSITIVE_INFINITY;
}

/** How many calls come before the one that compacts, and which requests that one makes. */
async function rehearse(scenario: Scenario, kind: Kind): Promise<{ calls: number; requests: Request[] }> {
  const { compactionsBefore, isEnd = false, isRestore = false, keeps } = scenario;
  const first = await Play.begin(scenario, kind);
  const calls =
    isEnd || isRestore
      ? (await untilCompacted(first, compactionsBefore)) + 1
      : (await untilCompacted(first, compactionsBefore + 1)) - 1;
  const again = await Play.begin(scenario, kind);
  await prepare(again, scenario, calls);
  await again.time.advance(100);
  const before = again.standing();
  again.line.requests.length = 0;
  await compact(again, scenario, calls);
  await again.time.advance(100);
  const kept = again.standing()?.snapshot?.seq === before?.snapshot?.seq ? "the snapshot" : "nothing";
  expect([isCompacted(before, again.standing()), kept]).toEqual([true, keeps]);
  return { calls, requests: [...again.line.requests] };
}

const kinds = scenarios.flatMap((scenario) =>
  scenario.atomic.flatMap((atomic) =>
    [0, RETENTION_MS].map((retentionMs) => {
      const how = `${atomic ? "an atomic" : "another"} bucket ${retentionMs === 0 ? "without" : "with"} retention`;
      return [scenario.what, how, scenario, { atomic, retentionMs }] as const;
    }),
  ),
);

describe.each(kinds)("%s, on %s", (_what, _how, scenario, kind) => {
  it("may be cut off at any of its requests", async () => {
    const { calls, requests } = await rehearse(scenario, kind);
    const operations = requests.map(({ operation }) => operation);
    // A body beside the manifest is a write of its own where the two cannot land together.
    const expected = kind.retentionMs === 0 ? scenario.operations : keeping(scenario);
    expect(operations.filter((operation, index) => operation !== operations[index - 1])).toEqual(expected);
    for (const [index, { operation, changes }] of requests.entries()) {
      const ends: readonly HowItEnds[] = changes ? ["unsent", "unheard", "late", "later"] : ["unsent", "unheard"];
      for (const how of ends) {
        await cutOff(scenario, kind, calls, index + 1, how).catch((cause: unknown) => {
          throw new Error(`cut at request ${index + 1} of ${requests.length} (${operation}), ${how}`, { cause });
        });
      }
    }
  });
});

/** With retention nothing is deleted yet; a sweep looks at the oldest past manifest. */
function keeping({ operations }: Scenario): readonly string[] {
  const rest = operations.filter((operation) => operation !== "delete");
  return operations.includes("list") ? [...rest, "get"] : rest;
}

async function cutOff(scenario: Scenario, kind: Kind, calls: number, request: number, how: HowItEnds): Promise<void> {
  const play = await Play.begin(scenario, kind);
  await prepare(play, scenario, calls);
  await play.time.advance(100);
  const acknowledgedBefore = play.acknowledged;
  play.line.cutAt(request, how);
  const restored = await compact(play, scenario, calls);
  await play.time.advance(100);
  expect(play.line.isCut).toBe(true);
  const { acknowledged } = play;
  const { late } = play.line;
  await play.die();
  expect(await play.verified()).toMatchObject({ objects: 1, damaged: { count: 0 }, unread: { count: 0 } });

  await play.open();
  const lines = (await play.lines()) as string[];
  if (acknowledged === undefined) expect(lines).toEqual([]);
  else if (scenario.isRestore === true) {
    expect([acknowledged, acknowledged.slice(0, restored)]).toContainEqual(lines);
  } else expect(possible(scenario, acknowledged, acknowledgedBefore, lines)).toContainEqual(lines);
  // To read it, the next node has claimed it.
  if (late !== undefined && how === "late") await play.time.until(late());
  await play.add(calls + 1);
  if (late !== undefined && how === "later") await play.time.until(late());
  expect(await play.verified()).toMatchObject({ objects: 1, restorable: 1, damaged: { count: 0 } });

  if (kind.retentionMs > 0) await play.time.advance(RETENTION_MS + MARGIN_MS);
  await untilCompacted(play, 1, calls + 2);
  await play.time.advance(100);
  if (kind.retentionMs > 0) expect(play.unneeded()).toEqual([]);
  const { garbage, ...rest } = await play.verified();
  const { garbage: none, ...well } = wellWith({ restorable: 1 });
  expect(rest).toEqual(well);
  // What a stalled writer put down after the next node had looked for such is left to a later look.
  if (how === "later") expect(garbage.bodies).toBeLessThanOrEqual(1);
  else expect(garbage).toEqual(none);
}

/** What the object may hold: what was acknowledged, and of the call that was cut off all or nothing. */
function possible(
  { isEnd = false }: Scenario,
  acknowledged: readonly string[],
  before: readonly string[] | undefined,
  lines: readonly string[],
): readonly (readonly string[])[] {
  if (isEnd) return [acknowledged, []];
  const isAnswered = acknowledged.length > (before?.length ?? 0);
  return isAnswered
    ? [acknowledged]
    : [acknowledged, [...acknowledged, ...lines.slice(acknowledged.length, acknowledged.length + 1)]];
}

async function all(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const found: Uint8Array[] = [];
  for await (const part of parts) found.push(part);
  return found;
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
