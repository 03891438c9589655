import { beforeEach, describe, expect, it } from "vitest";
import { type ErrorCode, type ErrorOptionsBag, MoonportError } from "../../src/errors.js";
import type { PlainValue } from "../../src/values.js";
import { CLOSE_CODES, type ServerFrame } from "../../src/wire/frames.js";
import { problemOf } from "../../src/wire/problem.js";
import { ScriptedNode } from "./support/scripted-node.js";

const UUIDV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

let node: ScriptedNode;
beforeEach(() => {
  node = new ScriptedNode();
});

function failure(id: number, code: ErrorCode, bag: ErrorOptionsBag = {}): ServerFrame {
  return { type: "error", id, error: problemOf(MoonportError.of(code, `it is ${code}`, bag)) };
}

function reply(id: number, value: string | number): ServerFrame {
  return { type: "reply", id, value };
}

/** The promise's outcome as it stands, without waiting for it. */
function outcomeOf<T>(promise: Promise<T>): { value?: T; error?: unknown } {
  const outcome: { value?: T; error?: unknown } = {};
  promise.then(
    (value) => {
      outcome.value = value;
    },
    (error) => {
      outcome.error = error;
    },
  );
  return outcome;
}

describe("a call", () => {
  it("carries an id that the client made, and the time it has left", async () => {
    const client = await node.connected({ app: "shop", timeoutMs: 5_000 });
    const value = client.object("Auction", "lot-42").call("bid", ["ada", 25]);
    await node.time.settle();
    const call = node.connection.last("call");
    expect(call).toMatchObject({ app: "shop", class: "Auction", key: "lot-42", method: "bid", args: ["ada", 25] });
    expect([call.callId, call.timeoutMs]).toEqual([expect.stringMatching(UUIDV7), 5_000]);
    await node.connection.say(reply(call.id, "won"));
    expect(await value).toBe("won");
  });

  it("says that a replica may answer, where it may", async () => {
    const client = await node.connected();
    const lot = client.object("Auction", "lot-42");
    void lot.call("top", [], { consistency: "replica" }).catch(() => {});
    await node.time.settle();
    expect(node.connection.last("call").consistency).toBe("replica");
    void lot.call("top").catch(() => {});
    await node.time.settle();
    expect(Object.hasOwn(node.connection.last("call"), "consistency")).toBe(false);
    const misspelled = { consistency: "stale" } as unknown as { consistency: "replica" };
    await expect(lot.call("top", [], misspelled)).rejects.toMatchObject({ code: "bad_option" });
  });

  it("is a method of the typed handle too", async () => {
    interface AuctionMethods {
      bid(who: string, amount: number): { top: number };
      call(): string;
    }
    const client = await node.connected();
    const lot = client.object<AuctionMethods>("Auction", "lot-42");
    const bid: Promise<{ top: number }> = lot.bid("ada", 25);
    await node.time.settle();
    expect(node.connection.last("call")).toMatchObject({ method: "bid", args: ["ada", 25] });
    await node.connection.say({ type: "reply", id: node.connection.last("call").id, value: { top: 25 } });
    expect((await bid).top).toBe(25);
    // A method called like one of the handle's own.
    const named: Promise<string> = lot.call("call");
    await node.time.settle();
    expect(node.connection.last("call")).toMatchObject({ method: "call", args: [] });
    await node.connection.say(reply(node.connection.last("call").id, "x"));
    expect(await named).toBe("x");
    // @ts-expect-error an amount is a number
    const refusedByTheCompiler = (): unknown => lot.bid("ada", "much");
    expect(refusedByTheCompiler).toBeTypeOf("function");
  });

  it("is a method of the handle that no types are known of, too", async () => {
    const client = await node.connected();
    const lot = client.object("Auction", "lot-42");
    const bid: Promise<PlainValue> | undefined = lot.bid?.("ada", 25);
    await node.time.settle();
    await node.connection.say(reply(node.connection.last("call").id, 1));
    expect(await bid).toBe(1);
  });

  it("rejects at once with what the class threw, typed", async () => {
    const client = await node.connected();
    const outcome = outcomeOf(client.object("Auction", "lot-42").call("bid", ["ada", 1]));
    await node.time.settle();
    const { id, callId } = node.connection.last("call");
    const thrown = MoonportError.byClass("too_low", "bid at least 26", { details: { least: 26 } });
    await node.connection.say({ type: "error", id, error: problemOf(thrown) });
    expect(outcome.error).toBeInstanceOf(MoonportError);
    expect(outcome.error).toMatchObject({
      code: "too_low",
      source: "class",
      message: "bid at least 26",
      details: { least: 26 },
      object: "default/Auction/lot-42",
      callId,
    });
  });

  it.each(["mailbox_full", "outcome_unknown", "not_durable_yet"] as const)(
    "is tried again with its id after %s, not before the node says",
    async (code) => {
      const client = await node.connected();
      const value = client.object("Counter", "a").call("increment");
      await node.time.settle();
      const first = node.connection.last("call");
      await node.connection.say(failure(first.id, code, { retryAfterMs: 2_000 }));
      await node.time.advance(1_999);
      expect(node.connection.of("call")).toHaveLength(1);
      await node.time.advance(1_002);
      const second = node.connection.last("call");
      expect(second.id).not.toBe(first.id);
      expect(second.callId).toBe(first.callId);
      await node.connection.say(reply(second.id, 7));
      expect(await value).toBe(7);
    },
  );

  describe("whose id the object takes for too old", () => {
    const START_MS = Date.UTC(2026, 0, 1);
    const timeOf = (callId = ""): number => Number.parseInt(callId.slice(0, 8) + callId.slice(9, 13), 16);
    const refuse = (id: number, callId: string | undefined, freshFromMs: number): Promise<void> =>
      node.connection.say(failure(id, "id_expired", { details: { callId, freshFromMs } }));

    it("goes out again under an id of the node's time if it was sent once; and later calls have such ids", async () => {
      const client = await node.connected();
      const value = client.object("Counter", "a").call("increment");
      await node.time.settle();
      const first = node.connection.last("call");
      await refuse(first.id, first.callId, START_MS + 5_000);
      await node.time.advance(1_000);
      const second = node.connection.last("call");
      expect(second.callId).not.toBe(first.callId);
      expect(timeOf(second.callId)).toBe(START_MS + 5_000);
      // It may be refused once more: objects forget as time goes on.
      await refuse(second.id, second.callId, START_MS + 9_000);
      await node.time.advance(1_000);
      const third = node.connection.last("call");
      expect(timeOf(third.callId)).toBe(START_MS + 9_000);
      await node.connection.say(reply(third.id, 1));
      expect(await value).toBe(1);
      void client.object("Counter", "b").call("increment");
      await node.time.settle();
      expect(timeOf(node.connection.last("call").callId)).toBeGreaterThanOrEqual(START_MS + 9_000);
    });

    it("fails if it was sent before: that it did not run is not known", async () => {
      const client = await node.connected();
      for (const lose of ["connection", "answer"] as const) {
        const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
        await node.time.settle();
        const { id, callId } = node.connection.last("call");
        if (lose === "connection") node.connection.close();
        else await node.connection.say(failure(id, "outcome_unknown"));
        await node.time.advance(2_000);
        const again = node.connection.last("call");
        expect(again.callId).toBe(callId);
        await refuse(again.id, callId, START_MS + 5_000);
        expect(outcome.error).toMatchObject({ code: "id_expired", callId });
      }
    });

    it("fails if its id is the caller's own, or the refused one is another's", async () => {
      const client = await node.connected();
      const own = outcomeOf(client.object("Counter", "a").call("increment", [], { callId: "order-17" }));
      await node.time.settle();
      await refuse(node.connection.last("call").id, "order-17", START_MS + 5_000);
      expect(own.error).toMatchObject({ code: "id_expired", callId: "order-17" });
      const inner = outcomeOf(client.object("Counter", "a").call("increment"));
      await node.time.settle();
      await refuse(node.connection.last("call").id, "0197a000-0000-7000-8000-000000000001", START_MS + 5_000);
      expect(inner.error).toMatchObject({ code: "id_expired" });
      expect(node.connection.of("call")).toHaveLength(2);
    });

    it("fails if the object says that it ran, in its life before", async () => {
      const client = await node.connected();
      const outcome = outcomeOf(client.object("Counter", "a").call("leave"));
      await node.time.settle();
      const { id, callId } = node.connection.last("call");
      const details = { callId, freshFromMs: START_MS + 5_000, hasRun: true };
      await node.connection.say(failure(id, "id_expired", { details }));
      await node.time.advance(1_000);
      expect(outcome.error).toMatchObject({ code: "id_expired", callId });
      expect(node.connection.of("call")).toHaveLength(1);
    });

    it.each([undefined, "soon", Number.NaN, -1, 2 ** 48])(
      "fails if the node names no time: %s",
      async (freshFromMs) => {
        const client = await node.connected();
        const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
        await node.time.settle();
        const { id, callId } = node.connection.last("call");
        const details = { callId, ...(freshFromMs !== undefined && { freshFromMs }) };
        await node.connection.say(failure(id, "id_expired", { details }));
        expect(outcome.error).toMatchObject({ code: "id_expired" });
      },
    );
  });

  it("waits for a connection, and is sent once there is one", async () => {
    node.manner = "refuse";
    const client = await node.connected();
    const value = client.object("Counter", "a").call("increment");
    await node.time.advance(500);
    node.manner = "welcome";
    await node.time.advance(10_000);
    await node.connection.say(reply(node.connection.last("call").id, 1));
    expect(await value).toBe(1);
  });

  it("that was sent over a lost connection is sent again, with its id and before those that waited", async () => {
    const client = await node.connected({ callsInFlightMax: 3 });
    const counter = client.object("Counter", "a");
    const values = [1, 2, 3, 4, 5].map((by) => counter.call("increment", [by]));
    await node.time.settle();
    await node.connection.say(reply(node.connection.of("call")[1]?.id ?? 0, 2));
    const before = node.connection.of("call");
    node.connection.close();
    await node.time.advance(1_000);
    expect(node.connection.of("call").map(({ args, callId }) => [args, callId])).toEqual(
      [0, 2, 3].map((index) => [before[index]?.args, before[index]?.callId]),
    );
    for (let answered = 0; answered < 4; answered++) {
      await node.connection.say(reply(node.connection.of("call")[answered]?.id ?? 0, answered));
    }
    expect(await Promise.all(values)).toEqual([0, 2, 1, 2, 3]);
  });

  it("ignores an answer that comes twice", async () => {
    const client = await node.connected();
    const value = client.object("Counter", "a").call("increment");
    await node.time.settle();
    const { id } = node.connection.last("call");
    await node.connection.say(reply(id, 1), reply(id, 2), failure(id, "internal"));
    expect(await value).toBe(1);
  });

  it("takes the id that it is given", async () => {
    const client = await node.connected();
    void client.object("Counter", "a").call("increment", [], { callId: "order-17" });
    await node.time.settle();
    expect(node.connection.last("call").callId).toBe("order-17");
  });
});

