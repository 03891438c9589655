/** Bounds, pauses and silence: what a link does when the other side is slow, dead, or back under another name. */
import { afterEach, beforeEach, expect, it } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import { ItemQueue } from "../../src/item-queue.js";
import type { Channel } from "../../src/links/contract.js";
import type { Links } from "../../src/links/links.js";
import { deferred } from "../../src/world/deferred.js";
import { type LogFields, silentLogger } from "../../src/world/logger.js";
import { SimulatedStage, type StageNode, tapped } from "./stage.js";

let stage: SimulatedStage;
beforeEach(() => {
  stage = new SimulatedStage({ latencyMs: { min: 1, max: 1 } });
});
afterEach(() => stage.stop());

const echoing = (links: Links): void => links.handle("echo", (body) => body);

/** The code of its error, or its value. */
async function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error) => error.code);
}

it("what is said in one turn travels in one message, answers too", async () => {
  const messages = { sent: 0, received: 0 };
  const network = tapped(stage.network.of("one"), (way) => {
    messages[way] += 1;
  });
  const one = await stage.node("one", { network });
  const two = await stage.node("two", { prepare: echoing });
  await stage.until(one.links.request(two, "echo", 0));
  const before = { ...messages };
  const asked = Array.from({ length: 1_000 }, (_, index) => one.links.request(two, "echo", index));
  expect(await stage.until(Promise.all(asked))).toHaveLength(1_000);
  expect({ sent: messages.sent - before.sent, received: messages.received - before.received }).toEqual({
    sent: 1,
    received: 1,
  });
});

it("one request more than LINK_REQUESTS_MAX fails with link_full, and the answer of one makes room", async () => {
  const first = deferred<string>();
  const one = await stage.node("one", { set: { LINK_REQUESTS_MAX: 3 } });
  const two = await stage.node("two", { prepare: (links) => links.handle("wait", () => first.promise) });
  const asked = [1, 2, 3].map(() => one.links.request(two, "wait", null));
  expect(await outcome(one.links.request(two, "wait", null))).toBe("link_full");
  first.resolve("done");
  expect(await stage.until(Promise.all(asked))).toEqual(["done", "done", "done"]);
  expect(await stage.until(one.links.request(two, "wait", null))).toBe("done");
});

it("a node answers link_full to one that asks for more than it may have under way", async () => {
  const never = new Promise(() => {});
  const one = await stage.node("one");
  const two = await stage.node("two", {
    set: { LINK_REQUESTS_MAX: 2 },
    prepare: (links) => {
      links.handle("wait", () => never);
      links.handleStream("wait", () => ({ [Symbol.asyncIterator]: () => ({ next: () => never as never }) }));
    },
  });
  const stream = one.links.openStream(two, "wait", null)[Symbol.asyncIterator]();
  void outcome(stream.next());
  void outcome(one.links.request(two, "wait", null));
  expect(await outcome(stage.until(one.links.request(two, "wait", null)))).toBe("link_full");
});

it.each(["one", "two"])(
  "streams leave half of LINK_REQUESTS_MAX to requests, at whichever end it is: %s",
  async (small) => {
    const set = { LINK_REQUESTS_MAX: 4 };
    const one = await stage.node("one", { ...(small === "one" && { set }) });
    const two = await stage.node("two", {
      ...(small === "two" && { set }),
      prepare: (links) => {
        links.handle("echo", (body) => body);
        links.handleStream("wait", () => new ItemQueue(1, () => {}));
      },
    });
    const open = (): AsyncIterator<unknown> => one.links.openStream(two, "wait", null)[Symbol.asyncIterator]();
    const streams = [open(), open()];
    for (const stream of streams) void outcome(stream.next());
    expect(await outcome(stage.until(open().next()))).toBe("link_full");
    expect(await stage.until(one.links.request(two, "echo", 1))).toBe(1);
    await streams[0]?.return?.();
    await stage.time.advance(10);
    const third = outcome(open().next());
    expect(await stage.until(Promise.race([third, stage.time.advance(100)]))).toBe(undefined);
  },
);

