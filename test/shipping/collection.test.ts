import { describe, expect, it, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { bodyKeysOf, isLeftBehind, LISTING_EVERY, supersededKeys } from "../../src/shipping/collection.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, firstManifest, type Manifest } from "../../src/shipping/manifest.js";
import { VirtualNode } from "../support/virtual-node.js";

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
const settings = { COMPACT_SEGMENTS_MAX: 2, COMPACT_BYTES_MIN: 1_000_000, SEGMENT_INLINE_BYTES_MAX: 0 };

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, settings, bucket: { atomic: false }, ...more });

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

describe("what a compaction replaced", () => {
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
    for (let round = 0; round < 20; round++) {
      await compact(node);
      expect(await unnamed(node)).toEqual([]);
    }
    const { list, delete: deletes } = node.bucket.counts();
    // The test's own listings, one a round; and those of the node's start.
    expect(list - 20).toBeLessThanOrEqual(3);
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
    for (let count = 0; count < LISTING_EVERY; count++) await compact(node);
    expect(await unnamed(node)).toEqual([]);
  });
});
