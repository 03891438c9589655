/** Where objects come to live when nodes join and go, while they are called all the time. */
import { describe, expect, it } from "vitest";
import { shardObject } from "../../src/directory/shard-contract.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { append, call, listAt, startFleet, subscribe, until } from "./watching.js";

const OBJECTS = [..."abcdefgh"].map((key) => identityOf("default", "Counter", key));

/** Objects that live on another node than the ring wants. */
function misplaced(fleet: SimulatedFleet, objects: readonly ObjectIdentity[] = OBJECTS): readonly string[] {
  const { ring } = fleet.node("n0").node.fleet;
  return objects
    .filter((object) => {
      const [home = ""] = ring.homesOf(partitionOf(object.id));
      return [...fleet.nodes].some(([name, { node }]) => name !== home && node.local.holds(object));
    })
    .map(({ id }) => id);
}

function holdersOf(fleet: SimulatedFleet, object: ObjectIdentity): readonly string[] {
  return [...fleet.nodes].filter(([, { node }]) => node.local.holds(object)).map(([name]) => name);
}

/** A doer whose home is `node`. */
function homedAt(fleet: SimulatedFleet, node: string): ObjectIdentity {
  const { ring } = fleet.node(node).node.fleet;
  const all = Array.from({ length: 100 }, (_, index) => identityOf("default", "Doer", `sink${index}`));
  return all.find(({ id }) => ring.homesOf(partitionOf(id))[0] === node) as ObjectIdentity;
}

/** Asks for every object through `through` again and again, a few milliseconds after each answer, until it is told to end. */
function asked(fleet: SimulatedFleet, through: string): { end(): Promise<void> } {
  let isOver = false;
  const { node } = fleet.node(through);
  const asking = OBJECTS.map(async (object: ObjectIdentity) => {
    while (!isOver) {
      await node.inspect(object);
      await new Promise<void>((resolve) => void fleet.time.after(3, resolve));
    }
  });
  return {
    end: async () => {
      isOver = true;
      await fleet.time.until(Promise.all(asking));
    },
  };
}

it.each([1, 2])("objects that are asked for all the time go to the node that joined (seed %i)", async (seed) => {
  const fleet = await startFleet(1, {}, {}, { seed });
  for (const object of OBJECTS) await call(fleet, "n0", object, "add", [1]);
  const callers = asked(fleet, "n0");
  await fleet.start("n1");
  await until(fleet, () => fleet.node("n0").node.fleet.members.length === 2);
  await fleet.time.advance(3_000);
  await callers.end();
  expect(misplaced(fleet)).toEqual([]);
});

it("an object that is claimed while another node joins goes to it when all have seen that", async () => {
  // A claim takes two requests: those that are begun shortly before n0 sees n1 are done after it.
  const fleet = await startFleet(1, { NODE_TTL_MS: 3_000 }, {}, { bucketLatencyMs: { min: 150, max: 150 } });
  const { node } = fleet.node("n0");
  const objects: ObjectIdentity[] = [];
  const calls: Promise<unknown>[] = [];
  const joining = fleet.add("n1").start();
  let looks = 0;
  await until(fleet, () => {
    if (looks++ % 4 === 0) {
      const object = identityOf("default", "Counter", `early-${objects.length}`);
      objects.push(object);
      calls.push(node.call({ object, method: "add", args: [1], caller: { kind: "client" }, callId: object.id }));
    }
    return node.fleet.members.length === 2;
  });
  await fleet.time.until(joining);
  await fleet.time.until(Promise.all(calls));
  await fleet.time.advance(5_000);
  expect(misplaced(fleet, objects)).toEqual([]);
});

it("a node that is drained gives all its objects away and takes none, until that is undone", async () => {
  const fleet = await startFleet(3);
  for (const object of OBJECTS) await call(fleet, "n0", object, "add", [1]);
  const callers = asked(fleet, "n1");
  const { node } = fleet.node("n0");
  expect(await fleet.time.until(node.drain({ node: "n1" }))).toEqual({ node: "n1", left: 0 });
  await fleet.time.advance(3_000);
  expect(OBJECTS.filter((object) => fleet.node("n1").node.local.holds(object))).toEqual([]);
  expect(misplaced(fleet)).toEqual([]);
  expect((await fleet.node("n1").node.status()).fleet).toMatchObject({ isLeaving: true, nodes: 3 });
  await fleet.time.until(node.drain({ node: "n1", undo: true }));
  await fleet.time.advance(3_000);
  await callers.end();
  expect(OBJECTS.filter((object) => fleet.node("n1").node.local.holds(object))).not.toEqual([]);
  expect(misplaced(fleet)).toEqual([]);
});