it("LINK_BUFFER_BYTES_MAX bounds what waits for a link to be made, and what waits on one that moves nothing", async () => {
  const set = { LINK_BUFFER_BYTES_MAX: 2 ** 20 };
  const one = await stage.node("one", { set });
  const two = await stage.node("two", { prepare: echoing });
  const ask = (): Promise<unknown> => outcome(one.links.request(two, "echo", new Uint8Array(300_000)));
  const waiting = [ask(), ask(), ask()];
  expect(await ask()).toBe("link_full");
  for (const answer of await stage.until(Promise.all(waiting))) expect(answer).toHaveLength(300_000);
  stage.network.cut("one", "two", true);
  const stuck = [ask(), ask(), ask()];
  await stage.time.settle();
  expect(await ask()).toBe("link_full");
  expect(await stage.until(Promise.all(stuck))).toEqual(["link_broken", "link_broken", "link_broken"]);
});

it("who asks for more than it reads loses the link", async () => {
  const told: unknown[] = [];
  const log = { ...silentLogger, warn: (fields: LogFields) => void told.push(fields.why) };
  const one = await stage.node("one");
  const two = await stage.node("two", {
    world: { ...stage.world(2), log },
    set: { LINK_BUFFER_BYTES_MAX: 2 ** 20 },
    prepare: (links) => links.handle("much", () => new Uint8Array(600_000)),
  });
  await stage.until(one.links.request(two, "much", null));
  stage.network.cut("two", "one", true);
  const asked = Array.from({ length: 5 }, () => outcome(one.links.request(two, "much", null)));
  await stage.time.advance(50);
  expect(told).toEqual([expect.stringContaining("bytes of answers were not read")]);
  // The word of it comes when the answers do, if they do.
  stage.network.heal();
  expect((await stage.until(Promise.all(asked))).at(-1)).toBe("link_broken");
});

it("a request that is not answered fails after its time, and its late answer goes nowhere", async () => {
  const late = deferred<string>();
  const one = await stage.node("one", { set: { LINK_REQUEST_MS: 500 } });
  const two = await stage.node("two", { prepare: (links) => links.handle("late", () => late.promise) });
  const asked = [
    outcome(one.links.request(two, "late", 0)),
    outcome(one.links.request(two, "late", 0, { timeoutMs: 90 })),
  ];
  await stage.time.advance(110);
  expect(one.links.underWay).toBe(1);
  await stage.time.advance(410);
  expect(await Promise.all(asked)).toEqual(["link_broken", "link_broken"]);
  late.resolve("too late");
  expect(await stage.until(one.links.request(two, "late", 0))).toBe("too late");
});

it("a request whose time is up before the link stands is never sent", async () => {
  let heeded = 0;
  const one = await stage.node("one");
  const two = await stage.node("two", { prepare: (links) => links.handle("note", () => ++heeded) });
  stage.network.slow("one", "two", { min: 300, max: 300 });
  const hasty = outcome(one.links.request(two, "note", null, { timeoutMs: 100 }));
  const patient = one.links.request(two, "note", null);
  expect(await stage.until(hasty)).toBe("node_unreachable");
  expect(await stage.until(patient)).toBe(1);
});

