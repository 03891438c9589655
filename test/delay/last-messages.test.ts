/** Messages of objects that are destroyed: they leave before the object does. */
import { expect, it } from "vitest";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";
import { POST } from "./classes.js";

const LAST = ["one from default/Post/a", "two from default/Post/a"];
const LATER = "an hour later from default/Post/a";

async function start(options: VirtualNodeOptions = {}): Promise<VirtualNode> {
  return VirtualNode.start({ classes: { Post: POST }, ...options });
}

async function isThere(virtual: VirtualNode, key: string): Promise<boolean> {
  const { state } = await virtual.time.until(virtual.node.inspect(virtual.identity(`Post/${key}`)));
  return state !== "destroyed" && state !== "unwritten";
}

it.each([true, false])(
  "a call that sends and destroys its object sends, and destroys it (atomic bucket: %s)",
  async (atomic) => {
    const virtual = await start({ bucket: { atomic, latencyMs: 3 } });
    await virtual.call("Post/a", "count");
    expect(await virtual.call("Post/a", "farewell", "b", ["one", "two"])).toBe("gone");
    await virtual.time.advance(1_000);
    expect(await virtual.call("Post/b", "got")).toEqual(LAST);
    expect(await isThere(virtual, "a")).toBe(false);
    await virtual.time.advance(3_600_000);
    expect(await virtual.call("Post/b", "got")).toEqual([...LAST, LATER]);
    // Its timer ended with it.
    expect(await virtual.call("Post/a", "counted")).toBe(0);
    await virtual.stop();
    expect(await virtual.keys("owing/")).toEqual([]);
  },
);

it("what is asked of it meanwhile waits, and meets what comes after it", async () => {
  const virtual = await start({ bucket: { latencyMs: 3 } });
  await virtual.call("Post/a", "count");
  const farewell = virtual.start("Post/a", "farewell", ["b", ["one", "two"]]);
  const count = virtual.start("Post/a", "count");
  const counted = virtual.start("Post/a", "counted");
  expect((await virtual.time.until(farewell)).value).toBe("gone");
  await virtual.time.until(count);
  expect((await virtual.time.until(counted)).value).toBe(1);
  await virtual.time.advance(1_000);
  expect(await virtual.call("Post/b", "got")).toEqual(LAST);
  expect(await virtual.call("Post/a", "counted")).toBe(1);
});

it("messages of calls before that have not left when the operator destroys it are sent", async () => {
  const virtual = await start({ bucket: { latencyMs: 3 } });
  await virtual.call("Post/a", "count");
  const mail = virtual.start("Post/a", "mail", ["b", ["one", "two"]]);
  const destroyed = virtual.time.until(virtual.node.destroy(virtual.identity("Post/a")));
  await Promise.all([virtual.time.until(mail), destroyed]);
  await virtual.time.advance(1_000);
  expect(await virtual.call("Post/b", "got")).toEqual(LAST);
  expect(await isThere(virtual, "a")).toBe(false);
});

it("a receiver that cannot be reached gets them by its delay shard, and the object goes", async () => {
  const virtual = await start({ settings: { DELAY_BACKOFF_MS: 1_000 } });
  await virtual.call("Post/b", "refuse", true);
  await virtual.call("Post/a", "farewell", "b", ["one", "two"]);
  await virtual.time.advance(5_000);
  expect(await isThere(virtual, "a")).toBe(false);
  await virtual.call("Post/b", "refuse", false);
  await virtual.time.advance(60_000);
  expect(((await virtual.call("Post/b", "got")) as string[]).sort()).toEqual(LAST);
});

it("an object is put back to when it was destroyed as what it was then", async () => {
  const virtual = await start();
  await virtual.call("Post/a", "count");
  await virtual.call("Post/a", "farewell", "b", ["one", "two"]);
  await virtual.time.advance(1_000);
  await virtual.time.until(virtual.node.restore(virtual.identity("Post/a"), { at: { seq: 2 } }));
  expect(await virtual.call("Post/a", "counted")).toBe(1);
  await virtual.time.advance(7_200_000);
  expect(await virtual.call("Post/b", "got")).toEqual([...LAST, LATER]);
});

it("a crash at any point loses none of them, and sends none twice", async () => {
  for (let steps = 0, hasCrashed = true; hasCrashed; steps++) {
    const virtual = await start({ bucket: { atomic: steps % 2 === 0, latencyMs: 3 } });
    await virtual.call("Post/a", "count");
    let isOver = false;
    let isGone = false;
    hasCrashed = false;
    virtual.time.afterSteps(steps, () => {
      if (isOver) return;
      hasCrashed = true;
      virtual.crash();
    });
    virtual.start("Post/a", "farewell", ["b", ["one", "two"]]).then(
      () => {
        isGone = true;
      },
      () => {},
    );
    await virtual.time.advance(300);
    isOver = true;
    if (hasCrashed) await virtual.open();
    await virtual.time.advance(10_000);
    const got = ((await virtual.call("Post/b", "got")) ?? []) as string[];
    const left = await isThere(virtual, "a");
    expect(left ? [] : LAST).toEqual([...got].sort());
    if (isGone) expect(left).toBe(false);
    await virtual.time.advance(3_600_000);
    if (!left) expect(await virtual.call("Post/b", "got")).toEqual([...got, LATER]);
    await virtual.stop();
    expect(await virtual.keys("owing/")).toEqual([]);
  }
}, 120_000);

it("an object ends at once when word of its last message came while the call ran that destroys it", async () => {
  const virtual = await start();
  await virtual.call("Post/a", "count");
  virtual.world.lookCostMs = 0.5;
  const calls = [virtual.start("Post/a", "mail", ["b", ["one"]]), virtual.start("Post/a", "end_after", ["c"])];
  await virtual.time.until(Promise.all(calls));
  const endedMs = virtual.time.nowMs;
  const inspecting = virtual.node.inspect(virtual.identity("Post/a"));
  expect(await virtual.time.until(inspecting)).toMatchObject({ state: "destroyed" });
  expect(virtual.time.nowMs - endedMs).toBeLessThan(1_000);
  expect(await virtual.call("Post/b", "got")).toEqual(["one from default/Post/a"]);
});
