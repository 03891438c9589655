/** What a hostile, broken or slow client does to a node: nothing but lose its own socket. */
import type net from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";
import { jsonCodec, msgpackCodec } from "../../src/wire/codec.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { CODECS, eventually, type OpenSockets, openSockets, TestClient } from "./sockets.js";

let sockets: OpenSockets;
afterEach(() => sockets.stop());

const TARGET = { class: "Auction", key: "a" } as const;
const KIB = 1_024;

/** A call of somebody else still gets its answer. */
async function servesOthers(): Promise<void> {
  sockets.node.answer = ({ args }) => ({ value: [...args] });
  const other = await TestClient.greeted(sockets.port);
  other.send({ type: "call", id: 1, ...TARGET, method: "say", args: ["still here"] });
  expect(await other.next("reply")).toMatchObject({ value: ["still here"] });
  await other.close();
}

describe.each(CODECS)("a client of $protocol that breaks the rules", (codec) => {
  it.each([
    ["says no hello first", [{ type: "call", id: 1, ...TARGET, method: "m" }]],
    ["says hello twice", [{ type: "hello" }, { type: "hello" }]],
    ["sends no type", [{ type: "hello" }, { id: 1 }]],
    ["sends a type that there is not", [{ type: "hello" }, { type: "cal", id: 1 }]],
    ["sends no map", [{ type: "hello" }, [1, 2]]],
    ["sends a scalar", [{ type: "hello" }, 7]],
    ["sends a call without an id", [{ type: "hello" }, { type: "call", ...TARGET, method: "m" }]],
    ["sends a fraction for an id", [{ type: "hello" }, { type: "call", id: 1.5, ...TARGET, method: "m" }]],
    ["sends a negative id", [{ type: "hello" }, { type: "call", id: -1, ...TARGET, method: "m" }]],
    ["sends a huge id", [{ type: "hello" }, { type: "call", id: 2 ** 60, ...TARGET, method: "m" }]],
    ["sends text for an id", [{ type: "hello" }, { type: "cancel", id: "1" }]],
    ["sends a token that is no text", [{ type: "hello", token: 5 }]],
    ["sends a ping with a word", [{ type: "hello" }, { type: "ping", n: "x" }]],
    [
      "uses the number of a subscription twice",
      [{ type: "hello" }, { type: "subscribe", id: 1, ...TARGET }, { type: "subscribe", id: 1, ...TARGET }],
    ],
    ["says hello with a frame that is too long for one", [{ type: "hello", token: "x".repeat(20_000) }]],
  ])("is closed with 4400 when it %s", async (_, frames) => {
    sockets = await openSockets();
    const client = await TestClient.connect(sockets.port, codec);
    for (const frame of frames) client.sendValue(frame);
    const { code, reason } = await client.closed;
    expect(code).toBe(4400);
    expect(reason).toMatch(/^bad_frame: /);
    expect(sockets.node.calls).toEqual([]);
    await eventually(() => sockets.door.load.sockets === 0);
    expect(sockets.live.open).toBe(0);
    await servesOthers();
  });

  it.each([
    ["a class that is none", { type: "call", id: 1, class: "auction", key: "a", method: "m" }, "bad_name"],
    ["a method that is none", { type: "call", id: 1, ...TARGET, method: "to string" }, "bad_name"],
    ["a key that is empty", { type: "call", id: 1, class: "Auction", key: "", method: "m" }, "bad_key"],
    ["an app that is none", { type: "call", id: 1, ...TARGET, app: "Shop", method: "m" }, "bad_name"],
    ["no method", { type: "call", id: 1, ...TARGET }, "bad_request"],
    ["a number for a key", { type: "call", id: 1, class: "Auction", key: 5, method: "m" }, "bad_request"],
    ["arguments that are no array", { type: "call", id: 1, ...TARGET, method: "m", args: { a: 1 } }, "bad_request"],
    ["a call id with a space", { type: "call", id: 1, ...TARGET, method: "m", callId: "a b" }, "bad_request"],
    ["a timeout of nothing", { type: "call", id: 1, ...TARGET, method: "m", timeoutMs: 0 }, "bad_request"],
    ["a field that there is not", { type: "call", id: 1, ...TARGET, method: "m", timeoutMS: 5 }, "bad_request"],
    ["from nowhere", { type: "subscribe", id: 1, ...TARGET, from: { kind: "then" } }, "bad_request"],
    [
      "from a number below none",
      { type: "subscribe", id: 1, ...TARGET, from: { kind: "after", number: -1 } },
      "bad_request",
    ],
    ["from a snapshot of nothing", { type: "subscribe", id: 1, ...TARGET, from: { kind: "snapshot" } }, "bad_request"],
    ["names that are numbers", { type: "subscribe", id: 1, ...TARGET, names: [1] }, "bad_request"],
    ["a view of no method", { type: "view", id: 1, ...TARGET }, "bad_request"],
    ["arguments that are too deep", { type: "call", id: 1, ...TARGET, method: "m", args: [deep(200)] }, "too_deep"],
  ])("is told what is wrong with %s, and keeps its socket", async (_, frame, errorCode) => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port, codec);
    client.sendValue(frame);
    const { error } = await client.next("error", 1);
    expect(error).toMatchObject({ code: errorCode, source: "moonport", status: 400 });
    await client.roundTrip();
    expect(sockets.node.calls).toEqual([]);
  });

  it("is closed with 1009 for a frame over SOCKET_FRAME_BYTES_MAX", async () => {
    sockets = await openSockets({ SOCKET_FRAME_BYTES_MAX: 2 * KIB });
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "call", id: 1, ...TARGET, method: "say", args: ["x".repeat(4 * KIB)] });
    expect((await client.closed).code).toBe(1009);
    await eventually(() => sockets.door.load.sockets === 0);
    await servesOthers();
  });

  it("is closed with 4400 when its messages are of the other kind", async () => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port, codec);
    client.sendRaw(codec.isBinary ? '{"type":"ping"}' : Uint8Array.of(0x81, 0xa4));
    expect((await client.closed).code).toBe(4400);
  });

  it("loses its socket by random bytes, and the node is none the worse", async () => {
    sockets = await openSockets();
    const asMessage = (bytes: Uint8Array): string | Uint8Array =>
      codec.isBinary ? bytes : Buffer.from(bytes).toString("utf8");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 20 }),
        async (messages) => {
          const client = await TestClient.greeted(sockets.port, codec);
          for (const bytes of messages) client.sendRaw(asMessage(bytes));
          // Nearly none of these is a frame; one that is does no harm.
          client.ws.close();
          expect([4400, 1005]).toContain((await client.closed).code);
        },
      ),
      { numRuns: 60 },
    );
    await eventually(() => sockets.door.load.sockets === 0);
    await servesOthers();
  });

  it("loses nothing but its socket with frames that are cut off or have a byte changed", async () => {
    sockets = await openSockets();
    const good = codec.encode({ type: "call", id: 1, ...TARGET, method: "say", args: [{ a: [1, "ü", null] }] });
    const bytes = typeof good === "string" ? Buffer.from(good) : good;
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(255), fc.boolean(), async (at, byte, isCut) => {
        const broken = Uint8Array.from(isCut ? bytes.subarray(0, at) : bytes);
        if (!isCut) broken[at] = byte;
        const client = await TestClient.greeted(sockets.port, codec);
        client.sendRaw(codec.isBinary ? broken : Buffer.from(broken).toString("utf8"));
        client.send({ type: "ping" });
        const outcome = await Promise.race([client.closed, client.next("pong").catch(() => client.closed)]);
        if ("code" in outcome) expect(outcome.code).toBe(4400);
        await client.close();
      }),
      { numRuns: 80 },
    );
    await servesOthers();
  });
});

