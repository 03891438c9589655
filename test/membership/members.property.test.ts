/**
 * Fleets that live through anything: pauses, lost answers, outages, restarts with and without their disks, namesakes, clocks
 * that drift apart as far as the margin allows. Whoever is called dead is not valid from that moment on; whoever was left
 * alone is never called dead; and when it is calm, all see the same.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { BUCKET_OPERATIONS, CHANGING_OPERATIONS, type Fault } from "../../src/bucket/memory-faults.js";
import { Fleet, type Process, SETTINGS } from "./fleet.js";

const TTL = SETTINGS.NODE_TTL_MS;
const MARGIN = SETTINGS.NODE_TTL_MARGIN_MS;
const NODES = 4;

/** (ttl + margin) / (ttl − margin) is how much faster one clock may run than another. */
const RATE_MAX = Math.sqrt((TTL + MARGIN) / (TTL - MARGIN));

const duration = fc.oneof(fc.nat(400), fc.nat(2 * TTL), fc.integer({ min: TTL - 2 * MARGIN, max: TTL + 2 * MARGIN }));

const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.constantFrom<Fault>({ kind: "refused" }, { kind: "lost_request" }, { kind: "lost_answer" }),
  duration.map((landsAfterMs): Fault => ({ kind: "late", landsAfterMs })),
);

type Event =
  | { readonly kind: "pause"; readonly node: number; readonly forMs: number; readonly first: "in_order" | "arrivals" }
  | { readonly kind: "storm"; readonly node: number; readonly forMs: number }
  | { readonly kind: "outage"; readonly node: number; readonly forMs: number }
  | { readonly kind: "hang"; readonly node: number; readonly forMs: number; readonly point: "before" | "after" }
  | { readonly kind: "faults"; readonly node: number; readonly count: number; readonly fault: Fault }
  | { readonly kind: "kill"; readonly node: number }
  | { readonly kind: "restart"; readonly node: number; readonly hasDisk: boolean }
  | { readonly kind: "stop"; readonly node: number }
  | { readonly kind: "look"; readonly node: number }
  | { readonly kind: "ask"; readonly node: number; readonly of: number };

const node = fc.nat(NODES - 1);

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("pause" as const),
      node,
      forMs: duration,
      first: fc.constantFrom("in_order" as const, "arrivals" as const),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("storm" as const), node, forMs: fc.nat(10 * TTL) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("outage" as const), node, forMs: duration }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("hang" as const),
      node,
      forMs: duration,
      point: fc.constantFrom("before" as const, "after" as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("faults" as const), node, count: fc.integer({ min: 1, max: 6 }), fault }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("kill" as const), node }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("restart" as const), node, hasDisk: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("stop" as const), node }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("look" as const), node }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("ask" as const), node, of: fc.nat(20) }) },
);

interface Life {
  readonly seed: number;
  readonly isOneMachine: boolean;
  readonly rates: readonly number[];
  readonly events: readonly { readonly afterMs: number; readonly event: Event }[];
}

const rate = fc.oneof(
  fc.constantFrom(1 / RATE_MAX, RATE_MAX, 1),
  fc.double({ min: 1 / RATE_MAX, max: RATE_MAX, noNaN: true }),
);

const life: fc.Arbitrary<Life> = fc.record({
  seed: fc.nat(1_000_000),
  isOneMachine: fc.boolean(),
  rates: fc.array(rate, { minLength: NODES, maxLength: NODES }),
  events: fc.array(fc.record({ afterMs: duration, event }), { maxLength: 25 }),
});

class LivedFleet {
  readonly fleet: Fleet;
  /** The last process of each name. */
  readonly #current: Process[] = [];
  readonly #rates: readonly number[];
  #disks = 0;

  constructor({ seed, rates, isOneMachine }: Life) {
    this.fleet = new Fleet(seed, { isOneMachine });
    this.#rates = rates;
    for (let index = 0; index < NODES; index++) this.#launch(index, `node-${index}`);
  }

  /** In steps, with the safety case looked at after each. */
  async pass(durationMs: number): Promise<void> {
    for (let leftMs = durationMs; leftMs > 0; leftMs -= 25) {
      await this.fleet.time.advance(Math.min(25, leftMs));
      this.fleet.checkAllDead();
    }
  }

