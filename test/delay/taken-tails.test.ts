/** What an object owes by writes that only journals held is taken up by whoever claims it, though nobody calls it. */
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { TakenTails } from "../../src/delay/taken-tails.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { SimulatedFleet, type SimulatedFleetOptions } from "../../src/simulation/simulated-fleet.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { temporaryFolder } from "../support/temporary-folder.js";
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

describe("an object that was claimed with a tail", () => {
  const alarm = identityOf("default", "Alarm", "a");

  function start() {
    const time = new VirtualTime();
    const world = new VirtualWorld({ time, root: temporaryFolder() });
    const wakes: Deferred<void>[] = [];
    const told: string[] = [];
    const tell = (word: string) => () => void told.push(word);
    const tails = new TakenTails({
      world,
      keeper: {
        renews: () => undefined,
        hold: tell("hold") as () => undefined,
        named: tell("named"),
        letGo: tell("let go"),
      },
      wake: () => {
        const wake = deferred();
        wakes.push(wake);
        return wake.promise;
      },
    });
    return { time, tails, wakes, told };
  }

  const failed = MoonportError.of("bucket_failed", "slow down");

  it("stays listed and is tried until it was woken", async () => {
    const { time, tails, wakes, told } = start();
    tails.claimEnded(alarm);
    expect(told).toEqual(["hold", "named"]);
    wakes[0]?.reject(failed);
    await time.advance(60_000);
    expect(wakes).toHaveLength(2);
    expect(told).not.toContain("let go");
    wakes[1]?.resolve();
    await time.advance(60_000);
    expect(told).toEqual(["hold", "named", "let go"]);
    expect(wakes).toHaveLength(2);
    expect(time.pendingTimers).toBe(0);
  });

  it("is woken by one try at a time, and once more when it was claimed again meanwhile", async () => {
    const { time, tails, wakes, told } = start();
    for (let claims = 0; claims < 3; claims++) tails.claimEnded(alarm);
    expect(wakes).toHaveLength(1);
    wakes[0]?.resolve();
    await time.settle();
    expect(wakes).toHaveLength(2);
    wakes[1]?.resolve();
    await time.settle();
    expect(wakes).toHaveLength(2);
    expect(told.filter((word) => word === "hold")).toHaveLength(1);
    expect(told.filter((word) => word === "let go")).toHaveLength(1);
  });

  it("waits for what is claimed together with it, and leaves room for others", async () => {
    const { time, tails, wakes } = start();
    const claims = deferred();
    const claimed = tails.claimsFirst(() => claims.promise);
    for (let number = 0; number < 100; number++) tails.claimEnded(identityOf("default", "Alarm", `k${number}`));
    await time.settle();
    expect(wakes).toHaveLength(0);
    claims.resolve();
    await time.until(claimed);
    expect(wakes).toHaveLength(64);
    for (const wake of wakes.splice(0)) wake.resolve();
    await time.settle();
    expect(wakes).toHaveLength(36);
  });

  it("keeps no timer of a node that stops", async () => {
    const { time, tails, wakes } = start();
    tails.claimEnded(alarm);
    wakes[0]?.reject(failed);
    await time.settle();
    expect(time.pendingTimers).toBe(1);
    tails.stop();
    await time.settle();
    expect(time.pendingTimers).toBe(0);
    expect(wakes).toHaveLength(1);
  });
});
