/** An object whose writes stand in journals alone is being destroyed: until its tombstone has landed nobody hears that it is gone. */
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";

const OBJECT = identityOf("default", "Register", "k");
const CLASSES = path.join(import.meta.dirname, "..", "simulation", "app");

test("a read waits for the tombstone of what the bucket never had", async () => {
  const fleet = new SimulatedFleet({
    apps: [appIn(CLASSES)],
    settings: { COVER_MS: 600_000, OBJECT_ACK_GATE_MS: 60_000 },
  });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c"]) await fleet.start(name);
  await fleet.time.advance(5_000);
  const { time } = fleet;
  const call = (method: string, ...args: number[]) =>
    fleet.node("a").call({ object: OBJECT, method, args, caller: { kind: "client" } });
  await time.until(call("write", 7));
  const owner = [...fleet.nodes.values()].find(({ node }) => node.local.holds(OBJECT)) ?? expect.fail("nobody owns it");
  const held = owner.bucket.faults.hold(["write"]);
  const destroyed = owner.ask((node) => node.destroy(OBJECT));
  await time.advance(100);
  let told: unknown = "nothing yet";
  const reading = call("value").then(({ value }) => {
    told = value;
  });
  await time.advance(500);
  expect(told).toBe("nothing yet");
  held.release();
  await time.until(Promise.all([destroyed, reading]));
  expect(told).toBe(0);
});
