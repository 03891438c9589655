/** Timers of objects, on a whole node under virtual time. */
import { expect, it } from "vitest";
import type { PlainObject } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";
import { ALARM } from "./classes.js";

const DAY_MS = 86_400_000;
const LONG_WAITS = { DELAY_WAIT_MAX_MS: 366 * DAY_MS, OBJECT_IDLE_MS: DAY_MS };

async function start(settings: Readonly<Record<string, number>> = {}): Promise<VirtualNode> {
  return VirtualNode.start({ classes: { Alarm: ALARM }, settings });
}

it("a timer runs its method once, when it is due, and its object knows its key", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 5, "tea");
  await virtual.time.advance(4_990);
  expect(await virtual.call("Alarm/a", "rang")).toBeNull();
  await virtual.time.advance(60);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["tea of a by timer"]);
  await virtual.time.advance(60_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["tea of a by timer"]);
  await virtual.stop();
  expect(virtual.time.pendingTimers).toBe(0);
});

it("the next timer of an object is on time though what became of the one before is still gathered", async () => {
  const virtual = await start({ DELAY_WAKES_GATHER_MS: 1_000 });
  await virtual.call("Alarm/a", "set", 2, "first");
  await virtual.call("Alarm/a", "set", 2.05, "second");
  await virtual.call("Alarm/a", "set", 2.5, "third");
  await virtual.time.advance(2_100);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["first of a by timer", "second of a by timer"]);
  await virtual.time.advance(450);
  expect(((await virtual.call("Alarm/a", "rang")) as string[]).length).toBe(3);
  await virtual.stop();
});

it.each([25, 50, 400])("a delay of %i days is kept, in an object that sleeps", async (days) => {
  const virtual = await start(LONG_WAITS);
  await virtual.call("Alarm/a", "set", days * 86_400, "far");
  await virtual.time.advance(days * DAY_MS - 1_000);
  expect(await virtual.call("Alarm/a", "rang")).toBeNull();
  await virtual.time.advance(2_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["far of a by timer"]);
});

it("what fell due while the node was down runs when it is back, once", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 5, "late");
  virtual.crash();
  await virtual.time.advance(3_600_000);
  await virtual.open();
  await virtual.time.advance(1_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["late of a by timer"]);
  expect(await virtual.time.until(virtual.node.timers(virtual.identity("Alarm/a")))).toMatchObject({
    timers: [],
    runs: [{ method: "_ring", outcome: "done" }],
  });
});

it("a timer that is set while another session's debts are taken up is told to its shard", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 1, "first");
  await virtual.time.advance(2_000);
  // Both in one transaction: whoever takes up keeps nothing of the answer.
  const taking = virtual.node.wake(virtual.identity("Alarm/a"), "owner");
  const setting = virtual.call("Alarm/a", "set", 5, "second");
  await virtual.time.until(Promise.all([taking, setting]));
  await virtual.time.advance(6_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["first of a by timer", "second of a by timer"]);
  await virtual.stop();
});

it("of the runs that an hour's stop missed the policy says how many are made up for", async () => {
  for (const [policy, expected] of [
    ["all", 60],
    ["latest", 1],
    ["skip", 0],
  ] as const) {
    const virtual = await start({ DELAY_LATE_MS: 10_000 });
    await virtual.call("Alarm/a", "every", 60, policy);
    virtual.crash();
    // Half a minute beyond the sixtieth.
    await virtual.time.advance(3_630_000);
    await virtual.open();
    await virtual.time.advance(10_000);
    const rang = (await virtual.call("Alarm/a", "rang")) as string[] | null;
    expect(rang?.length ?? 0, policy).toBe(expected);
    // And it goes on at its own times.
    await virtual.time.advance(60_000);
    const then = (await virtual.call("Alarm/a", "rang")) as string[];
    expect(then.length, policy).toBe(expected + 1);
  }
});

it("an interval is kept from the plan, however long a run takes or is late", async () => {
  const virtual = await start();
  const begunMs = virtual.world.clock.wallMs();
  await virtual.call("Alarm/a", "every", 10, "latest");
  await virtual.time.advance(100_500);
  const last = (await virtual.call("Alarm/a", "last")) as number;
  const sinceMs = last * 1_000 - begunMs;
  expect((await virtual.call("Alarm/a", "rang")) as string[]).toHaveLength(10);
  expect(sinceMs % 10_000).toBeLessThan(100);
});

it("a cron expression follows its time zone through the change of the clocks", async () => {
  const virtual = await start(LONG_WAITS);
  // Berlin changes to summer time on 29 March 2026.
  await virtual.time.advance(Date.UTC(2026, 2, 27, 12) - virtual.world.clock.wallMs());
  await virtual.call("Alarm/a", "daily", 9);
  const hours: number[] = [];
  for (let day = 0; day < 4; day++) {
    await virtual.time.advance(DAY_MS);
    hours.push(new Date(((await virtual.call("Alarm/a", "last")) as number) * 1_000).getUTCHours());
  }
  expect(hours).toEqual([8, 7, 7, 7]);
});

it("a step of the wall clock neither silences a timer nor runs it twice", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 3_600, "hour");
  await virtual.call("Alarm/b", "set", 10, "soon");
  await virtual.time.advance(20_000);
  virtual.world.wallOffsetMs -= 7_200_000;
  await virtual.time.advance(60_000);
  expect(await virtual.call("Alarm/b", "rang")).toEqual(["soon of b by timer"]);
  virtual.world.wallOffsetMs += 4 * 3_600_000;
  await virtual.time.advance(15_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["hour of a by timer"]);
  virtual.world.wallOffsetMs -= 7_200_000;
  await virtual.time.advance(4 * 3_600_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["hour of a by timer"]);
  expect(await virtual.call("Alarm/b", "rang")).toEqual(["soon of b by timer"]);
});

