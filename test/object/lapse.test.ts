/** A session lapses at whatever moment: every object that was open serves again under the next one, and told no lie. */
import { afterEach, expect, it } from "vitest";
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
    function Box.read:all()
      local found = {}
      for _, row in ipairs(state.sql.all("SELECT a FROM t ORDER BY id")) do table.insert(found, row.a) end
      return found
    end
    return Box`,
};

/** Longer than the way of a call through the node, in microtasks. */
const MICROTASKS = 60;

/** A node of a fleet that has another session after each lapse. */
class Lapsing {
  virtual!: VirtualNode;
  /** Told of the next claim. */
  claimed = (): void => {};
  #hooks: FleetHooks | undefined;
  #sessions = 1;

  static async start(): Promise<Lapsing> {
    const lapsing = new Lapsing();
    const fleet: JoinedFleet = {
      ...loneFleet(""),
      get session() {
        return lapsing.session;
      },
      isHomeOf: () => true,
      ownEntries: async () => undefined,
      begin: (hooks) => {
        lapsing.#hooks = hooks;
      },
      claimed: () => lapsing.claimed(),
      leave: async () => true,
      stop: async () => {},
    };
    lapsing.virtual = await VirtualNode.start({ classes, fleet: async () => fleet });
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
  for (let turn = 0; turn < 5; turn++) {
    for (let count = 0; count < MICROTASKS; count++) {
      const box = `Box/${method}-${turn}-${count}`;
      await virtual.call(box, "put", 1);
      const letGo = inTurn(virtual.time, turn, () => afterMicrotasks(count, lapse));
      const answer = await virtual.time.until(virtual.start(box, method, [2]).catch(() => "failed"));
      letGo();
      await lapsing.assertServes(box, `lapsed after ${turn} turns and ${count} microtasks`);
      const all = (await virtual.call(box, "all")) as number[];
      if (method !== "put") expect(all).toEqual([1, 3]);
      else expect(all.filter((one) => one !== 2)).toEqual([1, 3]);
      if (method === "put" && answer !== "failed") expect(all).toEqual([1, 2, 3]);
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
