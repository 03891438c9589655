/** A node dies: whoever is to have its objects claims them, as soon as it is known to be dead and before anybody calls. */
import path from "node:path";
import { describe, expect, it, onTestFinished, test } from "vitest";
import { type BucketBulk, bucketError } from "../../src/bucket/bucket.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet, type SimulatedFleetOptions } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
const TTL_MS = 1_000;
const MARGIN_MS = 100;
/** From the death until the last claim: seen, read, claimed. Far less than a ttl more. */
const SOON_MS = TTL_MS + MARGIN_MS + 400;
const OBJECTS = 24;

async function threeNodes(options: Partial<SimulatedFleetOptions> = {}): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    // As the embedded bucket: what came together is answered together.
    bucketLatencyMs: { min: 1, max: 1 },
    ...options,
    settings: {
      NODE_TTL_MS: TTL_MS,
      NODE_TTL_MARGIN_MS: MARGIN_MS,
      COVER_MS: 300,
      LINK_HEARTBEAT_MS: 50,
      CALL_TIMEOUT_MS: 5_000,
      ...options.settings,
    },
  });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c"]) await fleet.start(name);
  await fleet.time.advance(1_000);
  return fleet;
}

async function call(fleet: SimulatedFleet, node: string, object: ObjectIdentity, ...called: [string, ...PlainValue[]]) {
  const [method, ...args] = called;
  const request = { object, method, args, caller: { kind: "client" as const } };
  return (await fleet.time.until(fleet.node(node).call(request))).value;
}

/** Objects whose home the node is, each written once. */
async function written(fleet: SimulatedFleet, node: string, prefix: string): Promise<ObjectIdentity[]> {
  const objects: ObjectIdentity[] = [];
  for (let number = 0; objects.length < OBJECTS; number++) {
    const object = identityOf("default", "Register", `${prefix}-${number}`);
    if (fleet.node(node).node.fleet.homeOf(partitionOf(object.id)) === node) objects.push(object);
  }
  for (const [number, object] of objects.entries()) await call(fleet, node, object, "write", number);
  return objects;
}

function held(fleet: SimulatedFleet, nodes: readonly string[], objects: readonly ObjectIdentity[]): number {
  return objects.filter((object) => nodes.some((name) => fleet.node(name).node.local.holds(object))).length;
}

/** Counts what journals are asked for promises from now on, in messages and in objects. */
function countPromises(fleet: SimulatedFleet, nodes: readonly string[]): { messages: number } {
  const counts = { messages: 0 };
  for (const name of nodes) {
    const { links } = fleet.node(name).node.fleet;
    const request = links.request.bind(links);
    links.request = (to, kind, body, options) => {
      if (kind.startsWith("journal.promise")) counts.messages++;
      return request(to, kind, body, options);
    };
  }
  return counts;
}

describe("what a dead node owned", () => {
  it("is claimed by its next homes as soon as it is known to be dead, whether or not the bucket has all of it", async () => {
    const fleet = await threeNodes({ atomicBucket: true });
    const rested = await written(fleet, "a", "rested");
    await fleet.time.advance(2_000);
    const fresh = await written(fleet, "a", "fresh");
    const objects = [...rested, ...fresh];
    const promises = countPromises(fleet, ["b", "c"]);
    fleet.node("a").crash();
    await fleet.time.advance(SOON_MS);
    expect(held(fleet, ["b", "c"], objects)).toBe(objects.length);
    for (const name of ["b", "c"]) {
      const { fleet: member, local } = fleet.node(name).node;
      for (const object of objects) {
        expect(local.holds(object)).toBe(member.homeOf(partitionOf(object.id)) === name);
      }
    }
    // Each of two survivors asks the other and, in vain, the dead one: some messages each, not some for each object.
    expect(promises.messages).toBeLessThan(objects.length / 2);
    for (const [number, object] of objects.entries()) {
      expect(await call(fleet, "b", object, "value")).toBe(number % OBJECTS);
    }
  });

  it("waits for a call, where each claim costs money and the bucket has all of it", async () => {
    const fleet = await threeNodes({ atomicBucket: false });
    const rested = await written(fleet, "a", "rested");
    await fleet.time.advance(2_000);
    const fresh = await written(fleet, "a", "fresh");
    const uncovered = fresh.slice(-8);
    fleet.node("a").crash();
    await fleet.time.advance(SOON_MS + 300);
    expect(held(fleet, ["b", "c"], rested)).toBe(0);
    expect(held(fleet, ["b", "c"], uncovered)).toBe(uncovered.length);
  });

  it("waits for a call beyond TAKEOVER_AHEAD_MAX of each node", async () => {
    const fleet = await threeNodes({ atomicBucket: true, settings: { TAKEOVER_AHEAD_MAX: 0 } });
    const rested = await written(fleet, "a", "rested");
    await fleet.time.advance(2_000);
    fleet.node("a").crash();
    await fleet.time.advance(SOON_MS);
    expect(held(fleet, ["b", "c"], rested)).toBe(0);
  });

  it("stays where it is when a living node has it by then", async () => {
    const fleet = await threeNodes({ atomicBucket: true });
    const objects = await written(fleet, "a", "moved");
    await fleet.time.advance(1_000);
    await fleet.start("d");
    await fleet.time.advance(2_000);
    const atD = objects.filter((object) => fleet.node("d").node.fleet.homeOf(partitionOf(object.id)) === "d");
    for (const object of atD) await call(fleet, "d", object, "value");
    expect(held(fleet, ["d"], atD)).toBe(atD.length);
    fleet.node("a").crash();
    await fleet.time.advance(SOON_MS);
    expect(held(fleet, ["d"], atD)).toBe(atD.length);
    expect(held(fleet, ["b", "c"], atD)).toBe(0);
  });
});

