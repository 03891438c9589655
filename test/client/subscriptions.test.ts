import { beforeEach, describe, expect, it } from "vitest";
import type { SubscribeOptions } from "../../src/client/object-handle.js";
import type { Subscription, SubscriptionItem } from "../../src/client/subscription.js";
import { MoonportError } from "../../src/errors.js";
import type { ServerFrame } from "../../src/wire/frames.js";
import { problemOf } from "../../src/wire/problem.js";
import { ScriptedNode } from "./support/scripted-node.js";

let node: ScriptedNode;
beforeEach(() => {
  node = new ScriptedNode();
});

async function subscribed(options?: SubscribeOptions, eventsBufferedMax = 1_000): Promise<Subscription> {
  const client = await node.connected({ eventsBufferedMax });
  const subscription = client.object("Auction", "lot-42").subscribe(options);
  await node.time.settle();
  return subscription;
}

/** The id of the newest subscription that was asked for. */
function id(): number {
  return node.connection.last("subscribe").id;
}

function event(number: number): ServerFrame {
  return { type: "event", id: id(), number, name: "bid", data: { number }, atMs: 1 };
}

/** What can be read now, in short. */
async function read(subscription: Subscription, count: number): Promise<string[]> {
  const items: string[] = [];
  for (let index = 0; index < count; index++) {
    const { done, value } = await subscription.next();
    items.push(done ? "end" : short(value));
  }
  return items;
}

function short(item: SubscriptionItem): string {
  switch (item.kind) {
    case "event":
      return `event ${item.number}`;
    case "snapshot":
      return `snapshot ${item.number} ${JSON.stringify(item.value)}`;
    case "gap":
      return `gap ${item.from}-${item.first}`;
    case "destroyed":
      return `destroyed ${item.after}`;
  }
}

async function reconnect(): Promise<void> {
  node.connection.close();
  await node.time.advance(1_000);
}

describe("a subscription whose object counts lower after a reconnect", () => {
  it("tells a gap, and goes on from what the node says", async () => {
    const subscription = await subscribed({ from: { after: 5 } });
    await node.connection.say({ type: "subscribed", id: id(), after: 5 }, event(6));
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 6 });
    await node.connection.say({ type: "subscribed", id: id(), after: 2 }, event(3), event(4));
    expect(await read(subscription, 4)).toEqual(["event 6", "gap 3-3", "event 3", "event 4"]);
    expect(subscription.after).toBe(4);
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 4 });
  });

  it("gets the value that it wants after a gap", async () => {
    const subscription = await subscribed({ from: { after: 5 }, snapshotAfterGap: { snapshot: "top" } });
    await node.connection.say({ type: "subscribed", id: id(), after: 5 }, event(6));
    await reconnect();
    await node.connection.say({ type: "snapshot", id: id(), value: 9, number: 2 });
    await node.connection.say({ type: "subscribed", id: id(), after: 2 }, event(3));
    expect(await read(subscription, 4)).toEqual(["event 6", "gap 3-3", "snapshot 2 9", "event 3"]);
  });

  it("hears it also where the node finds out under way", async () => {
    const subscription = await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 5 }, event(6));
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, event(1));
    expect(await read(subscription, 3)).toEqual(["event 6", "gap 1-1", "event 1"]);
  });
});