it("a drain ends when its time is over, and tells what is left", async () => {
  const settings = { DRAIN_MS: 1_000, HANDOFF_CONCURRENCY: 1, NODE_TTL_MS: 3_000 };
  const fleet = await startFleet(2, settings, {}, { bucketLatencyMs: { min: 100, max: 100 } });
  const { node } = fleet.node("n0");
  const objects = Array.from({ length: 16 }, (_, index) => identityOf("default", "Counter", `many-${index}`));
  await fleet.time.until(
    Promise.all(
      objects.map((object) =>
        node.call({ object, method: "add", args: [1], caller: { kind: "client" }, callId: object.id }),
      ),
    ),
  );
  const begunMs = fleet.time.nowMs;
  const { left } = await fleet.time.until(node.drain({}));
  expect(left).toBeGreaterThan(0);
  // One that is on its way goes.
  expect(fleet.time.nowMs - begunMs).toBeLessThan(2 * settings.DRAIN_MS);
});

it("drained nodes serve what the last of the others has left", async () => {
  const fleet = await startFleet(3);
  const objects = OBJECTS.slice(0, 4);
  const { node } = fleet.node("n0");
  for (const name of ["n1", "n2"]) await fleet.time.until(node.drain({ node: name }));
  for (const object of objects) await call(fleet, "n1", object, "add", [1]);
  const isReady = async (): Promise<boolean> => (await fleet.node("n1").node.status()).fleet?.isLeaving === false;
  expect(await isReady()).toBe(false);
  fleet.node("n0").crash();
  for (const [index, object] of objects.entries()) {
    expect(await call(fleet, index % 2 === 0 ? "n1" : "n2", object, "add", [1])).toBe(2);
  }
  for (const name of ["n1", "n2"]) {
    expect(objects.filter((object) => fleet.node(name).node.local.holds(object))).not.toEqual([]);
  }
  expect(await isReady()).toBe(true);
});

it("while its node stops, what is asked of an object through that node is answered", async () => {
  const fleet = await startFleet(3);
  for (const object of OBJECTS) await call(fleet, "n0", object, "add", [1]);
  const callers = asked(fleet, "n1");
  const { node } = fleet.node("n1");
  await fleet.time.until(node.leave());
  expect(OBJECTS.filter((object) => node.local.holds(object))).toEqual([]);
  await fleet.time.advance(3_000);
  await callers.end();
  await fleet.time.until(fleet.node("n1").stop());
  for (const object of OBJECTS) expect(await call(fleet, "n0", object, "value")).toBe(1);
});

describe("a home that last knew its object elsewhere", () => {
  /** An object of n2 that lived on another node while n2 was drained, and has been given back: n2 does not know that. */
  async function givenBack(): Promise<{ fleet: SimulatedFleet; object: ObjectIdentity }> {
    const fleet = await startFleet(3);
    const { node } = fleet.node("n2");
    const object = listAt(fleet, "n2");
    const holders = (): readonly string[] => holdersOf(fleet, object);
    await fleet.time.until(node.drain({ node: "n2" }));
    await fleet.time.advance(2_000);
    await append(fleet, "n2", object, 1);
    expect(holders()).not.toContain("n2");
    await fleet.time.until(node.drain({ node: "n2", undo: true }));

    await until(fleet, () => holders().length === 0);
    await fleet.time.advance(500);
    return { fleet, object };
  }

  it.each(["n0", "n1"])("has it at the next call through %s", async (through) => {
    const { fleet, object } = await givenBack();
    expect(await call(fleet, through, object, "all")).toEqual([1]);
    expect(holdersOf(fleet, object)).toEqual(["n2"]);
  });

  it.each(["n0", "n1"])("has it as soon as it is watched through %s", async (through) => {
    const { fleet, object } = await givenBack();
    await subscribe(fleet, through, object);
    await until(fleet, () => holdersOf(fleet, object).length > 0);
    expect(holdersOf(fleet, object)).toEqual(["n2"]);
  });
});

