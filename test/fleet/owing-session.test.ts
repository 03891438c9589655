/** Under which session a node lists what its objects owe (W1). */
import { expect, it } from "vitest";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { identityOf } from "../../src/identity.js";
import { call, startFleet, until } from "./watching.js";

it("a node that has lapsed lists what is owed from then on under the session that it has now", async () => {
  const fleet = await startFleet(1);
  const { node, bucket } = fleet.node("n0");
  const before = node.fleet.session;
  bucket.faults.failNext(10_000, { kind: "refused" }, CHANGING_OPERATIONS);
  await until(fleet, () => !node.fleet.isValid());
  bucket.faults.clear();
  await until(fleet, () => node.fleet.isValid() && node.fleet.session !== before);
  await call(fleet, "n0", identityOf("default", "Doer", "d0"), "after", ["t1", 3_600, 0]);
  // Its timer's wake time may be told by then; listed it stays for a while.
  await fleet.time.advance(5_000);
  const { keys } = await fleet.time.until(bucket.list("owing/"));
  expect(keys.length).toBeGreaterThan(0);
  for (const key of keys) expect(key).toMatch(`owing/${node.fleet.session}/`);
});