describe("a call whose time is up", () => {
  it("was not sent when there was no connection", async () => {
    node.manner = "refuse";
    const client = await node.connected();
    const outcome = outcomeOf(client.object("Counter", "a").call("increment", [], { timeoutMs: 3_000 }));
    await node.time.advance(2_999);
    expect(outcome).toEqual({});
    await node.time.advance(2);
    expect(outcome.error).toMatchObject({ code: "node_unreachable", object: "default/Counter/a" });
  });

  it("has an unknown outcome when it was sent, and the node is told that nobody waits", async () => {
    const client = await node.connected({ timeoutMs: 3_000 });
    const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
    await node.time.advance(3_001);
    const { id, callId } = node.connection.last("call");
    expect(outcome.error).toMatchObject({ code: "outcome_unknown", callId });
    expect(node.connection.last("cancel")).toEqual({ type: "cancel", id });
  });

  it("has an unknown outcome when it was sent over a connection that was lost", async () => {
    const client = await node.connected({ timeoutMs: 3_000 });
    const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
    await node.time.settle();
    node.manner = "refuse";
    node.connection.close();
    await node.time.advance(3_001);
    expect(outcome.error).toMatchObject({ code: "outcome_unknown", cause: { code: "node_unreachable" } });
  });

  it("has an unknown outcome when the node had no room for the reply", async () => {
    const client = await node.connected({ timeoutMs: 3_000 });
    const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
    await node.time.settle();
    const { id, callId } = node.connection.last("call");
    await node.connection.say(failure(id, "socket_full", { retryAfterMs: 2_900 }));
    expect(outcome.error).toMatchObject({ code: "outcome_unknown", callId, cause: { code: "socket_full" } });
  });

  it("fails with the node's last word when that said that it did not run", async () => {
    const client = await node.connected({ timeoutMs: 3_000 });
    const outcome = outcomeOf(client.object("Counter", "a").call("increment"));
    await node.time.settle();
    await node.connection.say(failure(node.connection.last("call").id, "mailbox_full", { retryAfterMs: 2_900 }));
    expect(outcome.error).toMatchObject({ code: "mailbox_full" });
  });
});

