/** Subscriptions and live views through nodes that do not own the object, on simulated fleets. */
import { describe, expect, it } from "vitest";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { append, call, listAt, ownerOf, startFleet, subscribe, until, view } from "./watching.js";

describe("a subscription through a node that does not own the object", () => {
  it("is told what lands, from the first event after it was asked for", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    await append(fleet, "n0", object, 10);
    const { sink } = await subscribe(fleet, "n2", object);
    for (const value of [20, 30]) await append(fleet, "n0", object, value);
    await until(fleet, () => sink.told.length === 3);
    expect(sink.story).toEqual(["subscribed 1", "event 2 appended", "event 3 appended"]);
    expect(sink.events.map(({ data }) => data)).toEqual([
      { value: 20, place: 2 },
      { value: 30, place: 3 },
    ]);
  });

  it("resumes by number, begins with a snapshot, and filters by name, as on the owner", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    for (const value of [1, 2, 3]) await append(fleet, "n1", object, value);
    const resumed = await subscribe(fleet, "n2", object, { from: { kind: "after", number: 1 } });
    const reading = { method: "all", args: [] };
    const snapshot = await subscribe(fleet, "n2", object, { from: { kind: "snapshot", reading } });
    const filtered = await subscribe(fleet, "n2", object, { from: { kind: "now" }, names: ["other"] });
    await append(fleet, "n0", object, 4);
    await until(fleet, () => snapshot.sink.numbers.includes(4) && resumed.sink.numbers.includes(4));
    expect(resumed.sink.numbers).toEqual([2, 3, 4]);
    expect(snapshot.sink.story).toEqual(["snapshot [1,2,3] at 3", "subscribed 3", "event 4 appended"]);
    expect([filtered.sink.story, filtered.subscription.after]).toEqual([["subscribed 3"], 4]);
  });

  it("of an object that was never written hears of its first event", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    const subscribed = await Promise.all(["n0", "n1", "n2"].map((node) => subscribe(fleet, node, object)));
    await append(fleet, "n0", object, 1);
    await until(fleet, () => subscribed.every(({ sink }) => sink.told.length === 2));
    for (const { sink } of subscribed) expect(sink.story).toEqual(["subscribed 0", "event 1 appended"]);
  });

  it("ends when the object is destroyed, and the next life's goes on counting", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    await append(fleet, "n0", object, 1);
    const first = await subscribe(fleet, "n2", object);
    await fleet.time.until(fleet.node("n0").node.destroy(object));
    await until(fleet, () => first.sink.told.length === 2);
    const second = await subscribe(fleet, "n2", object);
    await append(fleet, "n0", object, 2);
    await until(fleet, () => second.sink.told.length === 2);
    expect(first.sink.story).toEqual(["subscribed 1", "ended destroyed after 1"]);
    expect(second.sink.story).toEqual(["subscribed 1", "event 2 appended"]);
  });

  it("is one stream however many subscribe, and each event is one object for all of them", async () => {
    const fleet = await startFleet(2);
    const object = listAt(fleet, "n1");
    await append(fleet, "n0", object, 1);
    const subscribed = await Promise.all(Array.from({ length: 1_000 }, () => subscribe(fleet, "n0", object)));
    await fleet.time.advance(100);
    expect(fleet.node("n0").node.fleet.links.underWay).toBe(1);
    await append(fleet, "n0", object, 2);
    await until(fleet, () => subscribed.every(({ sink }) => sink.numbers.length === 1));
    expect(new Set(subscribed.flatMap(({ sink }) => sink.events)).size).toBe(1);
    for (const { subscription } of subscribed) subscription.close();
    await fleet.time.advance(100);
    expect(fleet.node("n0").node.fleet.links.underWay).toBe(0);
  });

  it("that is slow ends, and the others go on", async () => {
    const fleet = await startFleet(2);
    const object = listAt(fleet, "n1");
    await append(fleet, "n0", object, 1);
    const slow = await subscribe(fleet, "n0", object);
    const other = await subscribe(fleet, "n0", object);
    slow.sink.full = true;
    for (const value of [2, 3, 4]) await append(fleet, "n1", object, value);
    await until(fleet, () => other.sink.numbers.length === 3);
    expect(slow.sink.story).toEqual(["subscribed 1", "ended slow after 1"]);
    expect(other.sink.numbers).toEqual([2, 3, 4]);
  });

  it("may resume from a number that its new node has not been told of yet", async () => {
    const fleet = await startFleet(2);
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    await subscribe(fleet, "n0", object);
    await fleet.time.advance(100);
    // What lands reaches n0 late; who saw it on n1 comes over.
    fleet.network.slow("n0", "n1", { min: 400, max: 400 });
    for (const value of [2, 3]) await append(fleet, "n1", object, value);
    const moved = await subscribe(fleet, "n0", object, { from: { kind: "after", number: 3 } });
    await append(fleet, "n1", object, 4);
    await until(fleet, () => moved.sink.numbers.length > 0);
    expect(moved.sink.story).toEqual(["subscribed 3", "event 4 appended"]);
  });
});

