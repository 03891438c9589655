/** What an object owes by writes that only journals held is taken up by whoever claims it, though nobody calls it. */
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { SimulatedFleet, type SimulatedFleetOptions } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { appOf } from "../support/virtual-node.js";
import { ALARM } from "./classes.js";

const NAMES = ["a", "b", "c"];
const DUE_S = 10;

afterEach(() => watchFaultPoints(() => {}));

async function threeNodes(options: Partial<SimulatedFleetOptions> = {}): Promise<SimulatedFleet> {
  const fleet = new SimulatedFleet({
    apps: [appOf({ Alarm: ALARM })],
    ...options,
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, COVER_MS: 2_000, CLAIM_MS: 500, CALL_TIMEOUT_MS: 5_000 },
  });
  onTestFinished(() => fleet.close());
  for (const name of NAMES) await fleet.start(name);
  await fleet.time.advance(1_000);
  return fleet;
}

function alarmAt(fleet: SimulatedFleet, homes: readonly string[]): ObjectIdentity {
  const { ring } = fleet.node("a").node.fleet;
  for (let number = 0; ; number++) {
    const object = identityOf("default", "Alarm", `k${number}`);
    if (ring.homesOf(partitionOf(object.id)).join() === homes.join()) return object;
  }
}

function call(fleet: SimulatedFleet, node: string, object: ObjectIdentity, method: string, ...args: PlainValue[]) {
  return fleet.node(node).call({ object, method, args, caller: { kind: "client" } });
}

/** It sets a timer, and nodes die when journals have that: nobody was told of it, not even the timer's shard. */
async function setAndDie(fleet: SimulatedFleet, object: ObjectIdentity, dying: readonly string[]): Promise<number> {
  const { time } = fleet;
  watchFaultPoints((point, detail) => {
    if (point !== "flight.released" || detail !== object.id) return;
    watchFaultPoints(() => {});
    for (const name of dying) fleet.node(name).crash();
  });
  const setMs = time.nowMs;
  call(fleet, dying[0] ?? "", object, "set", DUE_S, "late").catch(() => {});
  while (fleet.node(dying[0] ?? "").isUp) await time.advance(1);
  return setMs;
}

/** A read answers before the timers run that are due when it opens the object. */
async function expectRung(fleet: SimulatedFleet, node: string, object: ObjectIdentity, setMs: number): Promise<void> {
  const { time } = fleet;
  await time.advance(setMs + 2 * DUE_S * 1_000 - time.nowMs);
  const { value: rang } = await time.until(call(fleet, node, object, "rang"));
  expect(String(rang)).toContain(`late of ${object.key}`);
}

describe("a timer that stands in journals alone when its node dies", () => {
  it("rings though the journal of whoever claims the object has not heard of it", async () => {
    const fleet = await threeNodes({ atomicBucket: true });
    const object = alarmAt(fleet, ["a", "b", "c"]);
    await fleet.time.until(call(fleet, "a", object, "set", 1, "early"));
    await fleet.time.advance(5_000);
    fleet.network.cut("a", "b");
    const setMs = await setAndDie(fleet, object, ["a"]);
    await fleet.time.advance(5_000);
    expect(fleet.node("b").node.local.holds(object)).toBe(true);
    await expectRung(fleet, "b", object, setMs);
  });

  it("rings though the object is claimed by an operator who opens nothing", async () => {
    const fleet = await threeNodes();
    const object = alarmAt(fleet, ["a", "b", "c"]);
    const setMs = await setAndDie(fleet, object, ["a", "c"]);
    await fleet.time.advance(3_000);
    expect(await fleet.time.until(fleet.node("b").node.recover(object))).toMatchObject({ seq: 1 });
    for (const name of ["a", "c"]) await fleet.time.until(fleet.node(name).start());
    await expectRung(fleet, "b", object, setMs);
  });
});
