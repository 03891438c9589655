/** A session lapses at whatever moment: every object that was open serves again under the next one, and told no lie. */
import { afterEach, describe, expect, it } from "vitest";
import type { FleetHooks, JoinedFleet } from "../../src/node-options.js";
import { loneFleet } from "../../src/shipping/fleet-view.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest } from "../../src/shipping/manifest.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { afterMicrotasks, inTurn } from "../support/turns.js";
import { VirtualNode } from "../support/virtual-node.js";

const classes = {
  Box: `
    local Box = class "Box"
    Box.migrations = { "CREATE TABLE t (id INTEGER PRIMARY KEY, a)" }
    function Box:put(a) state.sql.exec("INSERT INTO t (a) VALUES (?)", a) return a end
    function Box:fail() error("no") end
    function Box:ask(a) return Box("other"):put(a) end
    function Box:ask_and_spin(a) Box("other"):put(a) for i = 1, 1e7 do local x = i end end
    function Box:spin() for i = 1, 2e4 do local x = i end end
    function Box.read:slowly() for i = 1, 2e4 do local x = i end return "read" end
    function Box.read:all()
      local found = {}
      for _, row in ipairs(state.sql.all("SELECT a FROM t ORDER BY id")) do table.insert(found, row.a) end
      return found
    end
    return Box`,
};

const units = { ask: `return function() return { body = Box("a"):ask(2) } end` };

/** Longer than the way of a call through the node, in microtasks. */
const MICROTASKS = 60;

/** A node of a fleet that has another session after each lapse. */
class Lapsing {
  virtual!: VirtualNode;
  /** Told of the next claim. */
  claimed = (): void => {};
  isValid = true;
  #hooks: FleetHooks | undefined;
  #sessions = 1;

  static async start(): Promise<Lapsing> {
    const lapsing = new Lapsing();
    const fleet: JoinedFleet = {
      ...loneFleet(""),
      get session() {
        return lapsing.session;
      },
      isValid: () => lapsing.isValid,
      isHomeOf: () => true,
      ownEntries: async () => undefined,
      begin: (hooks) => {
        lapsing.#hooks = hooks;
      },
      claimed: () => lapsing.claimed(),
      leave: async () => true,
      stop: async () => {},
    };
    lapsing.virtual = await VirtualNode.start({ classes, units, fleet: async () => fleet });
    return lapsing;
  }

  get session(): string {
    return `session-${this.#sessions}`;
  }

  lapse = (): void => {
    this.#sessions++;
    this.#hooks?.lapsed();
  };

  /** It serves, under the session that there is. */
  async assertServes(box: string, when: string): Promise<void> {
    const { virtual } = this;
    expect(await virtual.call(box, "put", 3), when).toBe(3);
    const { id } = virtual.identity(box);
    const record = await virtual.time.until(virtual.bucket.get(new ObjectKeys(virtual.identity(box)).manifest));
    expect(decodeManifest(id, record?.bytes ?? new Uint8Array()).owner, when).toBe(this.session);
  }
}

function afterTurns(virtual: VirtualNode, turns: number, action: () => void): void {
  if (turns === 0) action();
  else virtual.time.soon(() => afterTurns(virtual, turns - 1, action));
}

afterEach(() => watchFaultPoints(() => {}));

it.each(["put", "fail", "ask"])("in any microtask of any turn of a call of %s", async (method) => {
  const lapsing = await Lapsing.start();
  const { virtual, lapse } = lapsing;
  const asked = async (): Promise<unknown> => (method === "ask" ? virtual.call("Box/other", "all") : undefined);
  for (let turn = 0; turn < 5; turn++) {
    for (let count = 0; count < MICROTASKS; count++) {
      const box = `Box/${method}-${turn}-${count}`;
      await virtual.call(box, "put", 1);
      const before = await asked();
      const letGo = inTurn(virtual.time, turn, () => afterMicrotasks(count, lapse));
      const answer = await virtual.time.until(virtual.start(box, method, [2]).catch(({ code }) => code));
      letGo();
      // Whoever may simply ask again, as the fleet does, would have it done twice.
      if (answer === "object_restarting" || answer === "node_fenced") expect(await asked()).toEqual(before);
      await lapsing.assertServes(box, `lapsed after ${turn} turns and ${count} microtasks`);
      const all = (await virtual.call(box, "all")) as number[];
      if (method !== "put") expect(all).toEqual([1, 3]);
      else expect(all.filter((one) => one !== 2)).toEqual([1, 3]);
      if (method === "put" && typeof answer !== "string") expect(all).toEqual([1, 2, 3]);
    }
  }
  await virtual.stop();
});