describe("a client that is no friend", () => {
  it("is closed with 1007 for text that is not UTF-8", async () => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port, jsonCodec);
    client.ws.send(Buffer.from([0x22, 0xff, 0xfe, 0x22]), { binary: false });
    expect((await client.closed).code).toBe(1007);
  });

  it("is answered bad_value for text in msgpack that is not UTF-8, and for extension types", async () => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port, msgpackCodec);
    const frame = msgpackCodec.encode({ type: "call", id: 1, ...TARGET, method: "say", args: ["??"] }) as Uint8Array;
    const at = frame.findIndex((byte, index) => byte === 0x3f && frame[index + 1] === 0x3f);
    client.sendRaw(frame.with(at, 0xff));
    expect(await client.next("error", 1)).toMatchObject({ error: { code: "bad_value" } });
    const dated = frame.with(at - 1, 0xd4).with(at, 0x00);
    client.sendRaw(Buffer.concat([dated, Buffer.of(0x00)]).subarray(0, frame.length));
    expect(await client.next("error", 1)).toMatchObject({ error: { code: "bad_value" } });
    expect(sockets.node.calls).toEqual([]);
  });

  it("is closed with 4408 when it never says hello", async () => {
    sockets = await openSockets({ HELLO_TIMEOUT_MS: 20 });
    const client = await TestClient.connect(sockets.port);
    expect((await client.closed).code).toBe(4408);
    await eventually(() => sockets.door.load.sockets === 0);
  });

  it("is closed with 4499 when it does not answer pings", async () => {
    sockets = await openSockets({ SOCKET_PING_MS: 20 });
    const client = await TestClient.connect(sockets.port, jsonCodec, { autoPong: false });
    client.send({ type: "hello" });
    expect((await client.closed).code).toBe(4499);
    await eventually(() => sockets.door.load.sockets === 0);
  });

  it("stays when it only answers pings", async () => {
    sockets = await openSockets({ SOCKET_PING_MS: 10 });
    const client = await TestClient.greeted(sockets.port);
    let pings = 0;
    client.ws.on("ping", () => {
      pings += 1;
    });
    await eventually(() => pings >= 4);
    await client.roundTrip();
  });

  it("that is cut off gives its calls up and ends its subscriptions", async () => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port);
    const reply = deferred<CallReply>();
    sockets.node.answer = () => reply.promise;
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "subscribe", id: 2, ...TARGET });
    client.send({ type: "view", id: 3, ...TARGET, method: "top" });
    await eventually(() => sockets.node.calls.length === 1 && sockets.live.open === 2);
    expect(sockets.node.calls[0]?.signal?.aborted).toBe(false);
    client.ws.terminate();
    await eventually(() => sockets.door.load.sockets === 0);
    expect(sockets.node.calls[0]?.signal?.aborted).toBe(true);
    expect(sockets.live.open).toBe(0);
    reply.resolve({ value: "too late" });
    await servesOthers();
  });

  it("that subscribes and unsubscribes ten thousand times leaves nothing behind", async () => {
    sockets = await openSockets();
    const client = await TestClient.greeted(sockets.port, msgpackCodec);
    for (let id = 0; id < 10_000; id++) {
      client.send({ type: "subscribe", id, ...TARGET });
      client.send({ type: "unsubscribe", id });
    }
    await client.roundTrip();
    expect(client.frames).toEqual([]);
    expect(sockets.door.load).toEqual({ sockets: 1, calls: 0, subscriptions: 0 });
    await eventually(() => sockets.live.open === 0);
  });

  it("may have SOCKET_SUBSCRIPTIONS_MAX subscriptions and views, and gets socket_full for one more", async () => {
    sockets = await openSockets({ SOCKET_SUBSCRIPTIONS_MAX: 2 });
    const client = await TestClient.greeted(sockets.port);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    client.send({ type: "view", id: 2, ...TARGET, method: "top" });
    client.send({ type: "subscribe", id: 3, ...TARGET });
    expect(await client.next("error", 3)).toMatchObject({ error: { code: "socket_full" } });
    client.send({ type: "unsubscribe", id: 1 });
    client.send({ type: "subscribe", id: 3, ...TARGET });
    await client.roundTrip();
    expect(client.frames).toEqual([]);
  });
});

