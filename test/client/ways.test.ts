/** The ways of a client that may learn nodes: where its calls go, and that none is lost or done twice, whatever nodes name. */
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { CallOrder } from "../../src/client/call-order.js";
import type { MoonportClient } from "../../src/client/client.js";
import { Lane } from "../../src/client/lane.js";
import { type ErrorCode, MoonportError } from "../../src/errors.js";
import { problemOf } from "../../src/wire/problem.js";
import { type FrameOf, type ScriptedConnection, ScriptedNode } from "./support/scripted-node.js";

let node: ScriptedNode;
beforeEach(() => {
  node = new ScriptedNode();
});

/** The newest connection to the host. */
function to(host: string): ScriptedConnection {
  const found = node.connections.findLast(({ url }) => new URL(url).host === host);
  if (found === undefined) throw new Error(`nobody has connected to ${host}`);
  return found;
}

const hosts = (): string[] => node.connections.map(({ url }) => new URL(url).host);

const named = (host: string) => ({ node: { name: host, url: `http://${host}` } });

/** The connection answers its newest call. */
async function answer(host: string, more: object = {}): Promise<void> {
  await to(host).say({ type: "reply", id: to(host).last("call").id, value: 1, ...more });
}

async function failure(host: string, code: ErrorCode): Promise<void> {
  const error = problemOf(MoonportError.of(code, `it is ${code}`));
  await to(host).say({ type: "error", id: to(host).last("call").id, error });
}

/** Of a client that has been told that the object is at b.test, and has a way there. */
async function learned(options: object = {}): Promise<MoonportClient> {
  const client = node.clientOf(["ws://a.test"], { learnNodes: true, ...options });
  await node.time.settle();
  const first = client.object("Counter", "a").call("add");
  await answer("a.test", named("b.test"));
  await first;
  return client;
}

