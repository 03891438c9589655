import { describe, expect, it } from "vitest";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { NODES_PREFIX } from "../../src/membership/node-record.js";
import { Fleet, type Process, SETTINGS } from "./fleet.js";

const TTL = SETTINGS.NODE_TTL_MS;
const MARGIN = SETTINGS.NODE_TTL_MARGIN_MS;
const POLL = TTL / 3;
/** Requests take up to 42 ms, a listing and its reads twice that. */
const STEP = 250;

const names = (process: Process): string[] => process.members?.members().map(({ node }) => node) ?? [];

function fleetOf(...nodes: string[]): Promise<[Fleet, Process, Process, Process]> {
  return started(new Fleet(), nodes);
}

function fleetOnOneMachine(...nodes: string[]): Promise<[Fleet, Process, Process, Process]> {
  return started(new Fleet(1, { isOneMachine: true }), nodes);
}

async function started(fleet: Fleet, nodes: readonly string[]): Promise<[Fleet, Process, Process, Process]> {
  const processes: Process[] = [];
  for (const name of nodes) processes.push(await fleet.start({ name }));
  await fleet.time.advance(2 * POLL);
  // As many as were named.
  return [fleet, ...processes] as unknown as [Fleet, Process, Process, Process];
}

describe("the members of a fleet", () => {
  it("are seen by all of them, in order of their names", async () => {
    const [fleet, c, a, b] = await fleetOf("c", "a", "b");
    for (const process of [a, b, c]) expect(names(process)).toEqual(["a", "b", "c"]);
    expect(a.members?.member("b")).toEqual(b.members?.self);
    expect(a.members?.member("x")).toBeUndefined();
    await fleet.stop();
  });

  it("stay as long as they renew", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const session = a.session;
    await fleet.time.advance(20 * TTL);
    expect(names(b)).toEqual(["a", "b"]);
    expect(a.session).toBe(session);
    expect([...a.told, ...b.told].filter(({ kind }) => kind !== "changed")).toEqual([]);
    await fleet.stop();
  });

  it("are refused beyond NODES_MAX, but come back under their name", async () => {
    const fleet = new Fleet();
    await fleet.start({ name: "a" });
    const b = await fleet.start({ name: "b" });
    const settings = { NODES_MAX: 2 };
    await expect(fleet.start({ name: "c", settings })).rejects.toMatchObject({ code: "fleet_full" });
    b.kill();
    await fleet.start({ name: "b", settings });
    await fleet.stop();
  });

  it("have names that can be part of a key", async () => {
    for (const name of ["", "a/b", "-a", "ä", "a".repeat(64)]) {
      await expect(new Fleet().start({ name })).rejects.toMatchObject({ code: "bad_name" });
    }
  });
});

describe("what clients may know", () => {
  it("of where a node answers reaches the others with its next renewal, and stays after a lapse", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.members?.serveClientsAt("http://127.0.0.1:7070");
    expect(b.members?.self.clientAddress).toBe("http://127.0.0.1:7070");
    const addressSeen = (): string | undefined => a.members?.member("b")?.clientAddress;
    expect(addressSeen()).toBeUndefined();
    await fleet.time.advance(POLL + STEP);
    expect(addressSeen()).toBe("http://127.0.0.1:7070");
    expect(a.toldOf("ended")).toEqual([]);
    b.bucket.faults.failNext(1_000, { kind: "refused" }, CHANGING_OPERATIONS);
    await fleet.time.advance(2 * TTL);
    expect(b.members?.whyInvalid()).toMatch(/no renewal/);
    b.bucket.faults.clear();
    await fleet.time.advance(2 * TTL);
    expect([b.members?.whyInvalid(), addressSeen()]).toEqual([undefined, "http://127.0.0.1:7070"]);
    await fleet.stop();
  });

  it("is also who died, until their records go", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const seen = () => a.members?.seen().map(({ record, standing }) => [record.node, standing]);
    b.kill();
    await fleet.time.advance(2 * TTL);
    expect(seen()).toEqual([
      ["a", "live"],
      ["b", "dead"],
    ]);
    await fleet.start({ name: "b" });
    await fleet.time.advance(POLL + STEP);
    expect(seen()?.[1]).toEqual(["b", "live"]);
    await fleet.stop();
  });
});