it("after a failed try everything fails at once until the pause is over, then there is one more try", async () => {
  let dialled = 0;
  const network = stage.network.of("one");
  const counting = {
    ...network,
    connect(...given: Parameters<typeof network.connect>) {
      dialled += 1;
      return network.connect(...given);
    },
  };
  const one = await stage.node("one", { network: counting, set: { LINK_BACKOFF_MAX_MS: 1_000 } });
  const two = await stage.node("two", { prepare: echoing });
  stage.network.refuse("two");
  const pauses: number[] = [];
  for (let round = 0; round < 8; round++) {
    const tries = dialled;
    await outcome(stage.until(one.links.request(two, "echo", 0)));
    expect(dialled).toBe(tries + 1);
    const failedMs = stage.time.nowMs;
    const atOnce = (await one.links.request(two, "echo", 0).catch((error) => error)) as MoonportError;
    expect(atOnce).toMatchObject({ code: "node_unreachable", retryAfterMs: expect.any(Number) });
    expect(dialled).toBe(tries + 1);
    await stage.time.advance(atOnce.retryAfterMs ?? 0);
    pauses.push(stage.time.nowMs - failedMs);
  }
  expect(pauses[0]).toBeLessThanOrEqual(51);
  expect(pauses.at(-1)).toBeGreaterThanOrEqual(500);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(1_001);
  // Nobody asks for a while: then it counts as new.
  await stage.time.advance(5_000);
  await outcome(stage.until(one.links.request(two, "echo", 0)));
  await stage.time.advance(51);
  stage.network.admit("two");
  expect(await stage.until(one.links.request(two, "echo", "back"))).toBe("back");
});

it("silence of four heartbeats breaks a link, in whichever direction it is, and idleness does not", async () => {
  const set = { LINK_HEARTBEAT_MS: 100 };
  const one = await stage.node("one", { set });
  const never = new Promise(() => {});
  const two = await stage.node("two", {
    set,
    prepare: (links) => {
      echoing(links);
      links.handle("hang", () => never);
    },
  });
  await stage.until(one.links.request(two, "echo", 0));
  await stage.time.advance(60_000);
  expect(stage.network.openChannels).toBe(1);
  for (const [from, to] of [
    ["one", "two"],
    ["two", "one"],
  ] as const) {
    const hanging = outcome(one.links.request(two, "hang", null, { timeoutMs: 10_000 }));
    await stage.time.advance(300);
    const cutMs = stage.time.nowMs;
    stage.network.cut(from, to, true);
    expect(await stage.until(hanging)).toBe("link_broken");
    expect(stage.time.nowMs - cutMs).toBeGreaterThanOrEqual(400);
    expect(stage.time.nowMs - cutMs).toBeLessThanOrEqual(700);
    stage.network.heal();
    await stage.time.advance(3_000);
  }
});

it("a machine that is off is found out by its silence, a process that died at once", async () => {
  const one = await stage.node("one");
  for (const [silently, withinMs] of [
    [false, 5],
    [true, 1_600],
  ] as const) {
    const two = await stage.node("two", { prepare: (links) => links.handle("hang", () => new Promise(() => {})) });
    const hanging = outcome(one.links.request(two, "hang", null, { timeoutMs: 60_000 }));
    await stage.time.advance(5_000);
    const killedMs = stage.time.nowMs;
    stage.network.kill("two", { silently });
    expect(await stage.until(hanging)).toBe("link_broken");
    expect(stage.time.nowMs - killedMs).toBeLessThanOrEqual(withinMs);
    await stage.time.advance(5_000);
  }
});

it("a node that has a new session makes a new link under its name", async () => {
  let session = "one-1";
  const one = await stage.node("one", { self: () => ({ node: "one", session }) });
  const two = await stage.node("two", {
    prepare: (links) => {
      links.handle("who", (_body, from) => from.session);
      links.handle("hang", () => new Promise(() => {}));
    },
  });
  expect(await stage.until(one.links.request(two, "who", 0))).toBe("one-1");
  const hanging = outcome(one.links.request(two, "hang", 0));
  await stage.time.advance(10);
  session = "one-2";
  expect(await stage.until(one.links.request(two, "who", 0))).toBe("one-2");
  expect(await stage.until(hanging)).toBe("link_broken");
});

