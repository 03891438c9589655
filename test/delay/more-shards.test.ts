/** A fleet that gets more delay shards: what comes new goes to the new ones, what was taken before ends where it is. */
import { expect, it } from "vitest";
import type { SendRequest } from "../../src/delay/contract.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { appOf, VirtualNode } from "../support/virtual-node.js";
import { ALARM, POST } from "./classes.js";

const HOUR_MS = 3_600_000;
const KEYS = [..."abcdefghijklmnop"];
const [FEW, MORE] = [new ShardMap([4]), new ShardMap([4, 32])];

it("an object's new shard and its earlier ones follow from its partition", () => {
  const ids = KEYS.map((key) => `default/Post/${key}`);
  for (const id of ids) {
    expect(MORE.shardOf(id) % 4).toBe(FEW.shardOf(id));
    expect(MORE.earlierOf(id)).toEqual(MORE.shardOf(id) < 4 ? [] : [FEW.shardOf(id)]);
    expect(FEW.earlierOf(id)).toEqual([]);
  }
  expect(FEW.adopt([4, 32])).toBe(true);
  expect(FEW.adopt([4, 16])).toBe(false);
  expect(FEW.count).toBe(32);
});

it("commands and timers from before are kept, each once, and an id is known wherever it was taken", async () => {
  const virtual = await VirtualNode.start({ classes: { Post: POST, Alarm: ALARM }, settings: { DELAY_SHARDS: 4 } });
  const send = (key: string, more: Partial<SendRequest> = {}) => {
    const request = { app: "default", className: "Post", key, method: "count", args: [], ...more };
    return virtual.time.until(virtual.node.delay.send(request));
  };
  for (const key of KEYS) await send(key, { id: `before-${key}`, delayMs: HOUR_MS });
  for (const key of KEYS) await virtual.call(`Alarm/${key}`, "every", 600, "all");
  await virtual.stop();
  await virtual.open(undefined, { DELAY_SHARDS: 32 });
  // The same command once more, and another one of its id, are what they were.
  for (const key of KEYS) await send(key, { id: `before-${key}`, delayMs: HOUR_MS });
  await expect(send("a", { id: "before-a", method: "take", args: ["x"] })).rejects.toMatchObject({
    code: "id_conflict",
  });
  for (const key of KEYS) await send(key, { id: `after-${key}`, delayMs: HOUR_MS });
  const listed = await virtual.time.until(virtual.node.delay.list({}));
  expect(listed).toHaveLength(2 * KEYS.length);
  for (const { id, shard, object } of listed) {
    expect([id, shard]).toEqual([id, id.startsWith("before") ? MORE.shardOf(object) % 4 : MORE.shardOf(object)]);
  }
  expect(Math.max(...listed.map(({ shard }) => shard))).toBeGreaterThan(3);
  expect(await virtual.time.until(virtual.node.delay.cancel("before-b"))).toBe("done");
  await virtual.time.advance(HOUR_MS + 30_000);
  for (const key of KEYS)
    expect([key, await virtual.call(`Post/${key}`, "counted")]).toEqual([key, key === "b" ? 1 : 2]);
  for (const key of KEYS) expect([key, await virtual.call(`Alarm/${key}`, "rang")]).toMatchObject([key, { length: 6 }]);
  // Each object's next wake stands in its new shard alone.
  const tallies = await virtual.time.until(virtual.node.delay.tallies());
  const wakes = tallies.filter(({ wakes }) => wakes > 0);
  expect(wakes.reduce((sum, one) => sum + one.wakes, 0)).toBe(KEYS.length);
  const homes = new Set(KEYS.map((key) => MORE.shardOf(`default/Alarm/${key}`)));
  expect(new Set(wakes.map(({ shard }) => shard))).toEqual(homes);
  await virtual.stop();
});

it("nodes that run learn of it from a node that joins with a higher number", async () => {
  const settings = { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, HEALTH_INTERVAL_MS: 0, DELAY_SHARDS: 4 };
  const fleet = new SimulatedFleet({ apps: [appOf({ Post: POST })], settings });
  try {
    await fleet.start("n1");
    const shardsOf = async (name: string) => (await fleet.time.until(fleet.node(name).node.delay.tallies())).length;
    expect(await shardsOf("n1")).toBe(4);
    await fleet.start("n2", { settings: { DELAY_SHARDS: 32 } });
    await fleet.time.advance(3_000);
    expect([await shardsOf("n1"), await shardsOf("n2")]).toEqual([32, 32]);
    for (const key of KEYS) {
      const request = { app: "default", className: "Post", key, method: "count", args: [], delayMs: 5_000 };
      await fleet.time.until(fleet.node("n1").node.delay.send(request));
    }
    fleet.node("n2").crash();
    await fleet.time.advance(20_000);
    const listed = await fleet.time.until(fleet.node("n1").node.delay.list({}));
    expect(listed.map(({ state }) => state)).toEqual(KEYS.map(() => "done"));
  } finally {
    fleet.close();
  }
});
