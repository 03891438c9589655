import { describe, expect, it, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { supersededKeys } from "../../src/shipping/collection.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, encodeManifest, firstManifest, type Manifest } from "../../src/shipping/manifest.js";
import { COMPACTIONS_PER_SWEEP, horizonOf, MARGIN_MS, pastIn, retentionMs } from "../../src/shipping/retention.js";
import { bodyKeysOf, isLeftBehind } from "../../src/shipping/sweep.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";

const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
function Note:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) return text end
function Note:bye() destroy() return "gone" end
function Note.read:count() return state.sql.one("SELECT count(*) AS n FROM lines").n end
return Note
`;

const object = identityOf("default", "Note", "a");
const keys = new ObjectKeys(object);
/** Segments stand beside the manifest, so that there is something to collect. */
const BESIDE = {
  COMPACT_SEGMENTS_MAX: 2,
  COMPACT_BYTES_MIN: 1_000_000,
  SEGMENT_INLINE_BYTES_MAX: 0,
};

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, settings: { ...BESIDE, ...NO_PAST }, bucket: { atomic: false }, ...more });

const manifestWith = (more: Partial<Manifest>): Manifest => ({
  ...firstManifest(object.id, "session", "rid"),
  ...more,
});

async function standing(node: VirtualNode): Promise<Manifest> {
  const found = await node.time.until(node.bucket.get(keys.manifest));
  if (found === undefined) throw new Error("the object was never written");
  return decodeManifest(object.id, found.bytes);
}

/** Calls until a flight made the history shorter. */
async function compact(node: VirtualNode): Promise<void> {
  await node.call("Note/a", "add", "x");
  for (let before = -1, now = 0; now > before; ) {
    before = (await standing(node)).segments.length;
    await node.call("Note/a", "add", "x");
    now = (await standing(node)).segments.length;
  }
  await node.time.settle();
}

async function put(node: VirtualNode, ...bodies: string[]): Promise<void> {
  for (const key of bodies) await node.time.until(node.bucket.write([{ key, bytes: new Uint8Array(3) }]));
}

async function unnamed(node: VirtualNode): Promise<string[]> {
  const named = new Set([keys.manifest, ...bodyKeysOf(keys, await standing(node))]);
  return (await node.keys(keys.prefix)).filter((key) => !named.has(key));
}

describe("what a compaction replaced, without retention", () => {
  const segment = (epoch: number, fromSeq: number, toSeq: number) => ({ epoch, fromSeq, toSeq, bytes: 9 });

  it("is what the manifest before named and the one that stands does not", () => {
    const before = manifestWith({
      snapshot: { epoch: 1, seq: 4, bytes: 9 },
      segments: [segment(1, 5, 5), { ...segment(1, 6, 6), body: new Uint8Array(9) }, segment(2, 7, 8)],
    });
    const merged = manifestWith({ snapshot: { epoch: 1, seq: 4, bytes: 9 }, segments: [segment(2, 5, 9)] });
    expect(supersededKeys(keys, before, merged)).toEqual([`${keys.prefix}e1/5-5.seg`, `${keys.prefix}e2/7-8.seg`]);
    expect(supersededKeys(keys, before, before)).toEqual([]);
    const ended = manifestWith({ destroyed: true });
    expect(supersededKeys(keys, before, ended)).toEqual(bodyKeysOf(keys, before));
  });

  it("is deleted by name: a hot object's compactions list nothing", async () => {
    const node = await start();
    const before = node.bucket.counts().list;
    for (let round = 0; round < 20; round++) {
      await compact(node);
      expect(await unnamed(node)).toEqual([]);
    }
    const { list, delete: deletes } = node.bucket.counts();
    // The test's own listings, one a round.
    expect(list - before).toBe(20);
    expect(deletes).toBeGreaterThanOrEqual(19);
  });

  it("is deleted when the object ends, too", async () => {
    const node = await start();
    await compact(node);
    await node.call("Note/a", "bye");
    await node.time.settle();
    expect(await node.keys(keys.prefix)).toEqual([keys.manifest]);
  });
});

describe("what no manifest names", () => {
  test.each([
    ["of an older epoch, however far it goes", { epoch: 2, toSeq: 99 }, true],
    ["of this epoch, within what is covered", { epoch: 3, toSeq: 10 }, true],
    ["of this epoch, beyond what is covered: a flight may be under way", { epoch: 3, toSeq: 11 }, false],
    ["of a newer epoch: somebody else has the object by now", { epoch: 4, toSeq: 1 }, false],
  ])("%s", (_what, body, isGone) => {
    expect(isLeftBehind(body, { epoch: 3, seq: 10 })).toBe(isGone);
  });

  it("leaves at the first compaction after the object was taken over, and what may yet be named stays", async () => {
    const node = await start();
    await compact(node);
    node.crash();
    const stalled = keys.segment({ epoch: 1, fromSeq: 500, toSeq: 900 });
    const covered = keys.snapshot({ epoch: 1, seq: 1 });
    const underWay = keys.segment({ epoch: 2, fromSeq: 900, toSeq: 901 });
    const newer = keys.snapshot({ epoch: 3, seq: 1 });
    await put(node, stalled, covered, underWay, newer);
    await node.open();
    await compact(node);
    expect(await unnamed(node)).toEqual([underWay, newer]);
  });

  it("is looked for again after a deletion failed", async () => {
    const node = await start();
    await compact(node);
    node.bucket.faults.failNext(1, { kind: "refused" }, ["delete"]);
    await compact(node);
    expect(await unnamed(node)).not.toEqual([]);
    await compact(node);
    expect(await unnamed(node)).toEqual([]);
  });

  it("and was put down by a stalled writer later is found within a bounded number of compactions", async () => {
    const node = await start();
    await compact(node);
    node.crash();
    await node.open();
    await compact(node);
    const late = keys.snapshot({ epoch: 1, seq: 900 });
    await put(node, late);
    await compact(node);
    expect(await unnamed(node)).toEqual([late]);
    for (let count = 0; count < COMPACTIONS_PER_SWEEP; count++) await compact(node);
    expect(await unnamed(node)).toEqual([]);
  });
});

const RETENTION_MS = 3_600_000;
const SWEEPS_MAX = 20;
const OVERDUE_MS = RETENTION_MS + MARGIN_MS + 1;

async function pastOf(node: VirtualNode): Promise<readonly string[]> {
  return pastIn(await node.keys(keys.past)).map(({ seq, isEnd }) => `${seq}${isEnd ? " end" : ""}`);
}

/** The manifest that stands, with all past ones: what may be in the bucket. */
async function needed(node: VirtualNode): Promise<string[]> {
  const past = await node.keys(keys.past);
  const manifests = [keys.manifest, ...past].map((key) => {
    const found = node.bucket.contents.get(key);
    return decodeManifest(object.id, found?.bytes ?? new Uint8Array());
  });
  return [...new Set([keys.manifest, ...past, ...manifests.flatMap((one) => bodyKeysOf(keys, one))])].sort();
}

describe.each([
  ["an atomic", true],
  ["another", false],
])("with retention, on %s bucket", (_kind, atomic) => {
  const startKeeping = (): Promise<VirtualNode> =>
    start({ settings: { ...BESIDE, PITR_RETENTION_MS: RETENTION_MS }, bucket: { atomic } });

  it("what a compaction replaced stays, with the manifest that named it, and goes when it is older", async () => {
    const node = await startKeeping();
    for (let round = 0; round < 5; round++) await compact(node);
    expect(await pastOf(node)).toHaveLength(5);
    expect([...(await node.keys(keys.prefix))].sort()).toEqual(await needed(node));
    await node.time.advance(RETENTION_MS / 2);
    const young = (await standing(node)).seq;
    await compact(node);
    await node.time.advance(RETENTION_MS / 2 + MARGIN_MS + 1);
    await compact(node);
    const [oldest] = await pastOf(node);
    expect(Number(oldest)).toBeGreaterThanOrEqual(young);
    expect([...(await node.keys(keys.prefix))].sort()).toEqual(await needed(node));
  });

  it("what is kept of a destroyed object goes with the next life's compactions", async () => {
    const node = await startKeeping();
    await compact(node);
    await node.call("Note/a", "bye");
    expect((await pastOf(node)).at(-1)).toMatch(/ end$/);
    await node.time.advance(OVERDUE_MS);
    await compact(node);
    expect((await pastOf(node)).some((past) => past.endsWith("end"))).toBe(false);
    expect([...(await node.keys(keys.prefix))].sort()).toEqual(await needed(node));
  });

  it("a compaction costs at most one request more than its flight, and listings come by the time that passes", async () => {
    const node = await startKeeping();
    await compact(node);
    const before = node.bucket.counts();
    let calls = 0;
    while ((await pastOf(node)).length < 40) {
      await node.call("Note/a", "add", "x");
      calls++;
    }
    const after = node.bucket.counts();
    // A body and a manifest for each flight where they cannot go together; the loop above lists once a round.
    expect(after.write - before.write - calls * (atomic ? 1 : 2)).toBeLessThanOrEqual(atomic ? 0 : 40);
    expect(after.list - before.list - calls - 1).toBe(0);
    expect(after.delete - before.delete).toBe(0);
  });

  it("retention that is turned off takes what was kept with it", async () => {
    const node = await startKeeping();
    for (let round = 0; round < 3; round++) await compact(node);
    await node.stop();
    const settings = { ...BESIDE, ...NO_PAST };
    await node.open(undefined, settings);
    await compact(node);
    expect([...(await node.keys(keys.prefix))].sort()).toEqual(await needed(node));
    expect(await pastOf(node)).toEqual([]);
  });

  it("very many keys are looked through in bounded steps, until all that is overdue has gone", async () => {
    const node = await startKeeping();
    await compact(node);
    node.crash();
    await node.time.advance(OVERDUE_MS);
    const bytes = encodeManifest(manifestWith({ epoch: 1, seq: 1 }));
    const numbers = Array.from({ length: 12_000 }, (_, n) => n + 1);
    const bodies = numbers.map((n) => keys.segment({ epoch: 1, fromSeq: n, toSeq: n }));
    const past = numbers
      .slice(0, 2_500)
      .map((n) => keys.pastManifest({ seq: 1, epoch: 1, untilMs: 10_000 + n, isEnd: false }));
    node.bucket.contents.apply([...bodies, ...past].map((key) => ({ key, bytes })));
    await node.open();
    let sweeps = 0;
    for (; sweeps < SWEEPS_MAX; sweeps++) {
      const before = node.bucket.counts().list;
      await compact(node);
      expect(node.bucket.counts().list - before).toBeLessThanOrEqual(11);
      if ((await node.keys(keys.bodies)).length < 100 && (await pastOf(node)).length < 50) break;
    }
    expect(sweeps).toBeLessThan(SWEEPS_MAX);
    expect([...(await node.keys(keys.prefix))].sort()).toEqual(await needed(node));
  });
});

describe("the horizon", () => {
  const past = (seq: number, epoch: number, untilMs: number) => {
    const name = { seq, epoch, untilMs, isEnd: false };
    return { ...name, key: keys.pastManifest(name) };
  };
  const landed = manifestWith({ epoch: 3, seq: 50 });

  it("is the first that stood until retention began: what came before it may go", () => {
    const listed = [past(10, 1, 100), past(20, 1, 200), past(30, 2, 300)];
    expect(horizonOf(listed, true, 200, landed)).toEqual({
      expired: [listed[0]],
      standing: listed[1],
      isPartial: false,
    });
    expect(horizonOf(listed, true, 301, landed)).toEqual({ expired: listed, standing: landed, isPartial: false });
    expect(horizonOf([], true, 301, landed).standing).toBe(landed);
  });

  it("is the last one seen while there are more behind it", () => {
    const listed = [past(10, 1, 100), past(20, 1, 200)];
    const horizon = horizonOf(listed, false, 301, landed);
    expect(horizon).toEqual({ expired: [listed[0]], standing: listed[1], isPartial: true });
  });

  it("does not go beyond what whoever asks has landed", () => {
    const listed = [past(10, 1, 100), past(60, 4, 200)];
    expect(horizonOf(listed, true, 301, landed)).toEqual({ expired: [listed[0]], standing: landed, isPartial: false });
  });

  it("never takes a younger one for expired because a clock went back", () => {
    const listed = [past(10, 1, 500), past(20, 2, 100)];
    expect(horizonOf(listed, true, 300, landed).expired).toEqual([]);
  });
});

it("retention is an hour in the embedded bucket and a week elsewhere, unless it is set", () => {
  expect(retentionMs({ PITR_RETENTION_MS: -1 }, { atomic: true })).toBe(3_600_000);
  expect(retentionMs({ PITR_RETENTION_MS: -1 }, { atomic: false })).toBe(7 * 86_400_000);
  expect(retentionMs({ PITR_RETENTION_MS: 5 }, { atomic: false })).toBe(5);
});