describe("a node that dies beside the others on one machine", () => {
  it("is found at their next reading, which a broken link brings on", async () => {
    const [fleet, a, b, c] = await fleetOnOneMachine("a", "b", "c");
    b.kill();
    a.members?.lookNow();
    await fleet.time.advance(STEP);
    expect(a.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    expect(names(a)).toEqual(["a", "c"]);
    await fleet.time.advance(POLL + STEP);
    expect(c.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    await fleet.stop();
  });

  it("is found though it breaks its links a while before it lets go of its mark", async () => {
    const [fleet, a, b] = await fleetOnOneMachine("a", "b");
    a.members?.lookNow();
    await fleet.time.advance(STEP);
    expect(names(a)).toEqual(["a", "b"]);
    b.kill();
    await fleet.time.advance(STEP);
    expect(names(a)).toEqual(["a"]);
    await fleet.stop();
  });

  it("is not found as long as it is only stopped", async () => {
    const [fleet, a, b] = await fleetOnOneMachine("a", "b");
    b.stopProcess();
    a.members?.lookNow();
    await fleet.time.advance(TTL - POLL - STEP);
    expect(names(a)).toEqual(["a", "b"]);
    b.continueProcess();
    await fleet.stop();
  });

  it("and comes back without its disk, as another of its name, does not wait", async () => {
    const [fleet, a, b] = await fleetOnOneMachine("a", "b");
    b.kill();
    const startedMs = fleet.time.nowMs;
    const again = await fleet.start({ name: "b", journal: "another" });
    expect(fleet.time.nowMs - startedMs).toBeLessThan(STEP);
    await fleet.time.advance(POLL + STEP);
    expect(a.members?.member("b")).toEqual(again.members?.self);
    await fleet.stop();
  });

  it("while another lives under its name: that one waits as everywhere", async () => {
    const [fleet, , b] = await fleetOnOneMachine("a", "b");
    b.stopProcess();
    const startedMs = fleet.time.nowMs;
    await fleet.start({ name: "b", journal: "another" });
    expect(fleet.time.nowMs - startedMs).toBeGreaterThan(TTL + MARGIN);
    b.continueProcess();
    await fleet.stop();
  });
});

describe("a node that dies", () => {
  it("is found within ttl + margin and a reading", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const diedMs = fleet.time.nowMs;
    b.kill();
    await fleet.time.advance(TTL + MARGIN + POLL + STEP);
    expect(a.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    expect((a.toldOf("ended")[0]?.atMs ?? 0) - diedMs).toBeGreaterThan(TTL - POLL);
    expect(names(a)).toEqual(["a"]);
    expect(a.members?.known(b.session)).toBe("dead");
    await fleet.time.advance(3 * TTL);
    expect(a.toldOf("ended").length).toBe(1);
    await fleet.stop();
  });

  it("is found within ttl + margin and a step where somebody looks when its links break", async () => {
    for (let renewal = 0; renewal < 12; renewal++) {
      const [fleet, a, b] = await fleetOf("a", "b");
      await fleet.time.advance((renewal * TTL) / 12);
      const diedMs = fleet.time.nowMs;
      b.kill();
      a.members?.lookNow();
      await fleet.time.advance(2 * TTL);
      expect((a.toldOf("ended")[0]?.atMs ?? 0) - diedMs).toBeLessThan(TTL + MARGIN + STEP);
      await fleet.stop();
    }
  });

  it("and comes back with its folder ends its old session at once", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.kill();
    const startedMs = fleet.time.nowMs;
    const again = await fleet.start({ name: "b" });
    expect(fleet.time.nowMs - startedMs).toBeLessThan(STEP);
    expect(again.members?.known(b.session)).toBe("dead");
    await fleet.time.advance(POLL + STEP);
    expect(a.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    expect(a.members?.member("b")?.session).toBe(again.session);
    expect(a.members?.known(again.session)).toBe("live");
    await fleet.stop();
  });

  it("and comes back without its disk waits until its old session is over", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.kill();
    const startedMs = fleet.time.nowMs;
    const again = await fleet.start({ name: "b", journal: "another" });
    expect(fleet.time.nowMs - startedMs).toBeGreaterThan(TTL + MARGIN);
    expect(fleet.time.nowMs - startedMs).toBeLessThan(TTL + MARGIN + TTL / 10 + STEP);
    await fleet.time.advance(POLL + STEP);
    expect(a.members?.member("b")).toEqual(again.members?.self);
    await fleet.stop();
  });

  it("is not declared dead while nothing can be read", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.kill();
    a.bucket.faults.failNext(10_000, { kind: "refused" }, ["get", "list"]);
    await fleet.time.advance(4 * TTL);
    expect(names(a)).toEqual(["a", "b"]);
    a.bucket.faults.clear();
    await fleet.time.advance(TTL + MARGIN + POLL);
    expect(names(a)).toEqual(["a"]);
    await fleet.stop();
  });

  it("leaves no record behind for ever, and can still come back", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.kill();
    await fleet.time.advance(13 * TTL);
    expect(fleet.contents.list(NODES_PREFIX, undefined, 10).keys.map((key) => key.split("/")[1])).toEqual(["a"]);
    await fleet.start({ name: "b" });
    await fleet.time.advance(POLL + STEP);
    expect(names(a)).toEqual(["a", "b"]);
    await fleet.stop();
  });

  it("and comes back while its old record is being removed loses nothing to a delete that lands late", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    b.kill();
    a.bucket.faults.failNext(1, { kind: "late", landsAfterMs: TTL }, ["delete"]);
    while (a.bucket.counts().delete === 0) await fleet.time.advance(10);
    const again = await fleet.start({ name: "b" });
    await fleet.time.advance(3 * TTL);
    expect(again.toldOf("lapsed")).toEqual([]);
    expect(a.members?.known(again.session)).toBe("live");
    await fleet.stop();
  });
});

