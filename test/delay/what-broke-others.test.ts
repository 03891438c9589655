/** Faults of other systems of this kind, tried on this one. Those that are not here are told in timers.test and messages.test. */
import { expect, it } from "vitest";
import { ArgumentStore } from "../../src/delay/argument-store.js";
import type { CommandRequest } from "../../src/delay/command.js";
import { delayShardClass } from "../../src/delay/shard-class.js";
import { ShardDriver } from "../../src/delay/shard-driver.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { Slots } from "../../src/delay/slots.js";
import { identityOf } from "../../src/identity.js";
import type { CallHost } from "../../src/lua/contract.js";
import { DelayCounters } from "../../src/metrics/delay-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { ObjectDatabase } from "../../src/store/object-database.js";
import { encodeValue } from "../../src/store/value-codec.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainObject, PlainValue } from "../../src/values.js";
import { sleep } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { appOf, VirtualNode } from "../support/virtual-node.js";
import { ALARM, POST } from "./classes.js";

const HOUR_MS = 3_600_000;

it("an overdue timer fires at the restart, and stands as set until then and not after", async () => {
  const virtual = await VirtualNode.start({ classes: { Alarm: ALARM } });
  const alarm = virtual.identity("Alarm/a");
  await virtual.call("Alarm/a", "set", 5, "late");
  expect(await virtual.time.until(virtual.node.timers(alarm))).toMatchObject({
    timers: [{ name: "late", state: "set" }],
  });
  await virtual.stop();
  await virtual.time.advance(HOUR_MS);
  await virtual.open();
  await virtual.time.advance(1_000);
  expect(await virtual.time.until(virtual.node.timers(alarm))).toMatchObject({
    timers: [],
    runs: [{ name: "late", outcome: "done" }],
  });
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["late of a by timer"]);
});

it.each([true, false])(
  "a wake-up is not lost wherever between commit and registration the node dies (atomic bucket: %s)",
  async (atomic) => {
    for (let steps = 0, hasCrashed = true; hasCrashed; steps += 2) {
      const virtual = await VirtualNode.start({ classes: { Alarm: ALARM }, bucket: { atomic, latencyMs: 3 } });
      await virtual.call("Alarm/a", "off", "nothing");
      let isOver = false;
      let isKept = false;
      hasCrashed = false;
      virtual.time.afterSteps(steps, () => {
        if (isOver) return;
        hasCrashed = true;
        virtual.crash();
      });
      virtual.start("Alarm/a", "set", [5, "up"]).then(
        () => {
          isKept = true;
        },
        () => {},
      );
      await virtual.time.advance(200);
      isOver = true;
      if (hasCrashed) await virtual.open();
      // Nobody calls it meanwhile.
      await virtual.time.advance(30_000);
      const rang = await virtual.call("Alarm/a", "rang");
      if (isKept || rang !== null) expect([steps, rang]).toEqual([steps, ["up of a by timer"]]);
      await virtual.stop();
    }
  },
  120_000,
);

it("a write that is nothing but a timer passes the gate, and is kept", async () => {
  for (const atomic of [true, false]) {
    const virtual = await VirtualNode.start({ classes: { Alarm: ALARM }, bucket: { atomic, latencyMs: 3 } });
    const { seq } = await virtual.time.until(virtual.start("Alarm/a", "set", [5, "only"]));
    expect(seq).toBe(1);
    virtual.crash();
    await virtual.open();
    await virtual.time.advance(10_000);
    expect(await virtual.call("Alarm/a", "rang")).toEqual(["only of a by timer"]);
  }
});

it("no change of members makes a timer or a command fire a second time", async () => {
  const settings = { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, HEALTH_INTERVAL_MS: 0, OBJECT_IDLE_MS: 2_000 };
  const fleet = new SimulatedFleet({ apps: [appOf({ Alarm: ALARM, Post: POST })], settings });
  const keys = Array.from({ length: 24 }, (_, index) => `k${index}`);
  const ask = async (className: string, key: string, method: string, args: PlainValue[] = []): Promise<PlainValue> => {
    const object = identityOf("default", className, key);
    const request = {
      object,
      method,
      args,
      caller: { kind: "client" as const },
      callId: `${className}-${key}-${method}`,
    };
    return (await fleet.time.until(fleet.node("n1").node.call(request))).value;
  };
  try {
    await fleet.start("n1");
    await fleet.start("n2");
    await fleet.time.advance(1_000);
    for (const key of keys) {
      await ask("Alarm", key, "set", [10, "once"]);
      const command = { app: "default", className: "Post", key, method: "count", args: [], delayMs: 10_000 };
      await fleet.time.until(fleet.node("n1").node.delay.send(command));
    }
    // Nodes come and go around the time at which all of them fall due.
    for (let moment = 0; moment < 12; moment++) {
      if (moment === 3)
        fleet
          .add("n3")
          .start()
          .catch(() => {});
      if (moment === 6) fleet.node("n2").crash();
      if (moment === 9)
        fleet
          .node("n2")
          .start()
          .catch(() => {});
      await fleet.time.advance(1_000);
    }
    await fleet.time.advance(30_000);
    for (const key of keys) {
      expect([key, await ask("Alarm", key, "rang")]).toEqual([key, [`once of ${key} by timer`]]);
      expect([key, await ask("Post", key, "counted")]).toEqual([key, 1]);
    }
  } finally {
    fleet.close();
  }
}, 60_000);

