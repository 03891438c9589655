/** Rows of objects that live on three nodes, told to shards that live on three nodes, asked for at each; and a node dies. */
import { expect, onTestFinished, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { appOf } from "../support/virtual-node.js";
import { lotClass } from "./lots.js";

const SETTINGS = { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, CLAIM_MS: 500, CALL_TIMEOUT_MS: 20_000 };
const KEYS = Array.from({ length: 24 }, (_, n) => `k${n}`);

async function threeNodes(): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({ apps: [appOf({ Lot: lotClass() })], settings: SETTINGS });
  onTestFinished(() => fleet.close());
  for (const name of ["a", "b", "c"]) await fleet.start(name);
  await fleet.time.advance(2_000);
  return fleet;
}

async function call(
  fleet: SimulatedFleet,
  node: string,
  key: string,
  method: string,
  args: PlainValue[],
): Promise<void> {
  const object = identityOf("default", "Lot", key);
  const caller = { kind: "client" as const };
  await fleet.time.until(
    fleet.node(node).call({ object, method, args, caller, callId: `${key}-${method}-${args[0]}` }),
  );
}

async function tops(fleet: SimulatedFleet, node: string): Promise<Record<string, PlainValue | undefined>> {
  const query = { limit: 100, order: "-top" };
  const page = await fleet.time.until(fleet.node(node).node.find({ app: "default", className: "Lot", query }));
  return Object.fromEntries(page.rows.map(({ key, row }) => [key, row.top]));
}

test("every node answers with the rows of all, also when the owner of some and of a shard has died", async () => {
  const fleet = await threeNodes();
  for (const [n, key] of KEYS.entries()) await call(fleet, ["a", "b", "c"][n % 3] as string, key, "put", [n]);
  await fleet.time.advance(3_000);
  const expected = Object.fromEntries(KEYS.map((key, n) => [key, n]));
  for (const node of ["a", "b", "c"]) expect(await tops(fleet, node)).toEqual(expected);
  const status = await fleet.time.until(fleet.node("b").node.directory("default", "Lot"));
  expect(status).toMatchObject({ rows: KEYS.length, current: KEYS.length });

  fleet.node("b").crash();
  await call(fleet, "a", "k0", "put", [100]);
  await call(fleet, "c", "k1", "put", [101]);
  await call(fleet, "c", "k2", "finish", []);
  await fleet.time.advance(10_000);
  const others: Record<string, number> = { ...expected, k0: 100, k1: 101 };
  delete others.k2;
  for (const node of ["a", "c"]) expect(await tops(fleet, node)).toEqual(others);
}, 20_000);

test("one node rebuilds the directory of objects that live on all", async () => {
  const fleet = await threeNodes();
  for (const [n, key] of KEYS.entries()) await call(fleet, "a", key, "put", [n]);
  await fleet.time.advance(3_000);
  await fleet.time.until(fleet.node("c").node.rebuildDirectory("default", "Lot"));
  await fleet.time.advance(10_000);
  const status = await fleet.time.until(fleet.node("c").node.directory("default", "Lot"));
  expect(status.walk).toMatchObject({ why: "rebuild", state: "done", objects: KEYS.length, failed: 0 });
  expect(await tops(fleet, "b")).toEqual(Object.fromEntries(KEYS.map((key, n) => [key, n])));
}, 20_000);
