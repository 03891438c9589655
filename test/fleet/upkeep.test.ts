/**
 * Records go on naming journals that are there, whatever the moment at which members changed has missed: of objects in use, at rest,
 * forgotten, and of those that the dead have left.
 */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { databasePath, ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, ownershipOf } from "../../src/shipping/manifest.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet, type SimulatedFleetOptions } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
const HOUR_MS = 3_600_000;
const ONE = identityOf("default", "List", "k");
const MANY = Array.from({ length: 24 }, (_, number) => identityOf("default", "List", `k${number}`));

async function fleetOf(
  names: readonly string[],
  options: Partial<SimulatedFleetOptions> = {},
): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    ...options,
    settings: {
      NODE_TTL_MS: 1_000,
      NODE_TTL_MARGIN_MS: 100,
      COVER_MS: 100,
      CALL_TIMEOUT_MS: 20_000,
      OBJECT_IDLE_MS: 1_000,
      CLAIM_MS: 2_000,
      ...options.settings,
    },
  });
  onTestFinished(() => fleet.close());
  for (const name of names) await fleet.start(name);
  await fleet.time.advance(1_000);
  return fleet;
}

function call(fleet: SimulatedFleet, node: string, object: ObjectIdentity, method: string, ...args: PlainValue[]) {
  return fleet.node(node).call({ object, method, args, caller: { kind: "client" } });
}

function recordOf(fleet: SimulatedFleet, object: ObjectIdentity) {
  const stored = fleet.contents.get(new ObjectKeys(object).manifest);
  return ownershipOf(decodeManifest(object.id, stored?.bytes ?? new Uint8Array()));
}

function setOf(fleet: SimulatedFleet, object: ObjectIdentity): readonly string[] {
  return recordOf(fleet, object).set.map(({ node }) => node);
}

function ownerOf(fleet: SimulatedFleet, names: readonly string[], object: ObjectIdentity): string {
  const owner = names.find((name) => fleet.node(name).node.local.holds(object));
  expect(owner).toBeDefined();
  return owner ?? "";
}

async function appendToAll(fleet: SimulatedFleet, via: string, value: number): Promise<void> {
  for (const object of MANY) await fleet.time.until(call(fleet, via, object, "append", value));
}

async function contents(fleet: SimulatedFleet, via: string): Promise<Set<string>> {
  const found = new Set<string>();
  for (const object of MANY) {
    const told = call(fleet, via, object, "all").then(
      ({ value }) => JSON.stringify(value),
      (error: { code: string }) => error.code,
    );
    found.add(await fleet.time.until(told));
  }
  return found;
}