describe("a client that may learn nodes", () => {
  it("calls an object where a reply said that it lives, over one more socket", async () => {
    const client = await learned();
    for (let time = 2; time <= 4; time++) {
      const next = client.object("Counter", "a").call("add");
      expect(to("b.test").of("call")).toHaveLength(time - 1);
      await answer("b.test");
      await next;
    }
    client
      .object("Counter", "another")
      .call("add")
      .catch(() => {});
    expect(to("a.test").last("call").key).toBe("another");
    expect(hosts()).toEqual(["a.test", "b.test"]);
    await client.close();
    expect(node.connections.every(({ isOver }) => isOver)).toBe(true);
  });

  it("goes nowhere unless it may", async () => {
    const client = await learned({ learnNodes: false });
    void client.object("Counter", "a").call("add");
    expect([hosts(), to("a.test").of("call").length]).toEqual([["a.test"], 2]);
  });

  it("asks its own node where the way is not there yet, or a copy may answer", async () => {
    node.away.add("b.test");
    const client = await learned();
    void client.object("Counter", "a").call("add");
    expect(to("a.test").of("call")).toHaveLength(2);
    node.away.clear();
    await node.time.advance(1_000);
    await answer("a.test", named("b.test"));
    void client
      .object("Counter", "a")
      .call("value", [], { consistency: "replica" })
      .catch(() => {});
    expect(to("a.test").of("call")).toHaveLength(3);
    void client.object("Counter", "a").call("add");
    expect(to("b.test").of("call")).toHaveLength(1);
  });

  it("follows an object that has moved: what the owner of before passes on names the new one", async () => {
    const client = await learned();
    const second = client.object("Counter", "a").call("add");
    await answer("b.test", named("c.test"));
    await second;
    void client.object("Counter", "a").call("add");
    expect(to("c.test").of("call")).toHaveLength(1);
  });

  it("forgets the place when its own node turns out to own the object", async () => {
    const client = await learned();
    const second = client.object("Counter", "a").call("add");
    await answer("b.test", named("a.test"));
    await second;
    void client.object("Counter", "a").call("add");
    expect(to("a.test").of("call")).toHaveLength(2);
    expect(hosts()).toEqual(["a.test", "b.test"]);
  });

  it.each(["moved", "node_stopping", "node_fenced", "outcome_unknown"] as const)(
    "asks its own node, under the same id, after %s",
    async (code) => {
      const client = await learned();
      const second = client.object("Counter", "a").call("add");
      const { callId } = to("b.test").last("call");
      await failure("b.test", code);
      await node.time.advance(1_000);
      expect(to("a.test").last("call")).toMatchObject({ callId, method: "add" });
      await answer("a.test");
      expect(await second).toBe(1);
    },
  );

  it("asks the owner again after what only that one can mend", async () => {
    const client = await learned();
    void client.object("Counter", "a").call("add");
    await failure("b.test", "mailbox_full");
    await node.time.advance(2_000);
    expect(to("b.test").of("call")).toHaveLength(2);
  });

  it("asks its own node, under the same id, when the way is lost, and makes no new one for a growing while", async () => {
    const client = await learned();
    const second = client.object("Counter", "a").call("add");
    const { callId } = to("b.test").last("call");
    node.away.add("b.test");
    to("b.test").close();
    await node.time.settle();
    expect(to("a.test").last("call").callId).toBe(callId);
    await answer("a.test", named("b.test"));
    await second;
    expect(hosts()).toEqual(["a.test", "b.test"]);
    const tries: number[] = [];
    for (let ms = 0; ms < 20_000; ms += 100) {
      const next = client.object("Counter", "a").call("add");
      await answer("a.test", named("b.test"));
      await next;
      await node.time.advance(100);
      if (hosts().length > 2 + tries.length) tries.push(ms);
    }
    expect(tries.length).toBeGreaterThan(3);
    expect(tries.length).toBeLessThan(12);
    expect(client.state.kind).toBe("open");
  });

  it("calls the owner while its connection is lost", async () => {
    const client = await learned();
    const second = client.object("Counter", "a").call("add", [], { consistency: "replica" });
    const third = client.object("Counter", "a").call("add");
    node.manner = "refuse";
    to("a.test").close();
    await node.time.settle();
    await answer("b.test");
    expect(await third).toBe(1);
    const other = client.object("Counter", "b").call("add");
    other.catch(() => {});
    second.catch(() => {});
    await client.close();
    await expect(other).rejects.toMatchObject({ code: "caller_gone" });
  });

  it("keeps the order of an object's calls when the way to it changes", async () => {
    const client = node.clientOf(["ws://a.test"], { learnNodes: true });
    await node.time.settle();
    const counter = client.object("Counter", "a");
    const [first, second] = [counter.call("add", [1]), counter.call("add", [2])];
    const [one, two] = to("a.test").of("call");
    await to("a.test").say({ type: "reply", id: one?.id ?? 0, value: 1, ...named("b.test") });
    await first;
    const given = new AbortController();
    const third = counter.call("add", [3]);
    const fourth = counter.call("add", [4], { signal: given.signal });
    const fifth = counter.call("add", [5]);
    await node.time.settle();
    expect(to("b.test").of("call")).toEqual([]);
    given.abort();
    await expect(fourth).rejects.toBe(given.signal.reason);
    await to("a.test").say({ type: "reply", id: two?.id ?? 0, value: 2, ...named("b.test") });
    await second;
    expect(
      to("b.test")
        .of("call")
        .map(({ args }) => args),
    ).toEqual([[3], [5]]);
    expect(to("a.test").of("call")).toHaveLength(2);
    const ended = Promise.allSettled([third, fifth]);
    await client.close();
    expect(await ended).toMatchObject([
      { reason: { code: "outcome_unknown" } },
      { reason: { code: "outcome_unknown" } },
    ]);
  });

  it("has no more sockets than it may, and gives an idle one's place away", async () => {
    const client = node.clientOf(["ws://a.test"], { learnNodes: true, nodeSocketsMax: 2 });
    await node.time.settle();
    const ask = async (key: string, host: string): Promise<void> => {
      const call = client.object("Counter", key).call("add");
      await answer("a.test", named(host));
      await call;
    };
    for (const name of ["b", "c", "d"]) await ask(name, `${name}.test`);
    expect(hosts()).toEqual(["a.test", "b.test", "c.test"]);
    await node.time.advance(11_000);
    void client.object("Counter", "b").call("add");
    await ask("d", "d.test");
    expect(hosts()).toEqual(["a.test", "b.test", "c.test", "d.test"]);
    expect([to("b.test").isOver, to("c.test").isOver, to("d.test").isOver]).toEqual([false, true, false]);
  });

  it("takes nothing for an address that is none", async () => {
    const client = node.clientOf(["ws://a.test"], { learnNodes: true });
    await node.time.settle();
    for (const place of [{ name: "b" }, { name: "b", url: "nowhere" }, { name: "b", url: "ws://u@b.test" }]) {
      const call = client.object("Counter", "a").call("add");
      await answer("a.test", { node: place });
      await call;
    }
    expect(hosts()).toEqual(["a.test"]);
  });

  it("fails the call that is too large for the owner, and no other", async () => {
    const client = await learned();
    const small = client.object("Counter", "a").call("add");
    const large = client.object("Counter", "a").call("keep", ["x".repeat(10_000)]);
    large.catch(() => {});
    to("b.test").close(1009);
    await node.time.settle();
    await expect(large).rejects.toMatchObject({ code: "too_large" });
    await answer("a.test");
    expect(await small).toBe(1);
  });
});

describe("the order of an object's calls", () => {
  it("is kept of objects only that have calls under way", () => {
    const order = new CallOrder<string>();
    const wire = { isUp: true, nextId: () => 1, send: () => {} };
    const [one, other] = [new Lane<string>(wire), new Lane<string>(wire)];
    expect(order.enters("o", "a", one)).toBe(true);
    expect(order.enters("o", "b", other)).toBe(false);
    expect(order.enters("o", "c", one)).toBe(false);
    expect([...order.left("o")]).toEqual(["b", "c"]);
    expect([...order.left("o")]).toEqual([]);
    expect(order.enters("o", "d", other)).toBe(true);
  });
});