describe("a client that gives up subscriptions which are still prepared", () => {
  it.each([
    ["subscriptions", { kind: "now" }],
    ["subscriptions with a snapshot", { kind: "snapshot", reading: { method: "top", args: [] } }],
  ] as const)("has no more than SOCKET_SUBSCRIPTIONS_MAX under way: %s", async (_, from) => {
    sockets = await openSockets({ SOCKET_SUBSCRIPTIONS_MAX: 2 });
    const prepared = sockets.live.holdBack();
    const client = await TestClient.greeted(sockets.port);
    for (const id of [1, 2, 3]) {
      client.send({ type: "subscribe", id, ...TARGET, from });
      client.send({ type: "unsubscribe", id });
    }
    await client.roundTrip();
    expect(client.frames.splice(0)).toMatchObject([{ type: "error", id: 3, error: { code: "socket_full" } }]);
    expect(sockets.live.subscriptions).toHaveLength(2);
    prepared.resolve();
    await eventually(() => sockets.live.open === 0);
    client.send({ type: "subscribe", id: 4, ...TARGET, from });
    await eventually(() => sockets.live.open === 1);
    expect(client.frames).toEqual([]);
  });

  it("has its snapshots counted among those that must fit until they are prepared", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 256 * KIB });
    const prepared = sockets.live.holdBack();
    const client = await TestClient.greeted(sockets.port);
    const from = { kind: "snapshot", reading: { method: "top", args: [] } } as const;
    for (let id = 0; id < 100; id++) {
      client.send({ type: "subscribe", id, ...TARGET, from });
      client.send({ type: "unsubscribe", id });
    }
    await client.roundTrip();
    expect(sockets.live.subscriptions).toHaveLength(16);
    client.send({ type: "subscribe", id: 100, ...TARGET, from });
    prepared.resolve();
    await eventually(() => sockets.live.open === 1);
  });
});