describe("a set that names a node which is gone", () => {
  it("is renewed though its object was being opened at the moment when that became known", async () => {
    const names = ["a", "b", "c", "d"];
    const fleet = await fleetOf(names, { settings: { COVER_MS: 600_000 } });
    await fleet.time.until(call(fleet, "a", ONE, "append", 1));
    // A restore leaves a snapshot, so that opening the object reads a stream.
    await fleet.time.until(fleet.node("a").node.restore(ONE, { at: { seq: 1 } }));
    await fleet.time.until(call(fleet, "a", ONE, "append", 2));
    const owner = ownerOf(fleet, names, ONE);
    await fleet.time.until(fleet.node(owner).node.history(ONE));
    await fleet.time.advance(5_000);
    fs.rmSync(path.join(fleet.folderOf(owner), databasePath(ONE)));
    const hold = fleet.node(owner).bucket.faults.hold(["read_stream"]);
    const opening = call(fleet, owner, ONE, "append", 3);
    await fleet.time.advance(100);
    expect(hold.waiting).toBe(1);
    const dead = setOf(fleet, ONE).find((name) => name !== owner) ?? "";
    fleet.node(dead).crash();
    await fleet.time.advance(1_600);
    hold.release();
    await fleet.time.until(opening);
    await fleet.time.advance(5_000);
    expect(setOf(fleet, ONE)).not.toContain(dead);
    await fleet.time.until(call(fleet, owner, ONE, "append", 4));
    fleet.node(owner).crash();
    await fleet.time.advance(5_000);
    const [survivor = ""] = names.filter((name) => name !== owner && name !== dead);
    expect((await fleet.time.until(call(fleet, survivor, ONE, "all"))).value).toEqual([1, 2, 3, 4]);
  });

  it("is renewed though the node was back before the record without it had won", async () => {
    const names = ["a", "b", "c"];
    const fleet = await fleetOf(names, {
      settings: { NODE_TTL_MS: 20_000, OBJECT_IDLE_MS: 10 * HOUR_MS, UPKEEP_MAX: 0 },
    });
    await fleet.time.until(call(fleet, "a", ONE, "append", 1));
    await fleet.time.advance(5_000);
    const owner = ownerOf(fleet, names, ONE);
    const restarts = names.find((name) => name !== owner) ?? "";
    const hold = fleet.node(owner).bucket.faults.hold(["write"]);
    await fleet.time.until(fleet.node(restarts).stop());
    await fleet.time.advance(300);
    await fleet.time.until(fleet.node(restarts).start());
    await fleet.time.advance(300);
    hold.release();
    await fleet.time.advance(10_000);
    expect([...setOf(fleet, ONE)].sort()).toEqual(names);
    expect(recordOf(fleet, ONE).quorum).toEqual({ copies: 3, acksToLand: 2 });
  });

  it("is found and renewed a while later where its renewal has failed", async () => {
    const names = ["a", "b", "c", "d"];
    const fleet = await fleetOf(names, { settings: { UPKEEP_MS: 30_000 } });
    await appendToAll(fleet, "a", 1);
    await fleet.time.advance(10_000);
    const dead = "d";
    const owned = MANY.filter((object) => ownerOf(fleet, names, object) !== dead);
    // Each of them forgets what it could not write, and claims it again for a call that opens nothing.
    for (const name of ["a", "b", "c"]) fleet.node(name).bucket.faults.failNext(64, { kind: "refused" }, ["write"]);
    fleet.node(dead).crash();
    await fleet.time.advance(20_000);
    await fleet.time.advance(10 * 60_000);
    for (const object of owned) await fleet.time.until(call(fleet, "a", object, "all"));
    await fleet.time.advance(10 * 60_000);
    expect(owned.filter((object) => setOf(fleet, object).includes(dead))).toEqual([]);
  });
});

describe("objects beyond NODE_CLAIMS_MAX", () => {
  it("are given up before they are forgotten, so that no record counts on journals that nobody watches", async () => {
    const names = ["a", "b", "c", "d"];
    const fleet = await fleetOf(names, { settings: { NODE_CLAIMS_MAX: 1 } });
    await appendToAll(fleet, "a", 1);
    await fleet.time.advance(10_000);
    const held = names.map((name) => fleet.node(name).node.fleet.held);
    expect(Math.max(...held)).toBeLessThanOrEqual(1);
    for (const object of MANY) {
      const isHeld = names.some((name) => fleet.node(name).node.local.holds(object));
      expect(recordOf(fleet, object).clean).toBe(!isHeld);
    }
    fleet.node("b").crash();
    await fleet.time.advance(10_000);
    await appendToAll(fleet, "a", 2);
    await fleet.time.advance(10_000);
    fleet.node("c").crash();
    await fleet.time.advance(10_000);
    expect(await contents(fleet, "a")).toEqual(new Set(["[1,2]"]));
  });

  it("outlive a fleet of which one node after the other is drained and stopped", async () => {
    const fleet = await fleetOf(["a", "b", "c"], { settings: { NODE_CLAIMS_MAX: 1 } });
    await appendToAll(fleet, "c", 1);
    await fleet.time.advance(10_000);
    for (const name of ["b", "a"]) {
      expect(await fleet.time.until(fleet.node(name).node.drain({}))).toMatchObject({ left: 0 });
      await fleet.time.advance(5_000);
      await fleet.time.until(fleet.node(name).node.stop());
      await fleet.time.advance(30_000);
    }
    expect(await contents(fleet, "c")).toEqual(new Set(["[1]"]));
  });

  it("are forgotten all the same while the bucket takes no release, within bounds, and served again afterwards", async () => {
    const fleet = await fleetOf(["a", "b", "c"], { settings: { NODE_CLAIMS_MAX: 4 } });
    await appendToAll(fleet, "a", 1);
    const holds = ["a", "b", "c"].map((name) => fleet.node(name).bucket.faults.hold(["write"]));
    await fleet.time.advance(3_000);
    for (const name of ["a", "b", "c"]) expect(fleet.node(name).node.fleet.held).toBeLessThanOrEqual(8);
    for (const hold of holds) hold.release();
    await fleet.time.advance(10_000);
    expect(await contents(fleet, "b")).toEqual(new Set(["[1]"]));
  });
});

