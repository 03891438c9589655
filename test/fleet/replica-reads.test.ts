/** Calls that a copy may answer, on nodes that do not own the object. */
import { expect, it } from "vitest";
import { type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { CallReply } from "../../src/node-api.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { append, call, listAt, ownerOf, startFleet } from "./watching.js";

/** The bucket is far behind: what is not in it only journals have. */
const BEHIND = { COVER_MS: 60_000, FLIGHT_HEDGE_MS: 60_000 };

/** Of an answer that the owner gave to another node. */
const OWNER = { name: "n0" };

function read(fleet: SimulatedFleet, through: string, object: ObjectIdentity, method = "all"): Promise<CallReply> {
  const request = { object, method, args: [], caller: { kind: "client" }, consistency: "replica" } as const;
  return fleet.node(through).call(request);
}

const readNow = (fleet: SimulatedFleet, ...which: [through: string, object: ObjectIdentity]) =>
  fleet.time.until(read(fleet, ...which));

function readings(done: Promise<CallReply>) {
  const reading: { done: Promise<CallReply>; reply?: CallReply } = { done };
  void done.then((reply) => {
    reading.reply = reply;
  });
  return reading;
}

/** Of the list that lives on n0: the node whose journal is next in its set, and the last of all. */
function placesOf(fleet: SimulatedFleet, object: ObjectIdentity) {
  const homes = fleet.node("n0").node.fleet.ring.homesOf(partitionOf(object.id));
  return { near: homes[1] as string, far: homes.at(-1) as string };
}

it("a journal of the object's set answers with every write that was acknowledged, also those the bucket does not have", async () => {
  const fleet = await startFleet(3, BEHIND);
  const object = listAt(fleet, "n0");
  for (let value = 1; value <= 5; value++) {
    const seq = value;
    await append(fleet, "n0", object, value);
    const reply = await readNow(fleet, placesOf(fleet, object).near, object);
    expect(reply).toEqual({ value: Array.from({ length: value }, (_, index) => index + 1), seq, from: "replica" });
  }
});

it("a node with no journal of it answers from the bucket, and leaves what the bucket lacks to the owner", async () => {
  const fleet = await startFleet(5, { COVER_MS: 500 });
  const object = listAt(fleet, "n0");
  const { far } = placesOf(fleet, object);
  await append(fleet, "n0", object, 1);
  expect(await readNow(fleet, far, object)).toEqual({ value: [1], node: OWNER });
  await fleet.time.advance(1_000);
  expect(await readNow(fleet, far, object)).toEqual({ value: [1], seq: 1, from: "replica" });
  await append(fleet, "n0", object, 2);
  expect(await readNow(fleet, far, object)).toEqual({ value: [1, 2], node: OWNER });
  await fleet.time.advance(1_000);
  expect(await readNow(fleet, far, object)).toMatchObject({ value: [1, 2], from: "replica" });
  expect(fleet.node(far).node.counters.replicaReads).toEqual({ copy: 2, owner: 2 });
});

it("a reader waits until what the owner has committed has landed", async () => {
  const fleet = await startFleet(2, BEHIND, { diskSyncMs: 500 });
  const object = listAt(fleet, "n0");
  await append(fleet, "n0", object, 1);
  const written = fleet.node("n0").call({ object, method: "append", args: [2], caller: { kind: "client" } });
  // The entry is in this journal long before the owner's own disk, which is slow, has it.
  await fleet.time.advance(100);
  const reading = readings(read(fleet, "n1", object));
  await fleet.time.advance(100);
  expect(reading.reply).toBeUndefined();
  await fleet.time.until(written);
  expect(await fleet.time.until(reading.done)).toMatchObject({ value: [1, 2], from: "replica" });
});

it("nothing is shown that this journal has and that may be lost yet", async () => {
  const fleet = await startFleet(2, BEHIND, { diskSyncMs: 500 });
  const object = listAt(fleet, "n0");
  await append(fleet, "n0", object, 1);
  const write = (value: number) =>
    fleet.node("n0").call({ object, method: "append", args: [value], caller: { kind: "client" } });
  const written = [write(2)];
  await fleet.time.advance(50);
  const reading = read(fleet, "n1", object);
  await fleet.time.advance(50);
  // Its entry comes to this journal before the earlier one has come to the owner's disk.
  written.push(write(3));
  expect(await fleet.time.until(reading)).toEqual({ value: [1, 2], seq: 2, from: "replica" });
  await fleet.time.until(Promise.all(written));
  expect(await readNow(fleet, "n1", object)).toMatchObject({ value: [1, 2, 3], seq: 3 });
});

it("goes on behind another owner, who begins another line", async () => {
  const fleet = await startFleet(3, BEHIND);
  const object = listAt(fleet, "n0");
  const { near, far } = placesOf(fleet, object);
  await append(fleet, "n0", object, 1);
  for (const node of [near, far]) expect(await readNow(fleet, node, object)).toMatchObject({ from: "replica" });
  fleet.node("n0").crash();
  await append(fleet, far, object, 2);
  const owner = (await fleet.time.until(fleet.node(near).node.inspect(object))).node;
  const other = owner === near ? far : near;
  for (const value of [3, 4]) {
    await append(fleet, near, object, value);
    const expected = Array.from({ length: value }, (_, index) => index + 1);
    expect(await readNow(fleet, other, object)).toMatchObject({ value: expected, from: "replica" });
  }
});

it("what a journal still holds of a line that is dead is shown to nobody", async () => {
  let dead = 0;
  // What a power cut leaves of what was not synced is drawn.
  for (let seed = 1; seed <= 8; seed++) {
    const fleet = await startFleet(3, BEHIND, { diskSyncMs: 300 }, { seed });
    const object = listAt(fleet, "n0");
    const { near, far } = placesOf(fleet, object);
    await append(fleet, "n0", object, 1);
    expect(await readNow(fleet, far, object)).toMatchObject({ value: [1], from: "replica" });
    // Only the far journal gets this one, and the owner's disk does not have it yet.
    fleet.network.cut("n0", near);
    fleet
      .node("n0")
      .call({ object, method: "append", args: [2], caller: { kind: "client" } })
      .catch(() => {});
    await fleet.time.advance(100);
    fleet.network.partition([far], ["n0", near]);
    fleet.node("n0").crash({ power: true });
    fleet.network.heal("n0", near);
    await fleet.time.until(fleet.node("n0").start());
    // Two of three journals are asked, and one of them may have had it.
    const isDead = (await append(fleet, near, object, 3)) === 2;
    fleet.network.heal();
    expect((await readNow(fleet, far, object)).value).toEqual(isDead ? [1, 3] : [1, 2, 3]);
    if (isDead) dead++;
    fleet.close();
  }
  expect(dead).toBeGreaterThan(0);
});

it("an object that was ended is empty, and its next life is read from the start", async () => {
  const fleet = await startFleet(3, { COVER_MS: 100 });
  const object = listAt(fleet, "n0");
  const { near } = placesOf(fleet, object);
  await append(fleet, "n0", object, 1);
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [1], from: "replica" });
  await fleet.time.until(fleet.node("n0").node.destroy(object));
  expect(await readNow(fleet, near, object)).toEqual({ value: [], node: OWNER });
  await append(fleet, "n0", object, 7);
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [7], from: "replica" });
});