it("a node whose claim is forgotten is still found by the home, which last knew it there", async () => {
  const fleet = await startFleet(3, { NODE_CLAIMS_MAX: 1, OBJECT_IDLE_MS: 100 });
  const { node } = fleet.node("n2");
  const object = listAt(fleet, "n2");
  await fleet.time.until(node.drain({ node: "n2" }));
  await fleet.time.advance(2_000);
  await append(fleet, "n2", object, 1);
  const [holder = ""] = holdersOf(fleet, object);
  for (let index = 0; holdersOf(fleet, object).length > 0; index++) {
    await append(fleet, holder, listAt(fleet, holder, `other${index}-`), 1);
    await fleet.time.advance(1_000);
  }
  const through = holder === "n0" ? "n1" : "n0";
  expect(await call(fleet, through, object, "all")).toEqual([1]);
  expect(await call(fleet, "n2", object, "all")).toEqual([1]);
  expect(holdersOf(fleet, object)).toEqual([holder]);
});

it("a node that stops gives its objects away while they owe what cannot be told yet", async () => {
  const fleet = await startFleet(3, { DIRECTORY_SHARDS: 1 });
  const shard = shardObject("default", "Doer", 0, 1);
  const [keeper = ""] = fleet.node("n0").node.fleet.ring.homesOf(partitionOf(shard.id));
  const [leaving, third] = [...fleet.nodes.keys()].filter((name) => name !== keeper) as [string, string];
  const { node } = fleet.node(leaving);
  const doers = Array.from({ length: 12 }, (_, index) => identityOf("default", "Doer", `d${index}`));
  const sink = homedAt(fleet, keeper);
  const left = (): readonly ObjectIdentity[] => doers.filter((object) => node.local.holds(object));
  for (const doer of doers) await call(fleet, third, doer, "cancel", ["first"]);
  fleet.network.cut(leaving, keeper);
  const senders = left();
  for (const doer of senders) await call(fleet, third, doer, "post", [doer.key, 0, [sink.key]]);
  expect(node.gauges().directory.waiting).toBeGreaterThan(0);
  const begunMs = fleet.time.nowMs;
  await fleet.time.until(node.leave());
  expect(left()).toEqual([]);
  expect(fleet.time.nowMs - begunMs).toBeLessThan(5_000);
  fleet.network.heal();
  await fleet.time.until(fleet.node(leaving).stop());
  // What it still owed then it has told.
  expect(fleet.time.nowMs - begunMs).toBeLessThan(5_000);
  const entries = (await call(fleet, third, sink, "ledger")) as { what: string; token: string }[];
  const took = entries.filter(({ what }) => what === "took").map(({ token }) => token);
  expect(took.sort()).toEqual(senders.map(({ key }) => key).sort());
});

it("an operator is told why a node cannot be drained", async () => {
  const fleet = await startFleet(1);
  const { node } = fleet.node("n0");
  await expect(node.drain({})).rejects.toMatchObject({
    code: "bad_option",
    message: expect.stringMatching(/nobody is there/),
  });
  await expect(node.drain({ node: "n7" })).rejects.toMatchObject({
    code: "bad_option",
    message: expect.stringMatching(/called n7/),
  });
});

it("the ring tells of each partition's nodes in order, and who owns an object, without claiming it", async () => {
  const fleet = await startFleet(3);
  const [object] = OBJECTS as [ObjectIdentity];
  const { node } = fleet.node("n0");
  const { partitions } = await node.ring();
  expect(new Set(partitions.map(({ homes }) => [...homes].sort().join()))).toEqual(new Set(["n0,n1,n2"]));
  expect(partitions).toHaveLength(256);
  const before = await fleet.time.until(node.ring(object));
  expect(before).toEqual({ object: object.id, partitions: [partitions[partitionOf(object.id)]] });
  await call(fleet, "n0", object, "add", [1]);
  const [home] = before.partitions[0]?.homes ?? [];
  expect(await fleet.time.until(node.ring(object))).toEqual({ ...before, owner: home });
});