it("an outcome that cannot be written for long repeats no delivery, of itself or of those beside it", async () => {
  const delivered = new Map<string, number>();
  const native = {
    Bell: {
      ring: async (_: readonly unknown[], { key }: { key: string }) =>
        void delivered.set(key, (delivered.get(key) ?? 0) + 1),
    },
  };
  const settings = { OBJECT_ACK_GATE_MS: 1_000 };
  const virtual = await VirtualNode.start({ classes: { Post: POST }, native, settings, bucket: { latencyMs: 3 } });
  const keys = Array.from({ length: 30 }, (_, index) => `bell-${index}`);
  const sending = keys.map((key) =>
    virtual.node.delay.send({
      app: "default",
      className: "Bell",
      key,
      method: "ring",
      args: [],
      id: key,
      delayMs: 5_000,
    }),
  );
  await virtual.time.until(Promise.all(sending));
  for (let waited = 0; delivered.size === 0 && waited < 6_000; waited++) await virtual.time.advance(1);
  expect(delivered.size).toBeGreaterThan(0);
  const hold = virtual.bucket.gate();
  await virtual.time.advance(20_000);
  hold.release();
  await virtual.time.advance(60_000);
  const states = (await virtual.time.until(virtual.node.delay.list({ limit: 100 }))).map(({ state }) => state);
  expect(states).toEqual(keys.map(() => "done"));
  expect([...delivered.values()]).toEqual(keys.map(() => 1));
});

it("the clock set back by two hours runs no finished command again, and delays none that is set then", async () => {
  const virtual = await VirtualNode.start({ classes: { Post: POST } });
  const send = (id: string, delayMs: number) => {
    const command = { app: "default", className: "Post", key: "p", method: "count", args: [], id, delayMs };
    return virtual.time.until(virtual.node.delay.send(command));
  };
  await send("before", 1_000);
  await virtual.time.advance(20_000);
  virtual.world.wallOffsetMs -= 2 * HOUR_MS;
  await virtual.time.advance(60_000);
  expect(await virtual.call("Post/p", "counted")).toBe(1);
  await send("then", 1_000);
  await virtual.time.advance(20_000);
  expect(await virtual.call("Post/p", "counted")).toBe(2);
  await virtual.time.advance(3 * HOUR_MS);
  expect(await virtual.call("Post/p", "counted")).toBe(2);
});

it("100,000 commands due in the same second are delivered once each, none early, so many at a time", async () => {
  const COUNT = 100_000;
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const settings = resolveSettings({ DELAY_LOG_ENTRIES_MAX: 1_000 });
  const database = ObjectDatabase.open(world.folder, "shard.db", settings);
  database.begin();
  for (const migration of delayShardClass.migrations) database.migrate(migration);
  const host = {
    sqlExec: (sql: string, parameters: never) => database.exec(sql, parameters),
    sqlAll: (sql: string, parameters: never) => database.all(sql, parameters),
    sqlOne: (sql: string, parameters: never) => database.one(sql, parameters),
    get startedMs() {
      return world.clock.wallMs();
    },
  } as unknown as CallHost;
  const here = async (_shard: number, name: string, args: PlainValue[]): Promise<PlainValue> => {
    const step = delayShardClass.start({ kind: "method", name }, args, host).resume();
    if (step.kind === "failed") throw step.error;
    return step.kind === "returned" ? step.value : null;
  };
  const dueMs = world.clock.wallMs() + 10_000;
  const delivered = new Uint8Array(COUNT);
  const seen = { underWay: 0, most: 0, early: 0 };
  let tick: Promise<void> | undefined;
  const port = {
    isHome: () => true,
    holds: () => true,
    exists: async () => true,
    ask: here,
    here,
    wake: async () => ({ epoch: 0, seq: 0, ran: 0, inMs: null, dueMs: null }),
    call: async ({ object }: { object: { key: string } }): Promise<PlainValue> => {
      const index = Number(object.key);
      delivered[index] = (delivered[index] ?? 0) + 1;
      if (world.clock.wallMs() < dueMs) seen.early++;
      seen.most = Math.max(seen.most, ++seen.underWay);
      // All that are under way end together.
      tick ??= sleep(world, 1).finally(() => {
        tick = undefined;
      });
      await tick;
      seen.underWay--;
      return null;
    },
  };
  const driver = new ShardDriver(0, {
    world,
    settings,
    port,
    slots: new Slots(settings.DELAY_CONCURRENCY),
    counters: new DelayCounters(),
    arguments: new ArgumentStore({} as never),
    shards: new ShardMap([1]),
    ended: () => {},
    leftBehind: () => {},
  });
  const args = encodeValue([], 100, "");
  for (let from = 0; from < COUNT; from += 1_000) {
    const entries = Array.from({ length: 1_000 }, (_, index) => {
      const command: CommandRequest = {
        id: `c${from + index}`,
        app: "default",
        className: "Post",
        key: String(from + index),
        method: "count",
        args,
        argsHash: null,
        plan: { kind: "at", atMs: dueMs + ((from + index) % 1_000) },
        expiresMs: null,
        caller: {},
        outcome: null,
        triedAs: null,
      };
      return { kind: "schedule", command } as unknown as PlainObject;
    });
    await here(0, "append", [entries, 1_000]);
  }
  driver.poke();
  await time.advance(9_999);
  expect(seen.most).toBe(0);
  for (let waited = 0; delivered.includes(0) && waited < 600; waited++) await time.advance(1_000);
  await time.advance(5_000);
  expect(delivered.every((count) => count === 1)).toBe(true);
  expect(seen).toMatchObject({ underWay: 0, early: 0 });
  expect(seen.most).toBeLessThanOrEqual(settings.DELAY_CONCURRENCY);
  expect(await here(0, "tally", [])).toMatchObject({ counts: { done: COUNT }, waiting: 0 });
  await driver.stop();
  database.close();
}, 600_000);
