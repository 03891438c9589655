import { describe, expect, it, onTestFinished } from "vitest";
import { type ConnectOptions, connect, type MoonportClient, MoonportError } from "../../src/client/index.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { ChoppingProxy } from "./support/chopping-proxy.js";
import { LiveNode } from "./support/live-node.js";
import type { TallyMethods } from "./support/tally.js";

const CODECS = ["json", "msgpack"] as const;

function connected(url: string, options: ConnectOptions = {}): MoonportClient {
  const client = connect(url, { reconnectDelayMs: 10, reconnectDelayMaxMs: 100, ...options });
  onTestFinished(() => client.close());
  return client;
}

describe.each(CODECS)("a client of a real node, over %s", (codec) => {
  it("calls methods, with bytes and every other value there and back", async () => {
    const node = await LiveNode.start();
    const tally = connected(node.url, { codec }).object<TallyMethods>("Tally", "a");
    expect(await tally.add("one")).toBe(1);
    const value = {
      bytes: new Uint8Array([0, 1, 255]),
      text: "ünïcode 🌙",
      list: [1.5, -3, true],
      nested: { a: [{}] },
    };
    await tally.keep(value);
    expect(await tally.kept()).toMatchObject({ ...value, nested: { a: [expect.anything()] } });
    expect(await tally.call("total")).toBe(1);
  });

  it("rejects with what the class threw, or the node refused, as it is", async () => {
    const node = await LiveNode.start();
    const client = connected(node.url, { codec });
    const refused = client.object<TallyMethods>("Tally", "a").call("refuse", ["too_low"]);
    await expect(refused).rejects.toBeInstanceOf(MoonportError);
    await expect(refused).rejects.toMatchObject({ code: "too_low", source: "class", details: { least: 26 } });
    await expect(client.object("Taly", "a").call("add")).rejects.toMatchObject({
      code: "class_not_found",
      hint: "did you mean Tally?",
    });
    await expect(client.object("Tally", "").call("add")).rejects.toMatchObject({ code: "bad_key" });
    await expect(client.object("Tally", "a").call("not a name")).rejects.toMatchObject({ code: "bad_name" });
  });

  it("fails the call that is larger than the node takes, and no other", async () => {
    const node = await LiveNode.start({ SOCKET_FRAME_BYTES_MAX: 4_096 });
    const tally = connected(node.url, { codec }).object<TallyMethods>("Tally", "a");
    const outcomes = await Promise.allSettled([tally.add("one"), tally.keep("x".repeat(5_000)), tally.add("two")]);
    expect(outcomes.map((one) => (one.status === "fulfilled" ? "ok" : one.reason.code))).toEqual([
      "ok",
      "too_large",
      "ok",
    ]);
    expect(await tally.total()).toBe(2);
  });

  it("sees events, from now, from a number, from a snapshot, and by name", async () => {
    const node = await LiveNode.start();
    const tally = connected(node.url, { codec }).object<TallyMethods>("Tally", "a");
    const now = tally.subscribe();
    await now.ready;
    for (const id of ["one", "two", "three"]) await tally.add(id);
    expect((await now.next()).value).toMatchObject({ kind: "event", number: 1, name: "odd", data: { total: 1 } });
    const after = tally.subscribe({ from: { after: 1 } });
    expect((await after.next()).value).toMatchObject({ number: 2, data: { id: "two" } });
    const snapshot = tally.subscribe({ from: { snapshot: "total" }, names: ["even"] });
    expect((await snapshot.next()).value).toEqual({ kind: "snapshot", value: 3, number: 3 });
    await tally.add("four");
    expect((await snapshot.next()).value).toMatchObject({ kind: "event", number: 4, name: "even" });
  });

  it("sees a reading method's value as it changes", async () => {
    const node = await LiveNode.start();
    const tally = connected(node.url, { codec }).object<TallyMethods>("Tally", "a");
    const totals = tally.view("total");
    expect((await totals.next()).value).toBe(0);
    for (const id of ["one", "two", "three"]) void tally.add(id);
    for await (const total of totals) if (total === 3) break;
  });

  it("goes on after the node was stopped and started again: calls, subscriptions and views", async () => {
    const node = await LiveNode.start();
    const client = connected(node.url, { codec });
    const tally = client.object<TallyMethods>("Tally", "a");
    const events = tally.subscribe({ from: { after: 0 } });
    const totals = tally.view("total");
    await tally.add("one");
    const sessions = new Set([sessionOf(client)]);
    await node.stop();
    expect(client.state.kind).not.toBe("open");
    const during = tally.add("two");
    await node.open();
    expect(await during).toBe(2);
    sessions.add(sessionOf(client));
    await tally.add("three");
    const numbers: number[] = [];
    for await (const item of events) {
      if (item.kind === "event") numbers.push(item.number);
      if (numbers.length === 3) break;
    }
    expect(numbers).toEqual([1, 2, 3]);
    for await (const total of totals) if (total === 3) break;
    expect(sessions.size).toBe(2);
  });

  it("runs each call once through a network that cuts connections at random, and misses no event", async () => {
    const node = await LiveNode.start();
    const random = new SeededRandom(codec === "json" ? 11 : 12);
    const proxy = await ChoppingProxy.start(node.port, random);
    proxy.chop(8_000);
    const client = connected(proxy.url, { codec, callsInFlightMax: 16, timeoutMs: 30_000 });
    const tally = client.object<TallyMethods>("Tally", "a");
    const events = tally.subscribe({ from: { after: 0 } });
    const calls = 400;
    const totals = await Promise.all(Array.from({ length: calls }, (_, index) => tally.add(`call ${index}`)));
    expect(proxy.cuts).toBeGreaterThan(5);
    expect(new Set(totals).size).toBe(calls);
    expect(await tally.total()).toBe(calls);
    expect(await tally.twice()).toHaveLength(0);
    const seen: number[] = [];
    for await (const item of events) {
      if (item.kind !== "event") throw new Error(`a ${item.kind} came`);
      seen.push(item.number);
      if (seen.length === calls) break;
    }
    expect(seen).toEqual(Array.from({ length: calls }, (_, index) => index + 1));
  });

  it("leaves an aborted call at once, and goes on with the others", async () => {
    const node = await LiveNode.start();
    const tally = connected(node.url, { codec }).object<TallyMethods>("Tally", "a");
    await tally.add("one");
    const abort = new AbortController();
    const [aborted, other] = [tally.call("keep", [1], { signal: abort.signal }), tally.keep(2)];
    abort.abort();
    await expect(aborted).rejects.toBe(abort.signal.reason);
    expect(await other).toBe(2);
    expect(await tally.kept()).toBe(2);
  });
});