const HOSTS = ["a.test", "b.test", "c.test", "d.test"];
const KEYS = ["x", "y", "z"];
const SOCKETS_MAX = 2;
const CODES = ["moved", "node_stopping", "mailbox_full", "outcome_unknown", "object_restarting"] as const;

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("call" as const), key: fc.constantFrom(...KEYS) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("answer" as const),
      which: fc.nat(9),
      names: fc.option(fc.constantFrom(...HOSTS, "no address"), { nil: undefined }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("fail" as const), which: fc.nat(9), code: fc.constantFrom(...CODES) }),
  },
  /** With or without having done what it was asked for. */
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("close" as const), which: fc.nat(9), acts: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("away" as const), host: fc.constantFrom(...HOSTS) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 15_000 }) }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** A fleet that does each call id once, and says whatever it is told to of where objects live. */
class Fleet {
  readonly node = new ScriptedNode();
  readonly client = this.node.clientOf(
    HOSTS.slice(0, 2).map((host) => `ws://${host}`),
    { learnNodes: true, nodeSocketsMax: SOCKETS_MAX, placesMax: 2, timeoutMs: 100_000_000, reconnectDelayMaxMs: 500 },
  );
  readonly calls = new Map<string, Promise<unknown>[]>(KEYS.map((key) => [key, []]));
  readonly #done = new Map<string, number>();
  readonly #totals = new Map<string, number>();
  readonly #answered = new Set<number>();

  get open(): ScriptedConnection[] {
    return this.node.connections.filter(({ isOver }) => !isOver);
  }

  /** What stands unanswered, and where. */
  get asked(): { readonly on: ScriptedConnection; readonly call: FrameOf<"call"> }[] {
    const calls = this.open.flatMap((on) => on.of("call").map((call) => ({ on, call })));
    return calls.filter(({ call }) => !this.#answered.has(call.id));
  }

  check(): void {
    expect(this.open.length).toBeLessThanOrEqual(1 + SOCKETS_MAX);
    for (const key of KEYS) {
      const asked = this.asked.filter(({ call }) => call.key === key);
      expect(new Set(asked.map(({ on }) => on)).size).toBeLessThanOrEqual(1);
      // What is sent again may be overtaken; what is new goes in its order.
      const sent = this.node.connections.flatMap((on) => on.of("call")).filter((call) => call.key === key);
      const first = new Set(sent.toSorted((left, right) => left.id - right.id).map(({ args = [] }) => args[0]));
      expect([...first]).toEqual(Array.from(first, (_, index) => index));
    }
  }

  async take(one: Step): Promise<void> {
    const { time } = this.node;
    if (one.kind === "call") {
      const calls = this.calls.get(one.key) ?? [];
      const call = this.client.object("Counter", one.key).call("add", [calls.length]);
      call.catch(() => {});
      calls.push(call);
      await time.settle();
    } else if (one.kind === "pass") {
      await time.advance(one.ms);
    } else if (one.kind === "away") {
      const { away } = this.node;
      if (!away.delete(one.host)) away.add(one.host);
    } else if (one.kind === "close") {
      const connection = this.open[one.which % Math.max(1, this.open.length)];
      if (one.acts) for (const { on, call } of this.asked) if (on === connection) this.#do(call);
      connection?.close();
      await time.settle();
    } else await this.#say(one);
  }

  async #say(one: Step & { kind: "answer" | "fail" }): Promise<void> {
    const { asked } = this;
    const { on, call } = asked[one.which % Math.max(1, asked.length)] ?? {};
    if (on === undefined || call === undefined) return;
    this.#answered.add(call.id);
    if (one.kind === "answer") {
      const place = one.names === undefined ? {} : named(one.names);
      return await on.say({ type: "reply", id: call.id, value: this.#do(call), ...place });
    }
    if (one.code === "outcome_unknown") this.#do(call);
    const error = problemOf(MoonportError.of(one.code, "so it is"));
    await on.say({ type: "error", id: call.id, error });
  }

  #do({ callId = "", key }: { readonly callId?: string; readonly key: string }): number {
    const before = this.#done.get(callId);
    if (before !== undefined) return before;
    const total = (this.#totals.get(key) ?? 0) + 1;
    this.#totals.set(key, total);
    this.#done.set(callId, total);
    return total;
  }

  /** All is well again, and everything is answered. */
  async calm(): Promise<void> {
    this.node.away.clear();
    for (let round = 0; round < 300; round++) {
      if (this.asked.length === 0) await this.node.time.advance(6_000);
      if (this.asked.length === 0) return;
      await this.#say({ kind: "answer", which: 0, names: undefined });
    }
  }
}

it("whatever nodes say of places and whatever befalls them, each call is done once and answered", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), async (steps) => {
      const fleet = new Fleet();
      await fleet.node.time.settle();
      for (const one of steps) {
        await fleet.take(one);
        fleet.check();
      }
      await fleet.calm();
      for (const calls of fleet.calls.values()) {
        const open = Promise.resolve().then(() => "unanswered");
        const values = await Promise.all(calls.map((call) => Promise.race([call, open])));
        expect(values.toSorted((left, right) => Number(left) - Number(right))).toEqual(calls.map((_, at) => at + 1));
      }
      await fleet.client.close();
    }),
  );
});