describe("a node that stops", () => {
  it("is gone for the others at their next reading", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const stopping = b.members?.stop();
    expect(b.members?.isValid()).toBe(false);
    await fleet.time.until(stopping as Promise<void>);
    await fleet.time.advance(POLL + STEP);
    expect(a.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    expect(names(a)).toEqual(["a"]);
    expect(b.toldOf("lapsed")).toEqual([]);
    await expect(b.members?.standing("never")).rejects.toMatchObject({ code: "node_fenced" });
    await fleet.stop();
  });

  it("does not wait for a bucket longer than the others would", async () => {
    const [fleet, a] = await fleetOf("a");
    a.bucket.faults.hold();
    const startedMs = fleet.time.nowMs;
    await fleet.time.until(a.members?.stop() as Promise<void>);
    expect(fleet.time.nowMs - startedMs).toBeLessThanOrEqual(TTL);
  });
});

describe("a session", () => {
  it("lapses by the clock at the very moment of the question, before any timer has run", async () => {
    const [fleet, a] = await fleetOf("a");
    const { session } = a;
    a.world.stopProcess();
    await fleet.time.advance(TTL);
    a.world.continueProcess();
    expect(a.members?.isValid()).toBe(false);
    expect(a.toldOf("lapsed").length).toBe(1);
    expect(a.members?.isValid()).toBe(false);
    await fleet.time.advance(STEP);
    expect(a.toldOf("lapsed").length).toBe(1);
    expect(a.toldOf("joined").length).toBe(1);
    expect(a.session).not.toBe(session);
    expect(a.members?.isValid()).toBe(true);
    expect(a.members?.known(session)).toBe("dead");
    await fleet.stop();
  });

  it("lapses by a timer when nobody asks, once, and is followed by another when the bucket is there again", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const { session } = a;
    a.bucket.faults.failNext(10_000, { kind: "refused" });
    await fleet.time.advance(4 * TTL);
    expect(a.toldOf("lapsed").length).toBe(1);
    expect(a.toldOf("joined")).toEqual([]);
    a.bucket.faults.clear();
    await fleet.time.advance(TTL + STEP);
    expect(a.toldOf("joined").length).toBe(1);
    await fleet.time.advance(POLL + STEP);
    expect(b.members?.member("a")?.session).toBe(a.session);
    expect(b.members?.known(session)).toBe("dead");
    await fleet.stop();
  });

  it("outlives renewals that are refused, lost, answered into nothing or late, as long as one is known in time", async () => {
    for (const fault of [
      { kind: "refused" },
      { kind: "lost_request" },
      { kind: "lost_answer" },
      { kind: "late", landsAfterMs: 600 },
    ] as const) {
      const [fleet, a, b] = await fleetOf("a", "b");
      const { session } = a;
      for (let round = 0; round < 10; round++) {
        a.bucket.faults.failNext(3, fault, CHANGING_OPERATIONS);
        await fleet.time.advance(TTL);
      }
      expect(a.session).toBe(session);
      expect(a.told.filter(({ kind }) => kind !== "changed")).toEqual([]);
      expect(b.toldOf("ended")).toEqual([]);
      await fleet.stop();
    }
  });

  it("outlives a request that hangs", async () => {
    const [fleet, a] = await fleetOf("a");
    const hold = a.bucket.faults.hold(CHANGING_OPERATIONS);
    await fleet.time.advance(POLL + STEP);
    expect(hold.waiting).toBeGreaterThan(0);
    // Those that wait go on waiting; later ones pass.
    const { session } = a;
    await fleet.time.advance(TTL / 3);
    hold.release();
    await fleet.time.advance(3 * TTL);
    expect(a.session).toBe(session);
    await fleet.stop();
  });

  it("is not brought back by a renewal that is known only after its end, though no timer has run yet", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const { session } = a;
    const hold = a.bucket.faults.hold(CHANGING_OPERATIONS);
    while (hold.waiting === 0) await fleet.time.advance(10);
    a.world.stopProcess();
    while (b.toldOf("ended").length === 0) await fleet.time.advance(10);
    // The renewal lands, and its answer is there before the process looks at anything else.
    hold.release();
    await fleet.time.advance(50);
    a.world.continueProcess("arrivals");
    await fleet.time.settle();
    expect(a.session === session ? a.members?.isValid() : false).toBe(false);
    await fleet.time.advance(POLL + STEP);
    expect(a.toldOf("joined").length).toBe(1);
    expect(b.toldOf("ended").map((one) => one.session)).toEqual([session]);
    await fleet.stop();
  });

  it("does not end because one try of a renewal lost against another of its own", async () => {
    const [fleet, a] = await fleetOf("a");
    // The second try arrives while the first is on its way, and the answer of the first is back before the second's.
    a.writeLatenciesMs = [700, 1, 900, 1];
    await fleet.time.advance(3 * TTL);
    expect(a.writeLatenciesMs).toEqual([]);
    expect(a.toldOf("lapsed")).toEqual([]);
    await fleet.stop();
  });

  it("counts from the start of its renewal, not from the answer", async () => {
    const [fleet, a] = await fleetOf("a");
    const hold = a.bucket.faults.hold(CHANGING_OPERATIONS, "after");
    const begunMs = fleet.time.nowMs;
    await fleet.time.advance(TTL - MARGIN - POLL - 50);
    hold.release();
    a.bucket.faults.failNext(10_000, { kind: "refused" }, CHANGING_OPERATIONS);
    await fleet.time.advance(2 * TTL);
    const lapsedMs = a.toldOf("lapsed")[0]?.atMs ?? 0;
    expect(lapsedMs).toBeLessThanOrEqual(begunMs + POLL + TTL - MARGIN);
    await fleet.stop();
  });
});