it("in any microtask after its COMMIT", async () => {
  const lapsing = await Lapsing.start();
  const { virtual, lapse } = lapsing;
  for (let count = 0; count < MICROTASKS; count++) {
    const box = `Box/${count}`;
    await virtual.call(box, "put", 1);
    let hasCommitted = false;
    watchFaultPoints((point) => {
      if (point !== "burst.committed" || hasCommitted) return;
      hasCommitted = true;
      afterMicrotasks(count, lapse);
    });
    await virtual.time.until(virtual.start(box, "put", [2]).catch(() => {}));
    await lapsing.assertServes(box, `lapsed after ${count}`);
    expect(((await virtual.call(box, "all")) as number[]).filter((one) => one !== 2)).toEqual([1, 3]);
  }
  await virtual.stop();
});

it.each(["asked for", "claimed"])("in any turn and microtask after it was %s, while it is opened", async (since) => {
  const lapsing = await Lapsing.start();
  const { virtual, lapse } = lapsing;
  for (let turns = 0; turns < 8; turns++) {
    for (let count = 0; count < 24; count++) {
      const box = `Box/${turns}-${count}`;
      let letGo = (): void => {};
      const begin = (): void => {
        lapsing.claimed = () => {};
        letGo = inTurn(virtual.time, turns, () => afterMicrotasks(count, lapse));
      };
      if (since === "claimed") lapsing.claimed = begin;
      else begin();
      await virtual.time.until(virtual.start(box, "put", [2]).catch(() => {}));
      letGo();
      await lapsing.assertServes(box, `lapsed after ${turns} turns and ${count} microtasks`);
      expect(((await virtual.call(box, "all")) as number[]).filter((one) => one !== 2)).toEqual([3]);
    }
  }
  await virtual.stop();
});

it.each([
  ["that is there", 1],
  ["that never was", 99],
])("in any turn of bringing back a past %s", async (_, seq) => {
  const lapsing = await Lapsing.start();
  const { virtual, lapse } = lapsing;
  for (let turns = 0; turns < 60; turns++) {
    const box = `Box/${turns}`;
    for (const value of [1, 2]) await virtual.call(box, "put", value);
    afterTurns(virtual, turns, lapse);
    await virtual.time.until(virtual.node.restore(virtual.identity(box), { at: { seq } }).catch(() => {}));
    await lapsing.assertServes(box, `lapsed after ${turns} turns`);
    const all = await virtual.call(box, "all");
    if (seq === 99) expect(all).toEqual([1, 2, 3]);
    else
      expect([
        [1, 2, 3],
        [1, 3],
      ]).toContainEqual(all);
  }
  await virtual.stop();
});

it("in any microtask after a past turned out to take no place", async () => {
  const lapsing = await Lapsing.start();
  const { virtual, lapse } = lapsing;
  for (let count = 0; count < MICROTASKS; count++) {
    const box = `Box/${count}`;
    for (const value of [1, 2]) await virtual.call(box, "put", value);
    watchFaultPoints((point) => {
      if (point !== "restore.made") return;
      afterMicrotasks(count, lapse);
      throw new Error("it cannot be adapted");
    });
    const restoring = virtual.node.restore(virtual.identity(box), { at: { seq: 1 } });
    await expect(virtual.time.until(restoring)).rejects.toThrow("adapted");
    await lapsing.assertServes(box, `lapsed after ${count}`);
    expect(await virtual.call(box, "all")).toEqual([1, 2, 3]);
  }
  await virtual.stop();
});