it("an old address of a node does not take down the link to its new one", async () => {
  const one = await stage.node("one");
  const old = await stage.node("two");
  stage.network.kill("two");
  const moved = await stage.node("two", { network: stage.network.of("two-moved"), prepare: echoing });
  const at = (address: StageNode): Promise<unknown> => outcome(stage.until(one.links.request(address, "echo", 1)));
  expect([await at(moved), await at(old), await at(moved)]).toEqual([1, "node_unreachable", 1]);
});

it("what is late on a link that was given up is not heeded once another link has taken its place", async () => {
  const seen: unknown[] = [];
  // This side gives up early, the other does not notice.
  const one = await stage.node("one", { set: { LINK_HEARTBEAT_MS: 50, LINK_BACKOFF_MAX_MS: 1 } });
  const two = await stage.node("two", {
    set: { LINK_HEARTBEAT_MS: 5_000 },
    prepare: (links) => links.handle("note", (body) => void seen.push(body)),
  });
  await stage.until(one.links.request(two, "note", "first"));
  stage.network.slow("one", "two", { min: 2_000, max: 2_000 });
  const late = outcome(one.links.request(two, "note", "late"));
  await stage.time.advance(10);
  stage.network.slow("one", "two", undefined);
  expect(await stage.until(late)).toBe("link_broken");
  await stage.time.advance(10);
  await stage.until(one.links.request(two, "note", "next"));
  await stage.time.advance(5_000);
  expect(seen).toEqual(["first", "next"]);
});

it("another node at the address is found out", async () => {
  const one = await stage.node("one");
  const three = await stage.node("three", { prepare: echoing });
  const asked = one.links.request({ node: "two", address: three.address }, "echo", 0);
  await expect(stage.until(asked)).rejects.toMatchObject({
    code: "node_unreachable",
    message: "three answers at sim://three, where two was expected",
  });
});

it("neighbouring releases talk, others are refused with both their ranges", async () => {
  const one = await stage.node("one", { protocols: { min: 2, max: 3 }, version: "2.0.0" });
  const near = await stage.node("near", { protocols: { min: 1, max: 2 }, prepare: echoing });
  const far = await stage.node("far", { protocols: { min: 1, max: 1 }, prepare: echoing });
  expect(await stage.until(one.links.request(near, "echo", 1))).toBe(1);
  expect(await stage.until(near.links.request(one, "echo", 1).catch((error) => error.code))).toBe("bad_request");
  await expect(stage.until(one.links.request(far, "echo", 1))).rejects.toMatchObject({
    code: "link_refused",
    message: "far speaks link protocol 1 (moonport 1.2.3), this node link protocol 2 to 3 (moonport 2.0.0)",
  });
});

it("nothing is asked or accepted after the stop, and what waited for a link was not sent", async () => {
  const one = await stage.node("one");
  const two = await stage.node("two", { prepare: echoing });
  const waiting = outcome(one.links.request(two, "echo", 0));
  await one.links.stop();
  expect(await stage.until(waiting)).toBe("node_stopping");
  expect(await outcome(one.links.request(two, "echo", 0))).toBe("node_stopping");
  expect(await outcome(one.links.openStream(two, "any", 0)[Symbol.asyncIterator]().next())).toBe("node_stopping");
  expect(await outcome(stage.until(two.links.request(one, "echo", 0)))).toBe("node_unreachable");
  await stage.time.advance(10_000);
  expect(stage.network.openChannels).toBe(0);
});

it("a channel that is made when nobody waits for it any more is closed", async () => {
  const network = stage.network.of("one");
  const made = deferred<Channel>();
  const late = { ...network, connect: () => made.promise };
  const one = await stage.node("one", { network: late, set: { LINK_CONNECT_MS: 100 } });
  const two = await stage.node("two", { prepare: echoing });
  expect(await outcome(stage.until(one.links.request(two, "echo", 0)))).toBe("node_unreachable");
  const closed: string[] = [];
  made.resolve({ send() {}, trust() {}, bufferedBytes: 0, close: (why) => closed.push(why) });
  await stage.time.settle();
  expect(closed).toEqual(["nobody waits for it any more"]);
});
