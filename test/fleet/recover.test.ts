/** Too few journals are left: the object says which nodes are missing, and an operator may go on without them. */
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const OBJECT = identityOf("default", "Register", "k");
const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");

async function threeNodes(): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    // Nothing gets into the bucket by itself: what is written stands in journals alone.
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, COVER_MS: 600_000, CLAIM_MS: 500, CALL_TIMEOUT_MS: 5_000 },
  });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c"]) await fleet.start(name);
  // Until all have seen each other, a set has fewer journals, or none.
  await fleet.time.advance(1_000);
  return fleet;
}

function call(fleet: SimulatedFleet, node: string, method: string, ...args: PlainValue[]): Promise<PlainValue> {
  const request = { object: OBJECT, method, args, caller: { kind: "client" as const } };
  return fleet.time.until(
    fleet
      .node(node)
      .call(request)
      .then(({ value }) => value),
  );
}

async function owner(fleet: SimulatedFleet): Promise<string> {
  const names = [...fleet.nodes.keys()];
  const found = names.find((name) => fleet.node(name).node.local.holds(OBJECT));
  return found ?? expect.fail("nobody owns the object");
}

test("one journal of three is too few: the error names the nodes that are missing, and nothing is served", async () => {
  const fleet = await threeNodes();
  await call(fleet, "a", "write", 1);
  await call(fleet, "a", "write", 2);
  const gone = await owner(fleet);
  const [left = "", other = ""] = [...fleet.nodes.keys()].filter((name) => name !== gone);
  fleet.node(gone).crash();
  fleet.node(other).crash();
  await fleet.time.advance(3_000);
  const error = await call(fleet, left, "value").catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: "replicas_missing",
    retryable: true,
    details: { missing: [gone, other].sort() },
  });
});

test("a node that comes back with its journal makes the object available again", async () => {
  const fleet = await threeNodes();
  await call(fleet, "a", "write", 7);
  const gone = await owner(fleet);
  const [left = "", other = ""] = [...fleet.nodes.keys()].filter((name) => name !== gone);
  fleet.node(gone).crash();
  fleet.node(other).crash();
  await fleet.time.advance(3_000);
  await fleet.time.until(fleet.node(other).start());
  expect(await call(fleet, left, "value")).toBe(7);
});

test("an operator may go on with the journals that are left", async () => {
  const fleet = await threeNodes();
  await call(fleet, "a", "write", 7);
  const gone = await owner(fleet);
  const [left = "", other = ""] = [...fleet.nodes.keys()].filter((name) => name !== gone);
  fleet.node(gone).crash();
  fleet.node(other).crash();
  await fleet.time.advance(3_000);
  expect(await fleet.time.until(fleet.node(left).node.recover(OBJECT))).toEqual({ object: OBJECT.id, seq: 1 });
  // Both journals had acknowledged it, or the third did: what is left may be either of the two that let it land.
  expect(await call(fleet, left, "value")).toBe(7);
  expect(await call(fleet, left, "write", 8)).toBe(null);
  expect(await call(fleet, left, "value")).toBe(8);
});
