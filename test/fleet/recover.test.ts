/** Too few journals are left: the object says which nodes are missing, and an operator may go on without them. */
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { SubscribeFrom } from "../../src/realtime/contract.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { RecordingSink } from "../realtime/support.js";
import { appOf } from "../support/virtual-node.js";

const OBJECT = identityOf("default", "Register", "k");
const TELLER = `
local Teller = class "Teller"
function Teller:tell(n) state.store.set("last", n) emit("told", n) end
return Teller`;
const caller = { kind: "client" } as const;
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

test("numbers of events that were told and lost are not given again, and who watches hears that they are gone", async () => {
  const fleet = new SimulatedFleet({
    apps: [appOf({ Teller: TELLER })],
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, COVER_MS: 2_000, CLAIM_MS: 500 },
  });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c", "d"]) await fleet.start(name);
  await fleet.time.advance(1_000);
  const { node } = fleet.node("d");
  // It keeps nothing of the object, and is the one that is left.
  const object = objectOf((homes) => homes.indexOf("d") === 3);
  const tell = (n: number) => fleet.time.until(node.call({ object, method: "tell", args: [n], caller }));
  const subscribe = async (from: SubscribeFrom): Promise<RecordingSink> => {
    const sink = new RecordingSink();
    await fleet.time.until(node.subscribe({ object, from, caller }, sink));
    return sink;
  };

  const live = await subscribe({ kind: "now" });
  for (let n = 1; n <= 8; n++) await tell(n);
  await fleet.time.advance(20_000);
  for (const n of [9, 10]) await tell(n);
  await fleet.time.advance(20);
  expect(live.numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  for (const name of ["a", "b", "c"]) fleet.node(name).crash({ disk: true });
  await fleet.time.advance(5_000);
  expect(await fleet.time.until(node.recover(object))).toEqual({ object: object.id, seq: 8 });
  await fleet.time.advance(2_000);
  const resumed = await subscribe({ kind: "after", number: 8 });
  await fleet.time.advance(1);
  for (const n of [91, 101]) await tell(n);
  await fleet.time.advance(1_000);

  const [first] = resumed.numbers;
  expect(first).toBeGreaterThan(10);
  const following = [`event ${first} told`, `event ${Number(first) + 1} told`];
  expect(live.story.slice(11)).toEqual([`gap 11 to ${Number(first) - 1}`, ...following]);
  expect(resumed.story).toEqual(["subscribed 8", `gap 9 to ${Number(first) - 1}`, ...following]);
  expect(resumed.events.map(({ data }) => data)).toEqual([91, 101]);

  // And the same once more, through destruction: a number that was given stays given.
  await fleet.time.until(node.destroy(object));
  await tell(7);
  const { events } = await fleet.time.until(node.inspect(object));
  expect(events.last).toBe(Number(first) + 2);

  function objectOf(isIt: (homes: readonly string[]) => boolean): ObjectIdentity {
    for (let index = 0; ; index++) {
      const one = identityOf("default", "Teller", `k${index}`);
      if (isIt(node.fleet.ring.homesOf(partitionOf(one.id)))) return one;
    }
  }
});
