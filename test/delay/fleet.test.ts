/**
 * Delayed work in a fleet whose nodes die, lose their power, stop and come back: what a call obliges to is done once if the
 * call is kept, wherever its objects and shards live by then.
 */
import { expect, it } from "vitest";
import { ShardMap } from "../../src/delay/shard-map.js";
import { identityOf } from "../../src/identity.js";
import type { CallReply } from "../../src/node-api.js";
import { SimulatedFleet, type SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import type { PlainObject, PlainValue } from "../../src/values.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { appOf } from "../support/virtual-node.js";
import { ALARM, OWER } from "./classes.js";

const SEEDS = Number(process.env.MOONPORT_FLEET_SEEDS ?? 4);
const FIRST = Number(process.env.MOONPORT_SEED ?? 1);
const NODES = ["n1", "n2", "n3"];
const SENDERS = ["a", "b", "c", "d"];
const SETTINGS = {
  NODE_TTL_MS: 1_000,
  NODE_TTL_MARGIN_MS: 100,
  COVER_MS: 300,
  CLAIM_MS: 2_000,
  LINK_CONNECT_MS: 400,
  LINK_REQUEST_MS: 1_000,
  LINK_HEARTBEAT_MS: 100,
  LINK_BACKOFF_MAX_MS: 300,
  OBJECT_ACK_GATE_MS: 2_000,
  OBJECT_IDLE_MS: 2_000,
  CALL_TIMEOUT_MS: 4_000,
  DRAIN_MS: 2_000,
  HEALTH_INTERVAL_MS: 0,
  DELAY_BACKOFF_MS: 200,
  DELAY_BACKOFF_MAX_MS: 2_000,
};

it.each(Array.from({ length: SEEDS }, (_, index) => FIRST + index))("seed %i", { timeout: 120_000 }, async (seed) => {
  const fleet = new SimulatedFleet({ seed, apps: [appOf({ Ower: OWER })], settings: SETTINGS });
  try {
    await storm(fleet, new SeededRandom(seed));
  } finally {
    fleet.close();
  }
});

it("shards that go to a node that joins are served there, without anybody's call", { timeout: 60_000 }, async () => {
  const fleet = new SimulatedFleet({ seed: 1, apps: [appOf({ Alarm: ALARM })], settings: SETTINGS });
  try {
    const { time } = fleet;
    const first = await fleet.start("n1");
    const keys = Array.from({ length: 16 }, (_, index) => `k${index}`);
    for (const key of keys) await time.until(alarm(first, key, "set", 20, "late"));
    await fleet.start("n2");
    await time.advance(15_000);
    const stay = keys.filter((key) => first.node.local.holds(identityOf("default", "Alarm", key)));
    expect(stay.length, "some have left for the node that joined").toBeLessThan(keys.length);
    await time.advance(7_000);
    for (const key of keys) {
      const { value: last } = await time.until(alarm(first, key, "last"));
      const lateMs = first.world.clock.wallMs() - Number(last) * 1_000;
      expect(last, `${key} rang`).not.toBeNull();
      expect(lateMs, `${key} rang before it was asked`).toBeGreaterThan(1_000);
    }
  } finally {
    fleet.close();
  }
});

it("a shard that went to another node and came back is driven anew: what that one had taken up is delivered", async () => {
  const fleet = new SimulatedFleet({ seed: 1, apps: [appOf({ Alarm: ALARM })], settings: SETTINGS });
  try {
    const { time } = fleet;
    const first = await fleet.start("n1");
    const keys = Array.from({ length: 16 }, (_, index) => `k${index}`);
    const send = (key: string, delayMs: number) =>
      time.until(
        first.node.delay.send({ app: "default", className: "Alarm", key, method: "set", args: [0.1, "x"], delayMs }),
      );
    for (const key of keys) await send(key, 3_600_000);
    const second = await fleet.start("n2");
    await time.advance(5_000);
    const shards = new ShardMap([16]);
    const shardOf = (key: string) => identityOf("system", "DelayShard", String(shards.shardOf(`default/Alarm/${key}`)));
    const key = keys.find((one) => second.node.local.holds(shardOf(one))) as string;
    watchFaultPoints((point) => {
      if (point === "delivery.begun" && second.isUp) time.soon(() => second.crash());
    });
    const { id } = await send(key, 100);
    await time.advance(10_000);
    expect(second.isUp).toBe(false);
    expect(await time.until(first.node.delay.get(id))).toMatchObject({ command: { state: "done" } });
    expect((await time.until(alarm(first, key, "rang"))).value).toHaveLength(1);
  } finally {
    watchFaultPoints(() => {});
    fleet.close();
  }
});

function alarm(node: SimulatedNode, key: string, method: string, ...args: PlainValue[]): Promise<CallReply> {
  return node.call({ object: identityOf("default", "Alarm", key), method, args, caller: { kind: "client" } });
}

async function storm(fleet: SimulatedFleet, random: SeededRandom): Promise<void> {
  const { time } = fleet;
  for (const node of NODES) await fleet.start(node);
  const pick = <T>(from: readonly T[]): T => from[random.below(from.length)] as T;
  const acknowledged = new Set<number>();
  for (let call = 1; call <= 24; call++) {
    const node = fleet.node(pick(NODES));
    void node
      .call({ ...target(pick(SENDERS)), method: "work", args: [call, "z"], callId: `call-${call}` })
      .then(() => acknowledged.add(call))
      .catch(() => {});
    await time.advance(random.below(400));
    if (random.fraction() < 0.35) trouble(fleet, pick(NODES), random);
    await time.advance(random.below(600));
    for (const name of NODES) if (fleet.node(name).isDown && random.fraction() < 0.3) begin(fleet, name);
  }
  for (const name of NODES) if (fleet.node(name).isDown) begin(fleet, name);
  await time.advance(60_000);
  const all = new Map<string, PlainObject>();
  for (const key of [...SENDERS, "z"]) all.set(key, await read(fleet, key));
  const senders = SENDERS.map((key) => all.get(key) ?? {});
  const did = senders.flatMap(({ did = [] }) => list(did)).map(Number);
  expect(did).toEqual(expect.arrayContaining([...acknowledged]));
  expect(acknowledged.size).toBeGreaterThan(0);
  expect(sorted(senders.flatMap(({ rang = [] }) => list(rang)))).toEqual(sorted(did));
  const got = sorted(list(all.get("z")?.got ?? []));
  expect(got).toEqual(sorted(did.flatMap((one) => [`now ${one}`, `later ${one}`])));
  for (const { did: some = [], ticks = [] } of senders) {
    if (list(some).length > 0) expect(list(ticks).length).toBeGreaterThan(10);
  }
}

function trouble(fleet: SimulatedFleet, name: string, random: SeededRandom): void {
  const node = fleet.node(name);
  if (!node.isUp) return;
  const kind = random.fraction();
  if (kind < 0.4) node.crash();
  else if (kind < 0.7) node.crash({ power: true });
  else if (kind < 0.85) node.stop().catch(() => {});
  else {
    node.pause();
    fleet.time.after(1_500, () => node.resume());
  }
}

function begin(fleet: SimulatedFleet, name: string): void {
  fleet
    .node(name)
    .start()
    .catch(() => {});
}

function target(key: string) {
  return { object: identityOf("default", "Ower", key), caller: { kind: "client" as const } };
}

async function read(fleet: SimulatedFleet, key: string): Promise<PlainObject> {
  for (let tries = 0; ; tries++) {
    try {
      const reply: Promise<CallReply> = fleet.node("n1").call({ ...target(key), method: "all", args: [] });
      return (await fleet.time.until(reply)).value as PlainObject;
    } catch (error) {
      if (tries === 5) throw error;
      await fleet.time.advance(2_000);
    }
  }
}

function list(value: PlainValue): PlainValue[] {
  return Array.isArray(value) ? value : [];
}

function sorted(values: readonly PlainValue[]): string[] {
  return values.map(String).sort();
}