test("journals let go of tails that were taken over, though nothing is written to the objects since", async () => {
  const fleet = await threeNodes({ atomicBucket: true });
  await fleet.time.advance(1_000);
  const fresh = await written(fleet, "a", "fresh");
  fleet.node("a").crash();
  await fleet.time.advance(10 * TTL_MS);
  expect(held(fleet, ["b", "c"], fresh)).toBeGreaterThan(0);
  const begun = () => ["b", "c"].map((name) => fleet.node(name).node.fleet.counters.takeovers.begun);
  const before = begun();
  await fleet.time.advance(10 * TTL_MS);
  expect(begun()).toEqual(before);
});

test("a call that waits for a death goes on when it is known, not when it would have tried again", async () => {
  const fleet = await threeNodes({ atomicBucket: true });
  const objects = await written(fleet, "a", "called");
  await fleet.time.advance(2_000);
  fleet.node("a").crash();
  const { time } = fleet;
  const answeredMs: number[] = [];
  const answers = objects.map(async (object) => {
    const request = { object, method: "value", args: [], caller: { kind: "client" as const } };
    const { value } = await fleet.node("b").node.call(request);
    answeredMs.push(time.nowMs);
    return value;
  });
  const provedMs: number[] = [];
  for (const name of ["b", "c"]) {
    while (fleet.node(name).node.fleet.members.length === 3) await time.advance(1);
    provedMs.push(time.nowMs);
  }
  expect(await time.until(Promise.all(answers))).toEqual(objects.map((_, number) => number));
  // Its own claim's six answers of the bucket and of journals, and its file; the pause between two tries is ten times as long.
  expect(Math.max(...answeredMs) - Math.max(...provedMs)).toBeLessThan(50);
});

test("what could not be claimed for now is claimed a ttl later, though nobody calls it", async () => {
  const fleet = await threeNodes({ atomicBucket: true });
  const objects = await written(fleet, "a", "late");
  await fleet.time.advance(2_000);
  for (const name of ["b", "c"]) {
    const { bulk } = fleet.node(name).bucket;
    const { get } = bulk as BucketBulk;
    const failing: BucketBulk["get"] = async () => {
      Object.assign(bulk as BucketBulk, { get });
      throw bucketError("refused", "it was told to fail once");
    };
    Object.assign(bulk as BucketBulk, { get: failing });
  }
  fleet.node("a").crash();
  await fleet.time.advance(TTL_MS / 2);
  expect(fleet.node("b").node.fleet.members).toHaveLength(2);
  expect(held(fleet, ["b", "c"], objects)).toBe(0);
  await fleet.time.advance(TTL_MS);
  expect(held(fleet, ["b", "c"], objects)).toBe(objects.length);
});

test.each([
  { where: "on one machine, whose system knows", atomicBucket: true, withinMs: TTL_MS / 5 },
  { where: "elsewhere", atomicBucket: false, withinMs: TTL_MS + MARGIN_MS + 100 },
])(
  "a link that breaks is reason enough to look for a death, though nobody has asked for anything: $where",
  async (at) => {
    const fleet = await threeNodes(at);
    await written(fleet, "a", "k");
    // Past the last write and what follows from it.
    await fleet.time.advance(3_000);
    fleet.node("a").crash();
    await fleet.time.advance(at.withinMs);
    for (const name of ["b", "c"])
      expect(fleet.node(name).node.fleet.members.map(({ node }) => node)).not.toContain("a");
  },
);
