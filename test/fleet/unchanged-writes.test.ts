/** A write that sets what stands already leaves nothing in the WAL: journals release it as any other. */
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");
const NODES = ["a", "b", "c"];

async function call(
  fleet: SimulatedFleet,
  node: string,
  object: ObjectIdentity,
  method: string,
  ...args: PlainValue[]
) {
  const request = { object, method, args, caller: { kind: "client" as const } };
  return (await fleet.time.until(fleet.node(node).call(request))).value;
}

it("is released by journals while the bucket takes nothing, and so is what follows it, which a takeover finds", async () => {
  const settings = { NODE_TTL_MS: 500, NODE_TTL_MARGIN_MS: 50, COVER_MS: 100, CALL_TIMEOUT_MS: 2_000 };
  const fleet = new SimulatedFleet({ apps: [appIn(CLASSES)], atomicBucket: true, settings });
  onTestFinished(() => fleet.close());
  for (const name of NODES) await fleet.start(name);
  await fleet.time.advance(200);
  const objects = Array.from({ length: 100 }, (_, number) => identityOf("default", "Register", `${number}`));
  const object = objects.find(({ id }) => fleet.node("a").node.fleet.homeOf(partitionOf(id)) === "a") as ObjectIdentity;
  await call(fleet, "a", object, "write", 1);
  await fleet.time.advance(200);
  fleet.node("a").bucket.faults.hold(["write"]);
  for (const value of [1, 1, 2, 2]) await call(fleet, "a", object, "write", value);
  fleet.node("a").crash();
  await fleet.time.advance(1_000);
  expect(await call(fleet, "b", object, "value")).toBe(2);
  await call(fleet, "b", object, "write", 2);
  expect(await call(fleet, "c", object, "value")).toBe(2);
});