describe("an AbortSignal", () => {
  it("ends a call with its reason and tells the node", async () => {
    const client = await node.connected();
    const abort = new AbortController();
    const outcome = outcomeOf(client.object("Counter", "a").call("increment", [], { signal: abort.signal }));
    await node.time.settle();
    abort.abort();
    await node.time.settle();
    expect(outcome.error).toBe(abort.signal.reason);
    expect(node.connection.last("cancel").id).toBe(node.connection.last("call").id);
  });

  it("keeps a call from being sent", async () => {
    node.manner = "refuse";
    const client = await node.connected();
    const abort = new AbortController();
    const counter = client.object("Counter", "a");
    const waiting = outcomeOf(counter.call("increment", [], { signal: abort.signal }));
    abort.abort(new Error("never mind"));
    await expect(counter.call("increment", [], { signal: abort.signal })).rejects.toThrow("never mind");
    node.manner = "welcome";
    await node.time.advance(20_000);
    expect(waiting.error).toEqual(new Error("never mind"));
    expect(node.connection.of("call")).toEqual([]);
  });

  it("ends a call that pauses before its next try", async () => {
    const client = await node.connected();
    const abort = new AbortController();
    const outcome = outcomeOf(client.object("Counter", "a").call("increment", [], { signal: abort.signal }));
    await node.time.settle();
    await node.connection.say(failure(node.connection.last("call").id, "mailbox_full"));
    abort.abort();
    await node.time.advance(20_000);
    expect(outcome.error).toBe(abort.signal.reason);
    expect(node.connection.of("call")).toHaveLength(1);
  });
});