describe("cold objects of a node that is gone for good", () => {
  it.each([false, true])("are others' before the next one goes (embedded bucket: %s)", async (atomicBucket) => {
    const fleet = await fleetOf(["a", "b", "c", "d"], { atomicBucket });
    await appendToAll(fleet, "c", 1);
    await fleet.time.advance(10_000);
    fleet.node("a").crash();
    await fleet.time.advance(10 * 60_000);
    for (const object of MANY) expect(setOf(fleet, object)).not.toContain("a");
    await fleet.time.until(fleet.node("b").node.drain({}));
    await fleet.time.until(fleet.node("b").node.stop());
    await fleet.time.advance(30_000);
    expect(await contents(fleet, "c")).toEqual(new Set(["[1]"]));
  });

  it("are others' again when whoever claimed them is gone for good as well, and has written nothing", async () => {
    const fleet = await fleetOf(["a", "b", "c", "d"], { settings: { UPKEEP_MS: 10_000 } });
    await appendToAll(fleet, "c", 1);
    await fleet.time.advance(10_000);
    for (const name of ["a", "b"]) {
      fleet.node(name).crash();
      await fleet.time.advance(2 * 60_000);
      expect(MANY.filter((object) => setOf(fleet, object).includes(name))).toEqual([]);
    }
    expect(await contents(fleet, "c")).toEqual(new Set(["[1]"]));
  });

  it("are others' though it was given them in good order, and has only read them", async () => {
    const fleet = await fleetOf(["a", "b", "c"], { settings: { UPKEEP_MS: 10_000 } });
    await appendToAll(fleet, "c", 1);
    await fleet.start("d");
    await fleet.time.advance(20_000);
    const given = MANY.filter((object) => fleet.node("a").node.fleet.homeOf(partitionOf(object.id)) === "d");
    expect(given.length).toBeGreaterThan(0);
    for (const object of given) await fleet.time.until(call(fleet, "d", object, "all"));
    await fleet.time.advance(2 * 60_000);
    fleet.node("d").crash();
    await fleet.time.advance(2 * 60_000);
    expect(given.filter((object) => setOf(fleet, object).includes("d"))).toEqual([]);
  });

  it("are others' where the bucket is embedded and all of those have started anew since they heard of them", async () => {
    const fleet = await fleetOf(["a", "b", "c", "d"], { atomicBucket: true, settings: { UPKEEP_MS: 10_000 } });
    await appendToAll(fleet, "c", 1);
    await fleet.time.advance(10_000);
    const left = MANY.filter((object) => fleet.node("a").node.local.holds(object));
    expect(left.length).toBeGreaterThan(0);
    for (const name of ["b", "c", "d"]) {
      fleet.node(name).crash();
      await fleet.time.until(fleet.node(name).start());
      await fleet.time.advance(5_000);
    }
    fleet.node("a").crash();
    await fleet.time.advance(2 * 60_000);
    expect(left.filter((object) => setOf(fleet, object).includes("a"))).toEqual([]);
  });

  it("wait for a call where a node is to look for none", async () => {
    const fleet = await fleetOf(["a", "b", "c", "d"], { settings: { UPKEEP_MAX: 0 } });
    await appendToAll(fleet, "c", 1);
    await fleet.time.advance(10_000);
    const left = MANY.filter((object) => ownerOf(fleet, ["a", "b", "c", "d"], object) === "a");
    fleet.node("a").crash();
    await fleet.time.advance(10 * 60_000);
    expect(left.length).toBeGreaterThan(0);
    for (const object of left) expect(setOf(fleet, object)).toContain("a");
  });
});
