/** What a node lists of what its objects owe, and under which session (W1). */
import { expect, it } from "vitest";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { shardObject } from "../../src/directory/shard-contract.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
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

it("an object whose row journals have released, and no directory has yet, is listed before the bucket has that", async () => {
  const fleet = await startFleet(3, { NODE_TTL_MS: 10_000, COVER_MS: 300, DIRECTORY_SHARDS: 1 });
  const { ring } = fleet.node("n0").node.fleet;
  const homeOf = ({ id }: ObjectIdentity): string | undefined => ring.homesOf(partitionOf(id))[0];
  const directory = homeOf(shardObject("default", "Doer", 0, 1));
  const doers = Array.from({ length: 50 }, (_, index) => identityOf("default", "Doer", `d${index}`));
  const doer = doers.find((one) => homeOf(one) !== directory) as ObjectIdentity;
  const owner = homeOf(doer) as string;
  // It holds no timer and has sent nothing: its row is all that it owes.
  await call(fleet, owner, doer, "cancel", ["none"]);
  await fleet.time.advance(2_000);
  fleet.node(directory as string).pause();
  await call(fleet, owner, doer, "cancel", ["none"]);
  await fleet.time.advance(2_000);
  const { bucket, node } = fleet.node(owner);
  const { keys } = await fleet.time.until(bucket.list("owing/"));
  const lists = await Promise.all(keys.map((key) => fleet.time.until(bucket.get(key))));
  const listed = lists.flatMap((one) => JSON.parse(Buffer.from(one?.bytes ?? []).toString()) as string[]);
  expect((await fleet.time.until(node.local.inspect(doer))).landedSeq).toBe(2);
  expect(listed).toContain(doer.id);
  fleet.node(directory as string).resume();
});