describe("a subscription", () => {
  it.each([
    [undefined, { kind: "now" }],
    [{ after: 12 }, { kind: "after", number: 12 }],
    [
      { snapshot: "top", args: [1] },
      { kind: "snapshot", reading: { method: "top", args: [1] } },
    ],
  ] as const)("asks for what it is to begin with: %j", async (from, asked) => {
    await subscribed(from === undefined ? {} : { from, names: ["bid"] });
    expect(node.connection.last("subscribe")).toMatchObject({ class: "Auction", key: "lot-42", from: asked });
  });

  it("gives events in order, and says where it stands", async () => {
    const subscription = await subscribed();
    expect(subscription.after).toBeUndefined();
    await node.connection.say({ type: "subscribed", id: id(), after: 4 }, event(5), event(6));
    expect(await subscription.ready).toBe(4);
    expect(subscription.after).toBe(4);
    expect((await subscription.next()).value).toEqual({
      kind: "event",
      number: 5,
      name: "bid",
      data: { number: 5 },
      atMs: 1,
    });
    expect(subscription.after).toBe(5);
  });

  it("asks for what comes after the last event once it is connected again, and gives none twice", async () => {
    const subscription = await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, event(1), event(2));
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 2 });
    await node.connection.say({ type: "subscribed", id: id(), after: 2 }, event(2), event(3));
    expect(await read(subscription, 3)).toEqual(["event 1", "event 2", "event 3"]);
  });

  it("resumes from where it began when no event has come", async () => {
    await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 9 });
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 9 });
  });

  it("asks for the same again when it had not begun", async () => {
    await subscribed({ from: { snapshot: "top" } });
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "snapshot", reading: { method: "top", args: [] } });
  });

  it("begins with a snapshot and resumes behind it", async () => {
    const subscription = await subscribed({ from: { snapshot: "top" } });
    await node.connection.say({ type: "snapshot", id: id(), value: { top: 25 }, number: 7 });
    await node.connection.say({ type: "subscribed", id: id(), after: 7 });
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 7 });
    await node.connection.say({ type: "subscribed", id: id(), after: 7 }, event(8));
    expect(await read(subscription, 2)).toEqual(['snapshot 7 {"top":25}', "event 8"]);
  });

  it("tells of a gap and goes on behind it", async () => {
    const subscription = await subscribed({ from: { after: 3 } });
    await node.connection.say({ type: "subscribed", id: id(), after: 3 });
    await node.connection.say({ type: "gap", id: id(), from: 4, first: 10 });
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 9 });
    await node.connection.say({ type: "subscribed", id: id(), after: 9 }, event(10));
    expect(await read(subscription, 2)).toEqual(["gap 4-10", "event 10"]);
  });

  it("does not forget the snapshot that it is owed after a gap", async () => {
    const subscription = await subscribed({ from: { after: 3 }, snapshotAfterGap: { snapshot: "top" } });
    const reading = { method: "top", args: [] };
    expect(node.connection.last("subscribe").snapshotAfterGap).toEqual(reading);
    await node.connection.say({ type: "gap", id: id(), from: 4, first: 10 });
    await reconnect();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "snapshot", reading });
    await node.connection.say({ type: "snapshot", id: id(), value: 1, number: 12 }, event(13));
    expect(await read(subscription, 3)).toEqual(["gap 4-10", "snapshot 12 1", "event 13"]);
  });

  it("asks the node to pause when it is not read, and resumes by number once half of it is", async () => {
    const subscription = await subscribed({}, 4);
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, ...[1, 2, 3, 4, 5, 6].map(event));
    expect(node.connection.last("unsubscribe").id).toBe(id());
    await reconnect();
    expect(node.connection.of("subscribe")).toEqual([]);
    expect(await read(subscription, 2)).toEqual(["event 1", "event 2"]);
    await node.time.settle();
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 4 });
    await node.connection.say({ type: "subscribed", id: id(), after: 4 }, event(5));
    expect(await read(subscription, 3)).toEqual(["event 3", "event 4", "event 5"]);
  });

  it.each(["slow", "stopping"] as const)("resumes by itself when the node ends it as %s", async (reason) => {
    const subscription = await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, event(1));
    await node.connection.say({ type: "ended", id: id(), reason, after: 1 });
    await node.time.advance(1_000);
    expect(node.connection.of("subscribe")).toHaveLength(2);
    expect(node.connection.last("subscribe").from).toEqual({ kind: "after", number: 1 });
    await node.connection.say({ type: "subscribed", id: id(), after: 1 }, event(2));
    expect(await read(subscription, 2)).toEqual(["event 1", "event 2"]);
  });

  it("ends with the object", async () => {
    const subscription = await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, event(1));
    await node.connection.say({ type: "ended", id: id(), reason: "destroyed", after: 1 });
    expect(await read(subscription, 3)).toEqual(["event 1", "destroyed 1", "end"]);
    await reconnect();
    expect(node.connection.of("subscribe")).toEqual([]);
  });

  it("throws what the node refuses it with, and tries again what may pass", async () => {
    const subscription = await subscribed();
    const refuse = (code: "socket_full" | "class_not_found"): ServerFrame => ({
      type: "error",
      id: id(),
      error: problemOf(MoonportError.of(code, "no")),
    });
    await node.connection.say(refuse("socket_full"));
    await node.time.advance(1_000);
    expect(node.connection.of("subscribe")).toHaveLength(2);
    await node.connection.say(refuse("class_not_found"));
    await expect(subscription.next()).rejects.toMatchObject({ code: "class_not_found" });
    await expect(subscription.ready).rejects.toMatchObject({ code: "class_not_found" });
    expect(await read(subscription, 1)).toEqual(["end"]);
  });

  it("ends with its loop, which the node is told", async () => {
    const subscription = await subscribed();
    await node.connection.say({ type: "subscribed", id: id(), after: 0 }, event(1), event(2));
    for await (const item of subscription) if (item.kind === "event") break;
    expect(node.connection.of("unsubscribe")).toHaveLength(1);
    expect(await read(subscription, 1)).toEqual(["end"]);
  });

  it("ends when its signal aborts, waiting or not, and leaves no listener on it", async () => {
    const abort = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = abort.signal;
    abort.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      listeners++;
      addEventListener.apply(abort.signal, args);
    };
    abort.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      listeners--;
      removeEventListener.apply(abort.signal, args);
    };
    const left = await subscribed({ signal: abort.signal });
    left.close();
    expect(listeners).toBe(0);
    const subscription = await subscribed({ signal: abort.signal });
    const next = subscription.next();
    abort.abort();
    expect((await next).done).toBe(true);
    expect(node.connection.of("unsubscribe")).toHaveLength(1);
    const late = await subscribed({ signal: abort.signal });
    expect((await late.next()).done).toBe(true);
    await expect(late.ready).rejects.toMatchObject({ code: "caller_gone" });
  });

  it.each([
    [{ from: "then" }],
    [{ from: { after: -1 } }],
    [{ from: { snapshot: 5 } }],
    [{ name: ["bid"] }],
    [{ names: "bid" }],
  ])("refuses %j", async (options: object) => {
    const client = await node.connected();
    expect(() => client.object("Auction", "lot-42").subscribe(options)).toThrow(
      expect.objectContaining({ code: "bad_option" }),
    );
  });
});