describe("a subscriber that is slower than the events", () => {
  it("pauses, and reads all of them in its own time", async () => {
    const node = await LiveNode.start();
    const client = connected(node.url, { eventsBufferedMax: 8 });
    const tally = client.object<TallyMethods>("Tally", "a");
    const events = tally.subscribe({ from: { after: 0 } });
    await Promise.all(Array.from({ length: 100 }, (_, index) => tally.add(`call ${index}`)));
    const seen: number[] = [];
    for await (const item of events) {
      if (item.kind === "event") seen.push(item.number);
      if (seen.length === 100) break;
    }
    expect(seen).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
  });

  it("is told of the gap when the node no longer keeps what it missed", async () => {
    const node = await LiveNode.start({ EVENT_ROWS_MAX: 10 });
    const client = connected(node.url, { eventsBufferedMax: 4 });
    const tally = client.object<TallyMethods>("Tally", "a");
    const events = tally.subscribe({ from: { after: 0 }, snapshotAfterGap: { snapshot: "total" } });
    await events.ready;
    // Old events go in batches: enough calls for two of them.
    const calls = 130;
    await Promise.all(Array.from({ length: calls }, (_, index) => tally.add(`call ${index}`)));
    const kinds = new Set<string>();
    let last = 0;
    for await (const item of events) {
      kinds.add(item.kind);
      if (item.kind === "event") expect(item.number).toBe(last + 1);
      if (item.kind === "event" || item.kind === "snapshot") last = item.number;
      if (item.kind === "snapshot") expect(item.value).toBe(item.number);
      if (last === calls) break;
    }
    expect(kinds).toEqual(new Set(["event", "gap", "snapshot"]));
  });
});

function sessionOf({ state }: MoonportClient): string {
  if (state.kind !== "open") throw new Error(`it is ${state.kind}`);
  return state.session;
}