it("what was put back in its place is what is read", async () => {
  const fleet = await startFleet(3, { COVER_MS: 100 });
  const object = listAt(fleet, "n0");
  const { near } = placesOf(fleet, object);
  for (const value of [1, 2, 3]) {
    await append(fleet, "n0", object, value);
    await fleet.time.advance(500);
  }
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [1, 2, 3], from: "replica" });
  await fleet.time.until(fleet.node("n0").node.restore(object, { at: { seq: 1 } }));
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [1], from: "replica" });
  await append(fleet, "n0", object, 9);
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [1, 9], from: "replica" });
});

it("where node and owner have other versions of the class, or the copy is of another, the owner answers", async () => {
  const fleet = await startFleet(3, BEHIND);
  const object = listAt(fleet, "n0");
  const { near } = placesOf(fleet, object);
  await append(fleet, "n0", object, 1);
  expect(await readNow(fleet, near, object)).toMatchObject({ from: "replica" });
  const [{ app, classes, ...rest }] = fleet.options.apps as [(typeof fleet.options.apps)[number]];
  const changed = classes.map((one) => (one.name === "List" ? { ...one, text: `${one.text}\n-- changed` } : one));
  const reload = (node: string) => fleet.node(node).node.reload([{ app, ...rest, classes: changed }]);
  reload(near);
  expect(await readNow(fleet, near, object)).toEqual({ value: [1], node: OWNER });
  reload("n0");
  // The object itself has not heard of that version yet; the owner's answer is where it does.
  expect(await readNow(fleet, near, object)).toEqual({ value: [1], node: OWNER });
  expect(await readNow(fleet, near, object)).toMatchObject({ value: [1], from: "replica" });
});

it("copies are bounded in number and in bytes, the longest unread go", async () => {
  const fleet = await startFleet(2, { ...BEHIND, REPLICA_COPIES_MAX: 2 });
  const objects = ["a", "b", "c"].map((but) => listAt(fleet, "n0", but));
  for (const object of [...objects, ...objects]) {
    await append(fleet, "n0", object, 1);
    expect(await readNow(fleet, "n1", object)).toMatchObject({ from: "replica" });
    expect(fleet.node("n1").node.gauges().copies).toBeLessThanOrEqual(2);
  }
  const files = fleet.node("n1").world.folder.list("copies");
  expect(files.filter((name) => name.endsWith(".db"))).toHaveLength(2);
});

it("where no copy may be kept, the owner answers", async () => {
  for (const none of [{ REPLICA_COPIES_MAX: 0 }, { REPLICA_BYTES_MAX: 4_096 }]) {
    const fleet = await startFleet(2, { ...BEHIND, ...none });
    const object = listAt(fleet, "n0");
    await append(fleet, "n0", object, 1);
    expect(await readNow(fleet, "n1", object)).toEqual({ value: [1], node: OWNER });
    expect(fleet.node("n1").node.gauges().copyBytes).toBe(0);
  }
});

it("the owner itself, an object that was never written, and a fleet of one answer as ever", async () => {
  const fleet = await startFleet(2);
  const object = listAt(fleet, "n0");
  expect(await readNow(fleet, "n1", object)).toEqual({ value: [], node: OWNER });
  await append(fleet, "n1", object, 1);
  expect(await ownerOf(fleet, object)).toBe("n0");
  expect(await readNow(fleet, "n0", object)).toEqual({ value: [1] });
  const alone = await startFleet(1);
  await append(alone, "n0", object, 1);
  expect(await readNow(alone, "n0", object)).toEqual({ value: [1] });
});

it("a writing method is refused wherever it is called", async () => {
  const fleet = await startFleet(2);
  const object = listAt(fleet, "n0");
  for (const node of ["n0", "n1"]) {
    const request = {
      object,
      method: "append",
      args: [1],
      caller: { kind: "client" },
      consistency: "replica",
    } as const;
    await expect(fleet.time.until(fleet.node(node).call(request))).rejects.toMatchObject({
      code: "not_a_reading_method",
    });
  }
  expect(await call(fleet, "n0", object, "all")).toEqual([]);
});