describe("a live view", () => {
  const view = (value: string | number, seq: number): ServerFrame => ({
    type: "view",
    id: node.connection.last("view").id,
    value,
    seq,
  });
  const failed = (error: MoonportError): ServerFrame => ({
    type: "view_failed",
    id: node.connection.last("view").id,
    error: problemOf(error),
  });

  it("gives the value now and whenever it changed, the newest only to a reader that is slow", async () => {
    const client = await node.connected();
    const top = client.object("Auction", "lot-42").view("top", ["all"]);
    await node.time.settle();
    expect(node.connection.last("view")).toMatchObject({ method: "top", args: ["all"] });
    await node.connection.say(view(1, 1), view(2, 2), view(3, 3));
    expect((await top.next()).value).toBe(3);
    const next = top.next();
    await node.connection.say(view(4, 4));
    expect((await next).value).toBe(4);
  });

  it("is asked for again after a loss, and gives only what changed", async () => {
    const client = await node.connected();
    const top = client.object("Auction", "lot-42").view("top");
    await node.connection.say(view(1, 1));
    expect((await top.next()).value).toBe(1);
    const next = top.next();
    await reconnect();
    await node.connection.say(view(1, 1), view(2, 2));
    expect((await next).value).toBe(2);
  });

  it("throws what the class refuses, and gets over what passes", async () => {
    const client = await node.connected();
    const top = client.object("Auction", "lot-42").view("top");
    await node.connection.say(failed(MoonportError.of("not_durable_yet", "later")), view(1, 1));
    expect((await top.next()).value).toBe(1);
    await node.connection.say(failed(MoonportError.byClass("sealed", "no")));
    await expect(top.next()).rejects.toMatchObject({ code: "sealed", source: "class" });
    expect(node.connection.of("unsubscribe")).toHaveLength(1);
  });

  it("goes on after failures that are looked after", async () => {
    const client = await node.connected();
    const codes: string[] = [];
    const top = client.object("Auction", "lot-42").view("top", [], { onError: ({ code }) => codes.push(code) });
    await node.connection.say(failed(MoonportError.byClass("sealed", "no")), view(1, 1));
    expect([(await top.next()).value, codes]).toEqual([1, ["sealed"]]);
    await node.connection.say(failed(MoonportError.byClass("closed", "no")), view(1, 3));
    expect([(await top.next()).value, codes]).toEqual([1, ["sealed", "closed"]]);
  });

  it("ends with its loop, its signal and its object", async () => {
    const client = await node.connected();
    const abort = new AbortController();
    const lot = client.object("Auction", "lot-42");
    const [left, aborted, bereft] = [lot.view("top"), lot.view("top", [], { signal: abort.signal }), lot.view("top")];
    await left.return?.();
    abort.abort();
    await node.connection.say({
      type: "ended",
      id: node.connection.last("view").id,
      reason: "destroyed",
      after: 0,
    });
    expect([await left.next(), await aborted.next(), await bereft.next()].map(({ done }) => done)).toEqual([
      true,
      true,
      true,
    ]);
    expect(node.connection.of("unsubscribe")).toHaveLength(2);
  });
});
