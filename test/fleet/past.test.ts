/** An object's past where journals release its writes and the bucket follows behind: nothing that was acknowledged is missing in it. */
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import type { PointInTime } from "../../src/node-api.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const OBJECT = identityOf("default", "List", "k");
const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");

async function threeNodes(settings: Readonly<Record<string, number>> = {}): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    // Nothing gets into the bucket by itself: what is written stands in journals alone.
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, COVER_MS: 600_000, CALL_TIMEOUT_MS: 5_000, ...settings },
  });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c"]) await fleet.start(name);
  await fleet.time.advance(1_000);
  return fleet;
}

function call(fleet: SimulatedFleet, method: string, ...args: PlainValue[]): Promise<PlainValue> {
  const request = { object: OBJECT, method, args, caller: { kind: "client" as const } };
  return fleet.time.until(
    fleet
      .node("a")
      .call(request)
      .then(({ value }) => value),
  );
}

async function append(fleet: SimulatedFleet, ...values: number[]): Promise<void> {
  for (const value of values) {
    await call(fleet, "append", value);
    await fleet.time.advance(10);
  }
}

const all = (fleet: SimulatedFleet): Promise<PlainValue> => call(fleet, "all");
const restore = (fleet: SimulatedFleet, at: PointInTime) =>
  fleet.time.until(fleet.node("b").node.restore(OBJECT, { at }));

test("what only journals hold can be had, each flight of it, from any node", async () => {
  const fleet = await threeNodes();
  await append(fleet, 1, 2, 3, 4, 5);
  expect((await fleet.time.until(fleet.node("c").node.history(OBJECT))).seq).toBe(5);
  await append(fleet, 6);
  // The first five went into the bucket together.
  expect(await restore(fleet, { seq: 3 })).toMatchObject({ fromSeq: 3, seq: 7 });
  expect(await all(fleet)).toEqual([1, 2, 3]);
  await append(fleet, 7);
  expect(await restore(fleet, { seq: 6 })).toMatchObject({ fromSeq: 6, seq: 9 });
  expect(await all(fleet)).toEqual([1, 2, 3, 4, 5, 6]);
});

test("what was restored outlives the node that did it", async () => {
  const fleet = await threeNodes();
  await append(fleet, 1, 2, 3);
  await restore(fleet, { seq: 2 });
  await append(fleet, 4);
  const owner = [...fleet.nodes.keys()].find((name) => fleet.node(name).node.local.holds(OBJECT)) ?? "";
  fleet.node(owner).crash();
  await fleet.time.advance(3_000);
  await fleet.time.until(fleet.node(owner).start());
  expect(await all(fleet)).toEqual([1, 2, 4]);
  await append(fleet, 5);
  expect(await restore(fleet, { seq: 3 })).toMatchObject({ fromSeq: 3 });
  expect(await all(fleet)).toEqual([1, 2, 3]);
});

test("a fork takes the place of no object that lives on another node", async () => {
  const fleet = await threeNodes();
  await append(fleet, 1, 2);
  for (let n = 0; n < 6; n++) {
    const object = identityOf("default", "List", `other-${n}`);
    const args = [9];
    await fleet.time.until(fleet.node("c").call({ object, method: "append", args, caller: { kind: "client" } }));
    const forked = fleet.time.until(fleet.node("b").node.fork(OBJECT, { at: { seq: 1 } }, `other-${n}`));
    await expect(forked).rejects.toMatchObject({ code: "object_exists" });
    await fleet.time.until(fleet.node("b").node.fork(OBJECT, { at: { seq: 1 } }, `free-${n}`));
    const free = identityOf("default", "List", `free-${n}`);
    const read = fleet.node("c").call({ object: free, method: "all", args: [], caller: { kind: "client" } });
    expect((await fleet.time.until(read)).value).toEqual([1]);
  }
});