describe("a client that asks for more than may be under way", () => {
  async function gated(
    overrides: Record<string, number>,
  ): Promise<{ client: TestClient; replies: Deferred<CallReply>[] }> {
    sockets = await openSockets(overrides);
    const replies: Deferred<CallReply>[] = [];
    sockets.node.answer = () => {
      const reply = deferred<CallReply>();
      replies.push(reply);
      return reply.promise;
    };
    return { client: await TestClient.greeted(sockets.port), replies };
  }

  it("waits: calls begin in order as others end, and none is refused", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 2 });
    for (let id = 0; id < 50; id++) client.send({ type: "call", id, ...TARGET, method: "bid", args: [id] });
    for (let id = 0; id < 50; id++) {
      await eventually(() => replies.length > id);
      expect(replies.length).toBeLessThanOrEqual(id + 2);
      replies[id]?.resolve({ value: id });
      expect(await client.next("reply")).toMatchObject({ id, value: id });
    }
    expect(sockets.node.calls.map(({ args }) => args[0])).toEqual(Array.from({ length: 50 }, (_, id) => id));
    expect(sockets.door.load.calls).toBe(0);
  });

  it("goes on behind a call that waits for its object alone when that is cancelled, or its time is up", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 9, SOCKET_OBJECT_CALLS_MAX: 1 });
    const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
    raw.cork();
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "call", id: 2, ...TARGET, method: "never" });
    client.send({ type: "call", id: 3, ...TARGET, key: "other", method: "second" });
    client.send({ type: "cancel", id: 2 });
    client.send({ type: "call", id: 4, ...TARGET, method: "never", timeoutMs: 10 });
    client.send({ type: "call", id: 5, ...TARGET, key: "third", method: "third" });
    raw.uncork();
    await client.next("error", 4);
    await eventually(() => replies.length === 3);
    expect(sockets.node.calls.map(({ method }) => method)).toEqual(["bid", "second", "third"]);
    for (const reply of replies) reply.resolve({ value: null });
    await client.roundTrip();
    expect(sockets.door.load.calls).toBe(0);
  });

  it("may cancel a call that waits: it is never begun", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 1 });
    // In one write, so that the cancel is read although the socket is not read any further.
    const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
    raw.cork();
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "call", id: 2, ...TARGET, method: "never" });
    client.send({ type: "call", id: 3, ...TARGET, method: "last" });
    client.send({ type: "cancel", id: 2 });
    raw.uncork();
    await eventually(() => replies.length === 1);
    replies[0]?.resolve({ value: null });
    await eventually(() => replies.length === 2);
    replies[1]?.resolve({ value: null });
    await client.next("reply", 3);
    expect(sockets.node.calls.map(({ method }) => method)).toEqual(["bid", "last"]);
  });

  it("has a call that waits answered at its deadline, and is read on; what then runs has waited already", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 1, CALL_TIMEOUT_MS: 50_000 });
    const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
    raw.cork();
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "call", id: 2, ...TARGET, method: "never", timeoutMs: 20 });
    client.send({ type: "call", id: 3, ...TARGET, method: "patient" });
    client.send({ type: "call", id: 4, ...TARGET, method: "never", timeoutMs: 10 });
    raw.uncork();
    for (const id of [2, 4]) {
      expect(await client.next("error", id)).toMatchObject({ error: { code: "deadline_exceeded", retryable: true } });
    }
    expect(sockets.door.load.calls).toBe(2);
    replies[0]?.resolve({ value: null });
    await eventually(() => replies.length === 2);
    const [first, second] = sockets.node.calls;
    expect([first?.method, first?.timeoutMs, second?.method]).toEqual(["bid", undefined, "patient"]);
    expect(second?.timeoutMs).toBeLessThanOrEqual(50_000 - 20);
    expect(second?.timeoutMs).toBeGreaterThan(0);
    replies[1]?.resolve({ value: null });
    await client.next("reply", 3);
    await client.roundTrip();
  });

  it("is read on when the last call that waited was answered at its deadline", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 1 });
    const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
    raw.cork();
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "call", id: 2, ...TARGET, method: "never", timeoutMs: 10 });
    raw.uncork();
    await client.next("error", 2);
    replies[0]?.resolve({ value: null });
    await client.roundTrip();
    expect(client.frames).toMatchObject([{ type: "reply", id: 1 }]);
  });

  it("is not taken for dead while it is not read", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 1, SOCKET_PING_MS: 10 });
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    await eventually(() => replies.length === 1);
    let pings = 0;
    const other = await TestClient.greeted(sockets.port);
    other.ws.on("ping", () => {
      pings += 1;
    });
    await eventually(() => pings >= 4);
    replies[0]?.resolve({ value: "patience" });
    expect(await client.next("reply")).toMatchObject({ value: "patience" });
  });

  it("has calls that wait refused when the node stops, and the running ones answered", async () => {
    const { client, replies } = await gated({ SOCKET_CALLS_MAX: 1 });
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "call", id: 2, ...TARGET, method: "bid" });
    await eventually(() => replies.length === 1);
    const stopped = sockets.stop();
    replies[0]?.resolve({ value: "done" });
    expect(await client.next("reply", 1)).toMatchObject({ value: "done" });
    expect((await client.closed).code).toBe(1001);
    await stopped;
    expect(replies).toHaveLength(1);
  });
});