describe("two processes of one name", () => {
  it("the later one has it, once the earlier is over, and the earlier does not come back", async () => {
    const [fleet, a, b] = await fleetOf("a", "b");
    const twin = await fleet.start({ name: "b", journal: "twin" });
    fleet.checkAllDead();
    expect(b.members?.isValid()).toBe(false);
    expect(b.toldOf("lapsed").length).toBe(1);
    expect(b.toldOf("replaced").length).toBe(1);
    await fleet.time.advance(4 * TTL);
    expect(b.toldOf("joined")).toEqual([]);
    expect(twin.members?.isValid()).toBe(true);
    expect(twin.toldOf("lapsed")).toEqual([]);
    expect(a.members?.member("b")?.session).toBe(twin.session);
    expect(a.toldOf("ended").map(({ session }) => session)).toEqual([b.session]);
    await fleet.stop();
  });

  it("that start at the same moment do not both stay", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const fleet = new Fleet(seed);
      const both = [fleet.launch({ name: "a", journal: "1" }), fleet.launch({ name: "a", journal: "2" })];
      await fleet.time.advance(5 * TTL);
      fleet.checkAllDead();
      expect(both.filter(({ members }) => members?.isValid()).length).toBe(1);
      await fleet.stop();
    }
  });
});

describe("the standing of a session", () => {
  it("that no record names is dead", async () => {
    const [fleet, a] = await fleetOf("a");
    expect(a.members?.known("never")).toBeUndefined();
    expect(await fleet.time.until(a.ask("never"))).toBe("dead");
    expect(a.members?.known("never")).toBe("dead");
    await fleet.stop();
  });

  it("that came since the last reading is live", async () => {
    const [fleet, a] = await fleetOf("a");
    const b = await fleet.start({ name: "b" });
    expect(a.members?.known(b.session)).toBeUndefined();
    expect(await fleet.time.until(a.ask(b.session))).toBe("live");
    expect(names(a)).toEqual(["a", "b"]);
    await fleet.stop();
  });

  it("is not known while something cannot be read", async () => {
    const [fleet, a] = await fleetOf("a", "b");
    a.bucket.faults.failNext(1, { kind: "refused" }, ["get"]);
    expect(await fleet.time.until(a.ask("never"))).toBe("failed");
    a.bucket.faults.failNext(1, { kind: "refused" }, ["list"]);
    expect(await fleet.time.until(a.ask("never"))).toBe("failed");
    await fleet.stop();
  });

  it("is found by one reading for all who ask at once, begun after they asked", async () => {
    const [fleet, a] = await fleetOf("a");
    await fleet.time.advance(POLL / 2);
    const before = a.bucket.counts().list;
    const first = a.ask("1");
    const others = ["2", "3", "4"].map((session) => a.ask(session));
    expect(await fleet.time.until(Promise.all([first, ...others]))).toEqual(["dead", "dead", "dead", "dead"]);
    expect(a.bucket.counts().list - before).toBe(2);
    await fleet.stop();
  });
});