describe("many calls", () => {
  it("wait here when as many are with the node as may be", async () => {
    const client = await node.connected({ callsInFlightMax: 2 });
    const counter = client.object("Counter", "a");
    const values = [1, 2, 3, 4].map((by) => counter.call("increment", [by]));
    await node.time.settle();
    expect(node.connection.of("call").map(({ args }) => args)).toEqual([[1], [2]]);
    for (let answered = 0; answered < 4; answered++) {
      await node.connection.say(reply(node.connection.of("call")[answered]?.id ?? 0, answered + 1));
    }
    expect(await Promise.all(values)).toEqual([1, 2, 3, 4]);
  });

  it("are refused beyond the bound", async () => {
    const client = await node.connected({ callsMax: 1 });
    const counter = client.object("Counter", "a");
    const first = counter.call("increment");
    await expect(counter.call("increment")).rejects.toMatchObject({ code: "client_full" });
    await node.connection.say(reply(node.connection.last("call").id, 1));
    await first;
    void counter.call("increment");
    await node.time.settle();
    expect(node.connection.of("call")).toHaveLength(2);
  });

  it("outlive the one that is too large for the node, which fails", async () => {
    const client = await node.connected();
    const counter = client.object("Counter", "a");
    const small = counter.call("increment", [1]);
    const large = outcomeOf(counter.call("keep", ["x".repeat(10_000)]));
    await node.time.settle();
    node.connection.close(CLOSE_CODES.too_large);
    await node.time.advance(1_000);
    expect(large.error).toMatchObject({ code: "too_large", hint: "the limit is SOCKET_FRAME_BYTES_MAX" });
    expect(node.connection.of("call").map(({ method }) => method)).toEqual(["increment"]);
    await node.connection.say(reply(node.connection.last("call").id, 1));
    expect(await small).toBe(1);
  });

  it("outlive one that is larger in bytes, though not in characters", async () => {
    const client = await node.connected();
    const counter = client.object("Counter", "a");
    const ascii = counter.call("keep", ["x".repeat(9_000)]);
    const large = outcomeOf(counter.call("note", ["\u4e00".repeat(4_000)]));
    await node.time.settle();
    node.connection.close(CLOSE_CODES.too_large);
    await node.time.advance(1_000);
    expect(large.error).toMatchObject({ code: "too_large" });
    expect(node.connection.of("call").map(({ method }) => method)).toEqual(["keep"]);
    await node.connection.say(reply(node.connection.last("call").id, 1));
    expect(await ascii).toBe(1);
  });

  it.each(["view", "subscribe"] as const)("outlive a %s that is too large for the node", async (type) => {
    const client = await node.connected();
    const counter = client.object("Counter", "a");
    const args = ["x".repeat(10_000)];
    const call = counter.call("increment");
    const large = type === "view" ? counter.view("top", args) : counter.subscribe({ from: { snapshot: "top", args } });
    const outcome = outcomeOf<unknown>(large.next());
    await node.time.settle();
    node.connection.close(CLOSE_CODES.too_large);
    await node.time.advance(1_000);
    expect(outcome.error).toMatchObject({ code: "too_large", hint: "the limit is SOCKET_FRAME_BYTES_MAX" });
    expect(node.connection.of(type)).toEqual([]);
    await node.connection.say(reply(node.connection.last("call").id, 1));
    expect(await call).toBe(1);
  });

  it("are found too large where what is larger was taken before", async () => {
    const client = await node.connected();
    const counter = client.object("Counter", "a");
    const view = counter.view("top", ["x".repeat(20_000)]);
    await node.time.settle();
    await node.connection.say({ type: "view", id: node.connection.last("view").id, value: 1, seq: 1 });
    const large = outcomeOf(counter.call("keep", ["x".repeat(10_000)]));
    await node.time.settle();
    node.connection.close(CLOSE_CODES.too_large);
    await node.time.advance(1_000);
    expect(large.error).toMatchObject({ code: "too_large" });
    expect((await view.next()).value).toBe(1);
    expect(node.connection.of("view")).toHaveLength(1);
  });
});