describe("a client that does not read", () => {
  const CHUNK: PlainValue = "x".repeat(64 * KIB);

  it("is closed as slow once its buffer is full, with all its subscriptions; others get every event", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 256 * KIB });
    const slow = await TestClient.greeted(sockets.port);
    const quick = await TestClient.greeted(sockets.port);
    for (const client of [slow, quick]) client.send({ type: "subscribe", id: 1, ...TARGET });
    await eventually(() => sockets.live.open === 2);
    slow.ws.pause();
    let number = 0;
    while (sockets.live.open === 2) {
      number += 1;
      const event = { number, name: "tick", data: CHUNK, atMs: 0, encoded: new Map() };
      for (const { sink, isClosed } of sockets.live.subscriptions) {
        if (isClosed) continue;
        // As the hub does it.
        if (sink.isFull()) sink.deliver({ kind: "ended", reason: "slow", after: number - 1 });
        else sink.deliver({ kind: "event", event });
      }
      expect(await quick.next("event")).toMatchObject({ number });
    }
    slow.ws.resume();
    expect(await slow.closed).toEqual({ code: 4429, reason: expect.stringMatching(/^slow: /) });
    // What was sent before arrived in order, then the number to resume from.
    const events = slow.frames.filter(({ type }) => type === "event");
    expect(events.map((event) => event.number)).toEqual(events.map((_, index) => index + 1));
    expect(slow.frames.at(-1)).toEqual({ type: "ended", id: 1, reason: "slow", after: number - 1 });
    expect(events).toHaveLength(number - 1);
    await eventually(() => sockets.door.load.sockets === 1);
    await servesOthers();
  });

  it("makes a catch-up wait until it reads", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 256 * KIB });
    const client = await TestClient.greeted(sockets.port);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    await eventually(() => sockets.live.open === 1);
    const sink = sockets.live.subscriptions[0]?.sink;
    expect(sink?.room()).toBeUndefined();
    client.ws.pause();
    let number = 0;
    while (sink?.room() === undefined) {
      number += 1;
      sink?.deliver({ kind: "event", event: { number, name: "t", data: CHUNK, atMs: 0, encoded: new Map() } });
      await new Promise((resolve) => void setImmediate(resolve));
    }
    expect(sink.isFull()).toBe(false);
    const room = sink.room();
    client.ws.resume();
    await room;
    expect(sink.room()).toBeUndefined();
  });

  it("gets socket_full for replies that do not fit, and further calls are not read meanwhile", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 256 * KIB });
    const client = await TestClient.greeted(sockets.port);
    sockets.node.answer = () => ({ value: CHUNK });
    client.ws.pause();
    for (let id = 0; id < 500; id++) client.send({ type: "call", id, ...TARGET, method: "big" });
    await eventually(() => sockets.node.calls.length > 0);
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => void setImmediate(resolve));
    // The first burst may begin before a reply's size is known; after it, no more than fits.
    expect(sockets.node.calls.length).toBeLessThan(300);
    client.ws.resume();
    const outcomes = new Map<number, string>();
    for (let id = 0; id < 500; id++) {
      await eventually(() => client.frames.some((frame) => frame.id === id));
      const frame = client.frames.find((one) => one.id === id);
      outcomes.set(id, frame?.type === "error" ? (frame.error as { code: string }).code : (frame?.type as string));
    }
    const kinds = new Set(outcomes.values());
    expect([...kinds].filter((kind) => kind !== "reply" && kind !== "socket_full")).toEqual([]);
    expect(outcomes.get(499)).toBe("reply");
    await client.roundTrip();
  });

  it("is closed as slow when it takes nothing from one ping to the next", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 64 * KIB, SOCKET_PING_MS: 30 });
    const client = await TestClient.greeted(sockets.port);
    sockets.node.answer = () => ({ value: CHUNK });
    client.send({ type: "subscribe", id: 1_000, ...TARGET });
    await eventually(() => sockets.live.open === 1);
    client.ws.pause();
    for (let id = 0; id < 500; id++) client.send({ type: "call", id, ...TARGET, method: "big" });
    await eventually(() => sockets.live.open === 0);
    client.ws.resume();
    expect((await client.closed).code).toBe(4429);
    await eventually(() => sockets.door.load.sockets === 0);
    await servesOthers();
  });

  it("and floods the node with frames that are refused is not read either", async () => {
    sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: 64 * KIB });
    const client = await TestClient.greeted(sockets.port);
    client.ws.pause();
    const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
    for (let id = 0; id < 100_000 && raw.writableLength < 256 * KIB; id++) {
      client.sendValue({ type: "call", id, class: "no class", key: "a", method: "m" });
      if (id % 1_000 === 0) await new Promise((resolve) => void setImmediate(resolve));
    }
    // What the node does not read stays with the client.
    expect(raw.writableLength).toBeGreaterThan(0);
    client.ws.terminate();
    await eventually(() => sockets.door.load.sockets === 0);
    await servesOthers();
  });
});