describe("a call for which another object has acted, or may have, is not told that it may simply be asked again", () => {
  const UNKNOWN = { code: "outcome_unknown" };

  /** Box/a has asked Box/other, whose write is held before it lands. */
  async function asking<T>(begin: (virtual: VirtualNode) => Promise<T>) {
    const lapsing = await Lapsing.start();
    const { virtual } = lapsing;
    for (const box of ["Box/a", "Box/other"]) await virtual.call(box, "put", 1);
    const hold = virtual.bucket.gate();
    const call = begin(virtual);
    await virtual.time.settle();
    return { lapsing, virtual, hold, call };
  }

  it("when its session lapses while it waits", async () => {
    const { lapsing, virtual, hold, call } = await asking((one) => one.start("Box/a", "ask", [2]));
    lapsing.lapse();
    hold.release();
    await expect(virtual.time.until(call)).rejects.toMatchObject(UNKNOWN);
    await virtual.stop();
  });

  it("when its session lapses between two slices, nor is who repeats it", async () => {
    const { lapsing, virtual, hold, call } = await asking((one) =>
      one.start("Box/a", "ask_and_spin", [2], { callId: "once" }),
    );
    virtual.world.lookCostMs = 0.5;
    const calls = [call];
    inTurn(virtual.time, 6, () => {
      calls.push(virtual.start("Box/a", "ask_and_spin", [2], { callId: "once" }));
      afterTurns(virtual, 2, lapsing.lapse);
    });
    hold.release();
    await virtual.time.until(Promise.allSettled([call]));
    const codes = await virtual.time.until(Promise.all(calls.map((one) => one.catch(({ code }) => code))));
    expect(codes).toEqual(["outcome_unknown", "outcome_unknown"]);
    await virtual.stop();
  });

  it("when it is a unit that made the call", async () => {
    const { lapsing, virtual, hold, call } = await asking((one) => one.startUnit("ask"));
    lapsing.lapse();
    hold.release();
    const calls = [{ object: "default/Box/a", method: "ask", callId: expect.any(String), fate: "unknown" }];
    await expect(virtual.time.until(call)).rejects.toMatchObject({ ...UNKNOWN, details: { calls } });
    await virtual.stop();
  });

  it("when it is the session that would vouch for its answer, and cannot any more", async () => {
    const { lapsing, virtual, hold, call } = await asking((one) => one.start("Box/a", "ask", [2]));
    lapsing.isValid = false;
    hold.release();
    await expect(virtual.time.until(call)).rejects.toMatchObject(UNKNOWN);
    lapsing.isValid = true;
    await virtual.stop();
  });
});

it("a call whose question has not left when its session lapses has done nothing, and asks nobody", async () => {
  const lapsing = await Lapsing.start();
  const { virtual } = lapsing;
  for (const box of ["Box/a", "Box/other"]) await virtual.call(box, "put", 1);
  const hold = virtual.bucket.gate();
  // Its own write has to land before anything leaves.
  const calls = [virtual.start("Box/a", "put", [2]), virtual.start("Box/a", "ask", [2])];
  await virtual.time.settle();
  lapsing.lapse();
  hold.release();
  const codes = await virtual.time.until(Promise.all(calls.map((call) => call.catch(({ code }) => code))));
  expect(codes).toEqual(["outcome_unknown", "object_restarting"]);
  expect(await virtual.call("Box/other", "all")).toEqual([1]);
  await virtual.stop();
});

it("between the slices of a call that waits for a read to end: who reads later is not kept waiting for that call", async () => {
  const lapsing = await Lapsing.start();
  const { virtual } = lapsing;
  await virtual.call("Box/a", "put", 1);
  virtual.world.lookCostMs = 0.5;
  const codes: unknown[] = [];
  const note = (call: Promise<{ readonly value: unknown }>) =>
    call.then(
      ({ value }) => codes.push(value),
      ({ code }) => codes.push(code),
    );
  const calls = [note(virtual.start("Box/a", "spin"))];
  afterTurns(virtual, 3, () => calls.push(note(virtual.start("Box/a", "slowly"))));
  afterTurns(virtual, 6, lapsing.lapse);
  await virtual.time.advance(1_000);
  await Promise.all(calls);
  expect(codes).toEqual(["node_fenced", "node_fenced"]);
  let found: unknown;
  void virtual.node.inspect(virtual.identity("Box/a")).then((inspection) => (found = inspection));
  await virtual.time.advance(1_000);
  expect(found).toMatchObject({ object: "default/Box/a", seq: 1 });
  await virtual.stop();
});