describe("nothing is lost and nothing comes twice", () => {
  const ends = {
    "the owner dies": "crash",
    "the owner loses its power": "power",
    "the owner stops": "stop",
    "the owner is stopped for longer than its session lives": "pause",
    "the owner is cut off": "cut",
  } as const;

  it.each(Object.entries(ends))("when %s", async (_, end) => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const watchers = [await subscribe(fleet, "n0", object), await subscribe(fleet, "n2", object)];
    await append(fleet, "n1", object, 2);
    const owner = fleet.node("n1");
    if (end === "crash" || end === "power") owner.crash({ power: end === "power" });
    else if (end === "stop") await fleet.time.until(owner.stop());
    else if (end === "pause") owner.pause();
    else fleet.network.partition(["n1"], ["n0", "n2"]);
    if (end === "cut") owner.bucket.faults.hold();
    for (const value of [3, 4]) await append(fleet, "n0", object, value);
    await until(fleet, () => watchers.every(({ sink }) => sink.numbers.length >= 3));
    for (const { sink } of watchers) {
      expect(sink.story).toEqual(["subscribed 1", "event 2 appended", "event 3 appended", "event 4 appended"]);
    }
  });

  it("when the owner loses its session and nothing else, after its object has left memory", async () => {
    const fleet = await startFleet(3, { OBJECT_IDLE_MS: 100 });
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const watchers = [await subscribe(fleet, "n0", object), await subscribe(fleet, "n1", object)];
    await fleet.time.advance(1_000);
    fleet.node("n1").bucket.faults.failNext(10_000, { kind: "refused" }, CHANGING_OPERATIONS);
    await fleet.time.advance(2_000);
    await append(fleet, "n2", object, 2);
    await until(fleet, () => watchers.every(({ sink }) => sink.numbers.length > 0));
    for (const { sink } of watchers) expect(sink.story).toEqual(["subscribed 1", "event 2 appended"]);
  });

  it("when an object that nobody owns finds another home, however long nothing came of it", async () => {
    const fleet = await startFleet(2);
    const object = listAt(fleet, "n1");
    const { sink } = await subscribe(fleet, "n0", object);
    // By now it is looked for twice a minute.
    await fleet.time.advance(33_000);
    await fleet.start("n2", { weight: 1_000 });
    await fleet.time.advance(1_000);
    await append(fleet, "n1", object, 1);
    expect(await ownerOf(fleet, object)).toBe("n2");
    await fleet.time.advance(2_000);
    expect(sink.story).toEqual(["subscribed 0", "event 1 appended"]);
  });

  it("when the object is handed over, for who watches on its old owner, on its new one and elsewhere", async () => {
    const fleet = await startFleet(2);
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const watchers = [await subscribe(fleet, "n0", object), await subscribe(fleet, "n1", object)];
    await fleet.start("n2", { weight: 1_000 });
    watchers.push(await subscribe(fleet, "n2", object));
    await append(fleet, "n0", object, 2);
    await fleet.time.advance(3_000);
    await append(fleet, "n2", object, 3);
    expect(await ownerOf(fleet, object)).toBe("n2");
    await until(fleet, () => watchers.every(({ sink }) => sink.numbers.includes(3)));
    for (const { sink } of watchers) expect(sink.numbers).toEqual([2, 3]);
  });

  it("when far more lands at once than a feed holds", async () => {
    const fleet = await startFleet(2, { EVENT_PAGE_MAX: 16 });
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const { sink } = await subscribe(fleet, "n0", object);
    const random = new SeededRandom(1);
    // One way of the link is slow, and the window small against what lands.
    fleet.network.slow("n0", "n1", { min: 5, max: 300 });
    for (let value = 2; value <= 300; value++) {
      await append(fleet, "n1", object, value);
      if (random.fraction() < 0.1) await fleet.time.advance(5);
    }
    await until(fleet, () => sink.numbers.length >= 299);
    expect(sink.numbers).toEqual(Array.from({ length: 299 }, (_, index) => index + 2));
  });
});

describe("a live view", () => {
  it("through the owner is told once what it begins with, after its caller knows that it stands", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const sink = await view(fleet, "n1", object);
    await fleet.time.advance(500);
    expect(sink.story).toEqual(["view [1]"]);
  });
});

describe("a live view through a node that does not own the object", () => {
  it("follows the object, to its next owner too", async () => {
    const fleet = await startFleet(3);
    const object = listAt(fleet, "n1");
    await append(fleet, "n1", object, 1);
    const sink = await view(fleet, "n0", object);
    await until(fleet, () => sink.story.includes("view [1]"));
    await append(fleet, "n2", object, 2);
    await until(fleet, () => sink.story.includes("view [1,2]"));
    fleet.node("n1").crash();
    await append(fleet, "n2", object, 3);
    await until(fleet, () => sink.story.includes("view [1,2,3]"));
    expect(sink.story).toEqual(["view [1]", "view [1,2]", "view [1,2,3]"]);
    expect(await call(fleet, "n0", object, "all")).toEqual([1, 2, 3]);
  });
});