it("a connection that sends half a frame and falls silent is closed as dead", async () => {
  sockets = await openSockets({ SOCKET_PING_MS: 20 });
  const client = await TestClient.greeted(sockets.port);
  const raw = (client.ws as unknown as { _socket: net.Socket })._socket;
  // A masked text frame of 100,000 bytes, of which one is sent: no pong may stand inside it.
  raw.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 1, 0x86, 0xa0, 1, 2, 3, 4, 5]));
  raw.write = () => true;
  expect((await client.closed).code).toBe(4499);
  await eventually(() => sockets.door.load.sockets === 0);
});

it("faults of the node are internal errors to the client, and the socket stays", async () => {
  sockets = await openSockets();
  const client = await TestClient.greeted(sockets.port);
  sockets.node.answer = () => {
    throw new TypeError("a bug");
  };
  client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
  expect(await client.next("error", 1)).toMatchObject({ error: { code: "internal", status: 500 } });
  sockets.node.answer = () => {
    throw MoonportError.of("mailbox_full", "full", { retryAfterMs: 50 });
  };
  client.send({ type: "call", id: 2, ...TARGET, method: "bid" });
  expect(await client.next("error", 2)).toMatchObject({ error: { code: "mailbox_full", retryAfterMs: 50 } });
});

function deep(levels: number): PlainValue {
  let value: PlainValue = 1;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}
