/** A fleet as its doors see it: who is in it, who owns what, and what a node says that is not the owner. */
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { readAppSource } from "../../src/app-source.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import type { FleetNode } from "../../src/fleet/fleet-node.js";
import { identityOf, partitionOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { Delivery, Sink } from "../../src/realtime/contract.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const APP = readAppSource("default", new RealFolder(path.join(packageRoot, "test", "simulation", "app")));
const TTL_MS = 1_000;
const NAMES = ["n1", "n2", "n3"];
const counter = identityOf("default", "Counter", "a");

let fleet: SimulatedFleet;
afterEach(() => fleet.close());

async function threeNodes(): Promise<FleetNode[]> {
  fleet = new SimulatedFleet({ apps: [APP], settings: { NODE_TTL_MS: TTL_MS, NODE_TTL_MARGIN_MS: 100 } });
  for (const name of NAMES) await fleet.start(name);
  await fleet.time.advance(TTL_MS);
  return NAMES.map((name) => fleet.node(name).node);
}

const add = (node: FleetNode) =>
  node.call({ object: counter, method: "add", args: [1], caller: { kind: "client" }, callId: `${fleet.time.nowMs}` });

class Told implements Sink {
  readonly deliveries: Delivery[] = [];
  deliver(delivery: Delivery): void {
    this.deliveries.push(delivery);
  }
  room(): undefined {}
  isFull(): boolean {
    return false;
  }
}

it("a file does not travel between nodes: who is not the owner names it, and where clients reach it", async () => {
  const nodes = await threeNodes();
  for (const [index, node] of nodes.entries()) node.serveClientsAt(`http://127.0.0.1:${7070 + index}`);
  await fleet.time.advance(TTL_MS);
  await fleet.time.until(add(nodes[0] as FleetNode));
  const { node: owner } = await fleet.time.until((nodes[0] as FleetNode).inspect(counter));
  const clientAddress = `http://127.0.0.1:${7070 + NAMES.indexOf(owner as string)}`;
  const asked = nodes.map((node) => node.exportDatabase(counter));
  for (const [index, one] of (await fleet.time.until(Promise.allSettled(asked))).entries()) {
    if (NAMES[index] === owner) expect(one.status).toBe("fulfilled");
    else expect(one).toMatchObject({ reason: { code: "moved", details: { node: owner, clientAddress } } });
  }
});

it("lists its nodes, those that died for as long as their record stands, and says which one it is itself", async () => {
  const [first] = (await threeNodes()) as [FleetNode];
  const listed = async () => (await first.nodes()).map(({ node, standing, own }) => [node, standing, own]);
  expect(await listed()).toEqual([
    ["n1", "live", true],
    ["n2", "live", false],
    ["n3", "live", false],
  ]);
  fleet.node("n2").crash();
  await fleet.time.advance(3 * TTL_MS);
  expect((await listed())[1]).toEqual(["n2", "dead", false]);
  expect((await first.status()).fleet).toMatchObject({ node: "n1", nodes: 2, valid: true });
  await fleet.time.until(fleet.node("n2").start());
  await fleet.time.advance(TTL_MS);
  expect((await listed())[1]).toEqual(["n2", "live", false]);
});

it("a node whose session has lapsed says so and why, and its subscribers hear of what others do with what it owned", async () => {
  const nodes = await threeNodes();
  await fleet.time.until(add(nodes[0] as FleetNode));
  const { node: owner } = await fleet.time.until((nodes[0] as FleetNode).inspect(counter));
  const { node, bucket } = fleet.node(owner as string);
  const told = new Told();
  const reading = { method: "value", args: [] };
  await fleet.time.until(node.view({ object: counter, reading, caller: { kind: "client" } }, told));
  await fleet.time.settle();
  bucket.faults.failNext(10_000, { kind: "refused" }, CHANGING_OPERATIONS);
  await fleet.time.advance(2 * TTL_MS);
  expect((await node.status()).fleet).toMatchObject({ valid: false, whyInvalid: expect.stringMatching(/no renewal/) });
  const other = nodes.find((one) => one !== node) as FleetNode;
  await fleet.time.until(add(other));
  await fleet.time.advance(3 * TTL_MS);
  expect(told.deliveries.at(-1)).toMatchObject({ kind: "view", value: 2 });
  const before = (await node.status()).session;
  bucket.faults.clear();
  await fleet.time.advance(2 * TTL_MS);
  const { session, fleet: standing } = await node.status();
  expect(standing?.valid).toBe(true);
  expect([session === before, session === standing?.session]).toEqual([true, false]);
});

it("an object goes to the node that joined and is preferred for it, though that one last knew it elsewhere", async () => {
  fleet = new SimulatedFleet({ apps: [APP], settings: { NODE_TTL_MS: TTL_MS, NODE_TTL_MARGIN_MS: 100 } });
  await fleet.start("n1");
  const objects = [..."abcdefgh"].map((key) => identityOf("default", "Counter", key));
  const ask = (node: FleetNode, object: (typeof objects)[number]) =>
    fleet.time.until(node.call({ object, method: "add", args: [1], caller: { kind: "client" }, callId: object.id }));
  const first = fleet.node("n1").node;
  for (const object of objects) await ask(first, object);
  const { node: second } = await fleet.start("n2");
  // It learns that they live on the other.
  for (const object of objects) await ask(second, object);
  await fleet.time.advance(3 * TTL_MS);
  for (const object of objects) {
    const [home] = first.fleet.ring.homesOf(partitionOf(object.id));
    for (const node of [first, second]) {
      expect([object.id, (await fleet.time.until(node.inspect(object))).node]).toEqual([object.id, home]);
    }
  }
});

it("a node that is alone does not open a bucket whose fleet has a session that has not ended", async () => {
  await threeNodes();
  for (const name of NAMES) {
    await expect(openAlone()).rejects.toMatchObject({ code: "fleet_mismatch", message: expect.stringContaining(name) });
    await fleet.time.until(fleet.node(name).stop());
  }
  const alone = await openAlone();
  await fleet.time.until(alone.stop());
});

async function openAlone(): Promise<MoonportNode> {
  const world = new VirtualWorld({ time: fleet.time, root: temporaryFolder(), seed: 77 });
  const bucket = new MemoryBucket(world, { contents: fleet.contents });
  return await fleet.time.until(
    MoonportNode.open({ world, bucket, apps: [APP], settings: resolveSettings(), onClassError: "refuse" }),
  );
}
