/** An object's past where journals release its writes and the bucket follows behind: nothing that was acknowledged is missing in it. */
import fs from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import type { PointInTime } from "../../src/node-api.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const OBJECT = identityOf("default", "List", "k");
const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
/** What one call of it writes goes into no segment of a fleet with the least OBJECT_FLIGHT_BYTES_MAX. */
const LARGE = `
local List = class "List"
List.migrations = { [[CREATE TABLE items (value)]] }
function List:append(value) state.sql.exec("INSERT INTO items (value) VALUES (?)", value) end
function List:fill(rows)
  for row = 1, rows do state.sql.exec("INSERT INTO items (value) VALUES (zeroblob(100000))") end
end
function List.read:all()
  local values = array {}
  for row in state.sql.each("SELECT value FROM items") do values[#values + 1] = row.value end
  return values
end
return List
`;

function folderWith(lua: string): string {
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "classes"));
  fs.writeFileSync(path.join(folder, "classes", "List.lua"), lua);
  return folder;
}

async function threeNodes(
  settings: Readonly<Record<string, number>> = {},
  classes: string = CLASSES,
): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appIn(classes)],
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

test("what journals had released when the object was destroyed can be had, by each of its seqs and by time", async () => {
  const fleet = await threeNodes();
  await append(fleet, 1, 2, 3, 4);
  const atMs = Math.floor(fleet.node("a").world.clock.wallMs());
  await fleet.time.advance(200);
  await fleet.time.until(fleet.node("a").node.destroy(OBJECT));
  expect(await restore(fleet, { atMs })).toMatchObject({ fromSeq: 4 });
  expect(await all(fleet)).toEqual([1, 2, 3, 4]);
  expect(await restore(fleet, { seq: 2 })).toMatchObject({ fromSeq: 2 });
  expect(await all(fleet)).toEqual([1, 2]);
});

test("what journals had released before a write that only a snapshot can carry can be had, by each of its seqs and by time", async () => {
  const fleet = await threeNodes({ OBJECT_FLIGHT_BYTES_MAX: 1024 * 1024 }, folderWith(LARGE));
  await append(fleet, 1, 2, 3);
  const atMs = Math.floor(fleet.node("a").world.clock.wallMs());
  await fleet.time.advance(200);
  await call(fleet, "fill", 12);
  const { eras } = await fleet.time.until(fleet.node("a").node.history(OBJECT));
  expect(eras.at(-1)).toMatchObject({ snapshotSeq: 4 });
  expect(await restore(fleet, { atMs })).toMatchObject({ fromSeq: 3 });
  expect(await all(fleet)).toEqual([1, 2, 3]);
  expect(await restore(fleet, { seq: 2 })).toMatchObject({ fromSeq: 2 });
  expect(await all(fleet)).toEqual([1, 2]);
});

test("what no message between nodes holds goes into the bucket alone: no claimer could get it from a journal", async () => {
  const MIB = 1024 * 1024;
  const fleet = await threeNodes({ LINK_MESSAGE_BYTES_MAX: MIB, OBJECT_FLIGHT_BYTES_MAX: 16 * MIB }, folderWith(LARGE));
  await append(fleet, 1, 2, 3);
  await call(fleet, "fill", 12);
  const { eras } = await fleet.time.until(fleet.node("a").node.history(OBJECT));
  expect(eras.at(-1)).toMatchObject({ snapshotSeq: 4 });
});