  do(event: Event): void {
    const process = this.#current[event.node] as Process;
    switch (event.kind) {
      case "restart":
        return this.#restart(event.node, event.hasDisk);
      case "kill":
        return process.kill();
    }
    if (!process.isAlive) return;
    const { faults } = process.bucket;
    const { time } = this.fleet;
    switch (event.kind) {
      case "pause":
        process.stopProcess();
        time.after(event.forMs, () => process.continueProcess(event.first));
        return;
      case "storm":
        process.isUndisturbed = false;
        process.isStormy = true;
        time.after(event.forMs, () => {
          process.isStormy = false;
        });
        return;
      case "outage":
        process.isUndisturbed = false;
        faults.failNext(100_000, { kind: "refused" });
        time.after(event.forMs, () => faults.clear());
        return;
      case "hang": {
        process.isUndisturbed = false;
        const hold = faults.hold(BUCKET_OPERATIONS, event.point);
        time.after(event.forMs, () => hold.release());
        return;
      }
      case "faults":
        process.isUndisturbed = false;
        faults.failNext(event.count, event.fault, CHANGING_OPERATIONS);
        return;
      case "stop":
        if (process.world.isStopped || process.members === undefined) return;
        process.isUndisturbed = false;
        process.hasStopped = true;
        void process.members.stop();
        return;
      case "look":
        if (process.world.isStopped) return;
        process.members?.isValid();
        process.members?.lookNow();
        return;
      case "ask": {
        if (process.world.isStopped || process.members === undefined) return;
        const sessions = [...this.fleet.processes.flatMap((one) => [...one.sessions]), "nobody"];
        void process.ask(sessions[event.of % sessions.length] as string);
      }
    }
  }

  /** Nothing is done any more, and everything goes on. */
  async calm(): Promise<void> {
    for (const process of this.#current) {
      process.bucket.faults.clear();
      process.isStormy = false;
      process.continueProcess();
    }
    await this.pass(4 * TTL + 20_000);
  }

  #launch(index: number, journal: string): void {
    const monotonicRate = this.#rates[index] as number;
    this.#current[index] = this.fleet.launch({ name: `node-${index}`, journal, monotonicRate });
  }

  /** With its disk: the old process is gone. Without: it may live on elsewhere, under the same name. */
  #restart(index: number, hasDisk: boolean): void {
    const process = this.#current[index] as Process;
    if (hasDisk) process.kill();
    process.isUndisturbed = false;
    this.#launch(index, hasDisk ? process.journal : `disk-${++this.#disks}`);
  }
}

it("who is called dead is fenced, who is left alone stays, and in the end all agree", async () => {
  await fc.assert(
    fc.asyncProperty(life, async (lived) => {
      const world = new LivedFleet(lived);
      const { fleet } = world;
      await world.pass(TTL);
      for (const { afterMs, event: one } of lived.events) {
        await world.pass(afterMs);
        world.do(one);
      }
      await world.calm();
      for (const process of fleet.processes) {
        if (!process.isUndisturbed || !process.isAlive) continue;
        expect(process.toldOf("lapsed"), `${process.name} was left alone`).toEqual([]);
        expect(fleet.dead).not.toContain(process.session);
      }
      for (const process of fleet.processes) {
        const lapsed = process.toldOf("lapsed").map(({ session }) => session);
        expect(new Set(lapsed).size).toBe(lapsed.length);
        if (!process.isAlive || process.hasStopped || process.toldOf("replaced").length > 0) continue;
        expect(process.members?.isValid(), `${process.name} has a session`).toBe(true);
      }
      const members = fleet.running.filter((process) => process.members?.isValid());
      expect(new Set(members.map(({ name }) => name)).size).toBe(members.length);
      const expected = members.map((process) => process.session).sort();
      for (const process of members) {
        expect(
          process.members
            ?.members()
            .map(({ session }) => session)
            .sort(),
        ).toEqual(expected);
        for (const session of fleet.dead) expect(process.members?.known(session)).not.toBe("live");
        const ended = process.toldOf("ended").map(({ session }) => session);
        expect(new Set(ended).size).toBe(ended.length);
      }
      await fleet.stop();
    }),
    { numRuns: 100, seed: 20260103 },
  );
});

it("a node that dies is found within ttl, twice the margin and a reading, whatever the clocks", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(1_000_000), rate, rate, fc.nat(TTL), async (seed, mine, theirs, afterMs) => {
      const fleet = new Fleet(seed);
      const observer = await fleet.start({ name: "a", monotonicRate: mine });
      const dying = await fleet.start({ name: "b", monotonicRate: theirs });
      await fleet.time.advance(TTL + afterMs);
      const diedMs = fleet.time.nowMs;
      dying.kill();
      // By the observer's clock; a request and its answer take up to 42 ms.
      await fleet.time.advance((TTL + 2 * MARGIN + TTL / 3 + 100) / mine);
      expect(observer.toldOf("ended").map(({ session }) => session)).toEqual([dying.session]);
      expect(observer.toldOf("ended")[0]?.atMs).toBeGreaterThan(diedMs);
      await fleet.stop();
    }),
    { numRuns: 50, seed: 20260104 },
  );
});