describe("what cannot be sent", () => {
  it.each([
    ["a value that cannot travel", [{ at: new Date(0) }], {}, "bad_value"],
    ["a circle", circle(), {}, "too_deep"],
    ["an unknown option", [], { timeOutMs: 5 }, "bad_option"],
    ["an option of the wrong type", [], { timeoutMs: "5" }, "bad_option"],
  ])("%s is refused here", async (_what, args, options, code) => {
    const client = await node.connected();
    await expect(client.object("Counter", "a").call("keep", args, options as object)).rejects.toMatchObject({ code });
    expect(node.connection.of("call")).toEqual([]);
  });

  function circle(): unknown[] {
    const one: unknown[] = [];
    one.push(one);
    return [one];
  }
});

describe("moving or retrying a delayed command", () => {
  it.each(["connection", "answer"])(
    "is asked once, also when its %s is lost: a repeat would be answered otherwise",
    async (lost) => {
      const client = await node.connected();
      const changes = [() => client.delay.retry("milk"), () => client.delay.move("milk", { delayMs: 1_000 })];
      for (const change of changes) {
        const outcome = outcomeOf<unknown>(change());
        await node.time.settle();
        const asked = node.connection.last("delay");
        if (lost === "answer") await node.connection.say(failure(asked.id, "link_broken"));
        else node.connection.close();
        await node.time.advance(5_000);
        expect(outcome.error).toMatchObject({ code: "outcome_unknown" });
      }
      expect(node.connections.flatMap((connection) => connection.of("delay"))).toHaveLength(2);
    },
  );
});
