/** A node that stops pauses before no further try: its timers would keep the process alive for seconds. */
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { ArgumentStore } from "../../src/delay/argument-store.js";
import { OwedKeeper } from "../../src/delay/owed-keeper.js";
import { OwedSessions } from "../../src/delay/owed-sessions.js";
import { OwingList } from "../../src/delay/owing-list.js";
import { Scheduler } from "../../src/delay/scheduler.js";
import { ShardDriver } from "../../src/delay/shard-driver.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { Slots } from "../../src/delay/slots.js";
import { Wakings } from "../../src/delay/wakings.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { DelayCounters } from "../../src/metrics/delay-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const unknown = async (): Promise<never> => {
  throw MoonportError.of("outcome_unknown", "nobody knows");
};

async function start() {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder() });
  const bucket = new MemoryBucket(world);
  await bucket.start();
  const settings = resolveSettings();
  const shards = new ShardMap([1]);
  const argumentStore = new ArgumentStore(bucket);
  const place = { holds: () => true, exists: async () => true, isHome: () => true };
  const port = { ...place, ask: unknown, call: unknown, wake: unknown, here: unknown };
  const scheduler = new Scheduler({ world, settings, port, arguments: argumentStore, shards });
  const owing = new OwingList({ world, bucket, session: () => "mine" });
  const parts = { world, settings, port, shards, counters: new DelayCounters(), arguments: argumentStore };
  return { time, bucket, owing, scheduler, parts };
}

const alarm = identityOf("default", "Alarm", "a");

it("who wakes what a dead session owed", async () => {
  const { time, bucket, owing, parts } = await start();
  await time.until(bucket.write([{ key: "owing/dead/1", bytes: Buffer.from(`["${alarm.id}"]`) }]));
  const keeper = { hold: ({ id }: ObjectIdentity) => owing.add(id), letGo: () => {} };
  const wakings = new Wakings({ ...parts, keeper, wake: unknown });
  const sessions = new OwedSessions({
    ...parts,
    bucket,
    keeper,
    wakings,
    session: () => "mine",
    isDead: async () => true,
    isHome: () => true,
  });
  sessions.look();
  await time.advance(5_000);
  expect(time.pendingTimers).toBe(1);
  sessions.stop();
  wakings.stop();
  expect(time.pendingTimers).toBe(0);
});

it("who asks a shard again whose answer was lost, and is told so", async () => {
  const { time, scheduler } = await start();
  const appended = scheduler.append(0, { kind: "resume" }).catch((error: MoonportError) => error.code);
  await time.advance(500);
  expect(time.pendingTimers).toBe(1);
  scheduler.stop();
  expect(time.pendingTimers).toBe(0);
  expect(await time.until(appended)).toBe("outcome_unknown");
});

it("who tells wake times, and sends messages", async () => {
  const { time, owing, scheduler, parts } = await start();
  const keeper = new OwedKeeper({ ...parts, owing, scheduler, messages: unknown, sent: unknown });
  keeper.opened(alarm, 1, { seq: 1, nextDueMs: 1, messagesThrough: 1, isToldToShard: false });
  await time.advance(60_000);
  expect(time.pendingTimers).toBeGreaterThan(0);
  scheduler.stop();
  keeper.abandon();
  await time.settle();
  expect(time.pendingTimers).toBe(0);
});

it("a driver that notes what became of a delivery", async () => {
  const { time, parts } = await start();
  const here = async (_shard: number, method: string): Promise<never> => {
    const due = { wakes: [{ object: alarm.id, lookMs: 0, epoch: 1, seq: 1, failures: 0 }], commands: [], nextMs: null };
    if (method === "due") return { ...due, isDelivering: false } as never;
    return unknown();
  };
  const port = { ...parts.port, here };
  const driver = new ShardDriver(0, { ...parts, port, slots: new Slots(10), ended() {}, leftBehind() {} });
  driver.poke();
  await time.advance(3_000);
  driver.end();
  await time.settle();
  expect(time.pendingTimers).toBe(0);
});
