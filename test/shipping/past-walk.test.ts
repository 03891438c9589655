import { expect, it } from "vitest";
import { ObjectKeys, PAST_WALK_KEY } from "../../src/shipping/layout.js";
import { MARGIN_MS } from "../../src/shipping/retention.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";

const Note = `
local Note = class "Note"
function Note:add(text) state.store.set("text", text) return text end
function Note:bye() destroy() return "gone" end
function Note.read:text() return state.store.get("text") end
return Note
`;

const RETENTION_MS = 3_600_000;
/** When what is replaced now has gone for certain: a walk comes every eighth of retention. */
const GONE_MS = RETENTION_MS * 1.25 + MARGIN_MS;
const settings = { COMPACT_SEGMENTS_MAX: 3, SEGMENT_INLINE_BYTES_MAX: 0, PITR_RETENTION_MS: RETENTION_MS };

const start = (atomic: boolean): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, settings, bucket: { atomic } });

async function writes(node: VirtualNode, target: string): Promise<void> {
  for (let n = 0; n < 9; n++) await node.call(target, "add", `${n}`);
  await node.time.settle();
}

const pastOf = (node: VirtualNode, target: string): Promise<readonly string[]> =>
  node.keys(new ObjectKeys(node.identity(target)).past);
const all = (node: VirtualNode): Promise<readonly string[]> => node.keys("objects/");

it.each([true, false])(
  "what an object left that is destroyed, or rests, goes with retention (atomic: %s)",
  async (atomic) => {
    const node = await start(atomic);
    await writes(node, "Note/resting");
    await writes(node, "Note/ended");
    await node.call("Note/ended", "bye");
    await node.time.advance(RETENTION_MS);
    expect(await pastOf(node, "Note/ended")).not.toEqual([]);
    expect(await pastOf(node, "Note/resting")).not.toEqual([]);
    await node.time.advance(GONE_MS - RETENTION_MS);
    const ended = new ObjectKeys(node.identity("Note/ended"));
    expect(await node.keys(ended.prefix)).toEqual([ended.manifest]);
    expect(await pastOf(node, "Note/resting")).toEqual([]);
    node.crash();
    node.world.folder.removeTree("objects");
    await node.open();
    expect(await node.call("Note/resting", "text")).toBe("8");
    expect((await node.time.until(node.node.history(node.identity("Note/resting")))).eras).toHaveLength(1);
  },
);

it("nodes take turns, also those that did not live long enough for one", async () => {
  const node = await start(false);
  await writes(node, "Note/a");
  const sibling = await node.sibling();
  // What both look for when they start.
  await node.time.advance(1_000);
  const before = node.bucket.counts().list;
  await node.time.advance(GONE_MS);
  const walks = Math.ceil((8 * GONE_MS) / RETENTION_MS);
  // Each of a page, and one more for the object that had something to delete; a look at the turn is a get.
  expect(node.bucket.counts().list - before).toBeLessThanOrEqual(walks + 2);
  expect(await pastOf(node, "Note/a")).toEqual([]);
  await writes(node, "Note/b");
  for (let life = 0; life < 80; life++) {
    node.crash();
    sibling.crash();
    await node.time.advance(60_000);
    await node.open();
    await sibling.open();
  }
  await node.time.advance(65_000);
  expect(await pastOf(node, "Note/b")).toEqual([]);
});

it("an object that cannot be read keeps none of the others from its turn", async () => {
  const node = await start(false);
  for (const target of ["Note/a", "Note/b", "Note/c"]) await writes(node, target);
  const broken = new ObjectKeys(node.identity("Note/b"));
  node.bucket.corrupt(broken.manifest);
  const [past = ""] = await pastOf(node, "Note/a");
  const bytes = new Uint8Array(1);
  node.bucket.contents.apply([
    { key: past.replace("/Note/", "/note/"), bytes },
    { key: PAST_WALK_KEY, bytes },
  ]);
  await node.time.advance(GONE_MS);
  expect(await pastOf(node, "Note/a")).toEqual([]);
  expect(await pastOf(node, "Note/b")).not.toEqual([]);
  expect(await pastOf(node, "Note/c")).toEqual([]);
});

it("a walk that began by a clock which was far ahead stops the others for no longer than any other", async () => {
  const node = await start(false);
  await writes(node, "Note/a");
  const beganMs = node.world.clock.wallMs() + 365 * 24 * 3_600_000;
  node.bucket.contents.apply([{ key: PAST_WALK_KEY, bytes: Buffer.from(JSON.stringify({ beganMs })) }]);
  await node.time.advance(GONE_MS + RETENTION_MS / 8);
  expect(await pastOf(node, "Note/a")).toEqual([]);
});

it("what is still kept stays, whoever walks", async () => {
  const node = await start(true);
  await writes(node, "Note/a");
  const before = await all(node);
  await node.time.advance(RETENTION_MS - 1_000);
  expect(await all(node)).toEqual(before);
});

it("without retention nobody walks", async () => {
  const node = await VirtualNode.start({ classes: { Note }, settings: { ...settings, ...NO_PAST } });
  await writes(node, "Note/a");
  await node.time.advance(1_000);
  const { list, get } = node.bucket.counts();
  await node.time.advance(GONE_MS);
  expect(node.bucket.counts()).toMatchObject({ list, get });
});