it("a timer that fails is tried again with growing pauses, and what its method did is undone each time", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "fail_for", 20, 1);
  await virtual.time.advance(60_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["undone, or not"]);
});

it("after DELAY_ATTEMPTS_MAX failures a timer is given up, and stays to be seen", async () => {
  const virtual = await start({ DELAY_ATTEMPTS_MAX: 3 });
  await virtual.call("Alarm/a", "fail_for", 1_000_000, 1);
  await virtual.time.advance(3_600_000);
  const { timers } = await virtual.time.until(virtual.node.timers(virtual.identity("Alarm/a")));
  expect(timers).toMatchObject([{ name: "fails", state: "dead", error: { code: "method_error" } }]);
  expect(timers[0]?.nextMs).toBeUndefined();
});

it("a class that does not load for a while costs a timer no tries", async () => {
  const virtual = await start({ DELAY_ATTEMPTS_MAX: 2 });
  await virtual.call("Alarm/a", "set", 5, "tea");
  await virtual.reload({ Alarm: ALARM.replaceAll("_ring", "_chime") });
  await virtual.time.advance(600_000);
  expect(await virtual.call("Alarm/a", "rang")).toBeNull();
  await virtual.reload({ Alarm: ALARM });
  await virtual.time.advance(600_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["tea of a by timer"]);
});

it("a timer whose method is gone holds up nobody else", async () => {
  const virtual = await start({ DELAY_ATTEMPTS_MAX: 2 });
  const both = ALARM.replace(
    "return Alarm",
    "function Alarm:_gone() end function Alarm:go(s) schedule.after(s):_gone() end return Alarm",
  );
  await virtual.reload({ Alarm: both });
  await virtual.call("Alarm/a", "go", 5);
  await virtual.call("Alarm/a", "set", 5, "tea");
  await virtual.call("Alarm/a", "go", 5);
  await virtual.reload({ Alarm: ALARM });
  await virtual.time.advance(10_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["tea of a by timer"]);
  const { timers } = await virtual.time.until(virtual.node.timers(virtual.identity("Alarm/a")));
  expect(timers).toMatchObject([{ error: { code: "method_not_found" } }, { error: { code: "method_not_found" } }]);
  expect(virtual.node.counters.residenciesBroken).toBe(0);
});

it("a timer that is cancelled or moved does not run at its old time", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 5, "one");
  await virtual.call("Alarm/a", "set", 6, "two");
  expect(await virtual.call("Alarm/a", "off", "one")).toBe(true);
  expect(await virtual.call("Alarm/a", "move", "two", 60)).toBe(true);
  await virtual.time.advance(30_000);
  expect(await virtual.call("Alarm/a", "rang")).toBeNull();
  await virtual.time.advance(31_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["two of a by timer"]);
  expect(await virtual.call("Alarm/a", "off", "two")).toBe(false);
});

it("what a timer's method sets, replaces and cancels of timers is what holds", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "chain", 3);
  await virtual.time.advance(20_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["link 3", "link 2", "link 1"]);
  expect(await virtual.call("Alarm/a", "timers")).toEqual([]);
});

it("a timer may ask other objects, and all that fall due with it run", async () => {
  const virtual = await start();
  for (const other of ["b", "c"]) await virtual.call(`Alarm/${other}`, "set", 1, "there");
  await virtual.call("Alarm/a", "ask_all", ["b", "c", "b"], 5);
  await virtual.time.advance(10_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["b has 1", "c has 1", "b has 1"]);
});

it("a destroyed object's timers do not bring it back", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 5, "tea");
  await virtual.time.until(virtual.node.destroy(virtual.identity("Alarm/a")));
  await virtual.time.advance(60_000);
  const seen = await virtual.time.until(virtual.node.inspect(virtual.identity("Alarm/a")));
  expect(seen).toMatchObject({ state: "destroyed" });
});

it("objects that sleep wake for their timers: hundreds of them due in one second, none early, each once", async () => {
  const virtual = await start({ NODE_RESIDENT_MAX: 40, OBJECT_IDLE_MS: 1_000 });
  const keys = Array.from({ length: 200 }, (_, index) => `k${index}`);
  for (const key of keys) await virtual.call(`Alarm/${key}`, "at", virtual.world.clock.wallMs() / 1_000 + 600);
  await virtual.time.advance(660_000);
  for (const key of keys) {
    expect(await virtual.call(`Alarm/${key}`, "rang")).toEqual([`at of ${key} by timer`]);
    expect(await virtual.call(`Alarm/${key}`, "early")).toBeNull();
  }
});

it("an object that pushes its timer back with each call registers it once", async () => {
  const virtual = await start();
  await virtual.call("Alarm/a", "set", 30, "idle");
  await virtual.time.advance(1_000);
  const before = await logged(virtual);
  for (let call = 0; call < 20; call++) {
    await virtual.call("Alarm/a", "set", 30, "idle");
    await virtual.time.advance(1_000);
  }
  expect((await logged(virtual)) - before).toBe(0);
  await virtual.time.advance(31_000);
  expect(await virtual.call("Alarm/a", "rang")).toEqual(["idle of a by timer"]);
});

async function logged(virtual: VirtualNode): Promise<number> {
  const shards = Array.from({ length: 16 }, (_, shard) => shard);
  const logs = await virtual.time.until(Promise.all(shards.map((shard) => virtual.node.delay.log(shard, 0, 1_000))));
  return logs.flat().filter(({ what }) => (what as PlainObject).kind === "wake").length;
}
