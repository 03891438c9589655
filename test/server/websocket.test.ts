import http from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Authenticator } from "../../src/auth/contract.js";
import { MoonportError } from "../../src/errors.js";
import type { CallReply } from "../../src/node-api.js";
import type { LiveEvent } from "../../src/realtime/contract.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { CODECS, eventually, type OpenSockets, openSockets, TestClient } from "./sockets.js";

let sockets: OpenSockets;
afterEach(() => sockets.stop());

const TARGET = { class: "Auction", key: "lot 42/ü" } as const;

function anEvent(number: number, data: LiveEvent["data"] = { who: "ada" }): LiveEvent {
  return { number, name: "bid", data, atMs: 1_700_000_000_000, encoded: new Map() };
}

describe.each(CODECS)("a socket that speaks $protocol", (codec) => {
  beforeEach(async () => {
    sockets = await openSockets();
  });

  it("welcomes who says hello, with the node's session", async () => {
    const client = await TestClient.connect(sockets.port, codec);
    client.send({ type: "hello" });
    expect(await client.next("welcome")).toEqual({
      type: "welcome",
      session: "session-1",
      version: expect.any(String),
    });
    expect(client.ws.protocol).toBe(codec.protocol);
  });

  it("calls a method and replies with its value and its seq", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    sockets.node.answer = ({ args }) => ({ value: [...args], seq: 7 });
    const args = ["ada", 25, null, true, -1.5, 2 ** 40, "ü☾", { a: [1, {}] }, new Uint8Array([0, 255])];
    client.send({ type: "call", id: 3, ...TARGET, method: "bid", args, callId: "order-1", timeoutMs: 500 });
    expect(await client.next("reply")).toEqual({ type: "reply", id: 3, value: args, seq: 7 });
    const [call] = sockets.node.calls;
    expect(call).toMatchObject({ method: "bid", args, callId: "order-1", timeoutMs: 500, caller: { kind: "client" } });
    expect(call?.object.id).toBe("default/Auction/lot 42/ü");
    expect(call?.mustRead).toBeUndefined();
  });

  it("hands on that a replica may answer, and says when one did", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    sockets.node.answer = ({ consistency }) => ({ value: 1, seq: 7, ...(consistency && { from: "replica" }) });
    client.send({ type: "call", id: 3, ...TARGET, method: "top", consistency: "replica" });
    expect(await client.next("reply")).toEqual({ type: "reply", id: 3, value: 1, seq: 7, from: "replica" });
    client.send({ type: "call", id: 4, ...TARGET, method: "top", consistency: "stale" as "replica" });
    expect(await client.next("error")).toMatchObject({ id: 4, error: { code: "bad_request" } });
    client.send({ type: "call", id: 5, ...TARGET, method: "top" });
    expect(await client.next("reply")).toEqual({ type: "reply", id: 5, value: 1, seq: 7 });
  });

  it("leaves the seq out of a reply that wrote nothing, and arguments out are none", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "call", id: 0, app: "shop", ...TARGET, method: "top" });
    expect(await client.next("reply")).toEqual({ type: "reply", id: 0, value: [] });
    expect(sockets.node.calls[0]?.object.app).toBe("shop");
  });

  it("keeps a key called __proto__ a key, in and out", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    const hostile = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 2}');
    client.send({ type: "call", id: 1, ...TARGET, method: "say", args: [hostile] });
    const { value } = await client.next("reply");
    expect(JSON.stringify(value)).toBe('[{"__proto__":{"polluted":1},"constructor":2}]');
    expect(Object.hasOwn(sockets.node.calls[0]?.args[0] as object, "__proto__")).toBe(true);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it("gives a failed call's error as the problem it would be over HTTP", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    sockets.node.answer = () => {
      throw MoonportError.byClass("too_low", "bid more", { details: { top: 25 }, object: "default/Auction/a" });
    };
    client.send({ type: "call", id: 9, ...TARGET, method: "bid" });
    expect(await client.next("error")).toMatchObject({
      id: 9,
      error: { code: "too_low", source: "class", status: 422, retryable: false, details: { top: 25 } },
    });
  });

  it("answers calls in the order they end, not the order they came", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    const replies: Deferred<CallReply>[] = [];
    sockets.node.answer = () => {
      const reply = deferred<CallReply>();
      replies.push(reply);
      return reply.promise;
    };
    for (const id of [1, 2, 3]) client.send({ type: "call", id, ...TARGET, method: "bid" });
    await eventually(() => replies.length === 3);
    replies[2]?.resolve({ value: "third" });
    expect(await client.next("reply")).toMatchObject({ id: 3, value: "third" });
    replies[0]?.resolve({ value: "first" });
    expect(await client.next("reply")).toMatchObject({ id: 1, value: "first" });
    replies[1]?.resolve({ value: null });
    expect(await client.next("reply")).toMatchObject({ id: 2, value: null });
  });

  it("aborts the signal of a call that is cancelled, never answers it, and its id is free again", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    const reply = deferred<CallReply>();
    sockets.node.answer = () => reply.promise;
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    client.send({ type: "cancel", id: 1 });
    await client.roundTrip();
    expect(sockets.node.calls[0]?.signal?.aborted).toBe(true);
    sockets.node.answer = () => ({ value: "second" });
    client.send({ type: "call", id: 1, ...TARGET, method: "bid" });
    expect(await client.next("reply")).toMatchObject({ id: 1, value: "second" });
    reply.resolve({ value: "late" });
    await client.roundTrip();
    expect(client.frames).toEqual([]);
  });

  it("answers a ping with its number", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "ping", n: 12 });
    expect(await client.next("pong")).toEqual({ type: "pong", n: 12 });
    client.send({ type: "ping" });
    expect(await client.next("pong")).toEqual({ type: "pong" });
  });

  it("passes a subscription on and every delivery back", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    const reading = { method: "top", args: [1] };
    const from = { kind: "snapshot", reading } as const;
    client.send({ type: "subscribe", id: 5, ...TARGET, from, names: ["bid"], snapshotAfterGap: reading });
    await eventually(() => sockets.live.open === 1);
    expect(sockets.live.subscriptions[0]?.request).toMatchObject({ from, names: ["bid"], snapshotAfterGap: reading });

    sockets.live.deliver({ kind: "snapshot", value: { top: 1 }, number: 4 });
    sockets.live.deliver({ kind: "subscribed", after: 4 });
    sockets.live.deliver({ kind: "gap", from: 5, first: 9 });
    sockets.live.deliver({ kind: "event", event: anEvent(9, { bytes: new Uint8Array([1]) }) });
    sockets.live.deliver({ kind: "ended", reason: "destroyed", after: 9 });
    expect(await client.next("snapshot")).toEqual({ type: "snapshot", id: 5, value: { top: 1 }, number: 4 });
    expect(await client.next("subscribed")).toEqual({ type: "subscribed", id: 5, after: 4 });
    expect(await client.next("gap")).toEqual({ type: "gap", id: 5, from: 5, first: 9 });
    expect(await client.next("event")).toEqual({
      type: "event",
      id: 5,
      number: 9,
      name: "bid",
      data: { bytes: new Uint8Array([1]) },
      atMs: 1_700_000_000_000,
    });
    expect(await client.next("ended")).toEqual({ type: "ended", id: 5, reason: "destroyed", after: 9 });
    expect(sockets.door.load.subscriptions).toBe(0);
  });

  it("subscribes from now unless told otherwise, and after a number", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    client.send({ type: "subscribe", id: 2, ...TARGET, from: { kind: "after", number: 8 } });
    client.sendValue({ type: "subscribe", id: 3, ...TARGET, from: { kind: "snapshot", reading: { method: "top" } } });
    await eventually(() => sockets.live.open === 3);
    expect(sockets.live.subscriptions.map(({ request }) => "from" in request && request.from)).toEqual([
      { kind: "now" },
      { kind: "after", number: 8 },
      { kind: "snapshot", reading: { method: "top", args: [] } },
    ]);
  });

  it("shows a live view's values and its failures", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "view", id: 6, ...TARGET, method: "top", args: ["x"] });
    await eventually(() => sockets.live.open === 1);
    expect(sockets.live.subscriptions[0]?.request).toMatchObject({ reading: { method: "top", args: ["x"] } });
    sockets.live.deliver({ kind: "view", value: 25, seq: 3 });
    sockets.live.deliver({ kind: "view_failed", error: MoonportError.of("budget_exceeded", "too slow") });
    expect(await client.next("view")).toEqual({ type: "view", id: 6, value: 25, seq: 3 });
    expect(await client.next("view_failed")).toMatchObject({ id: 6, error: { code: "budget_exceeded" } });
  });

  it("ends a subscription on request: nothing comes afterwards", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    await eventually(() => sockets.live.open === 1);
    client.send({ type: "unsubscribe", id: 1 });
    await eventually(() => sockets.live.open === 0);
    sockets.live.subscriptions[0]?.sink.deliver({ kind: "event", event: anEvent(1) });
    await client.roundTrip();
    expect(client.frames).toEqual([]);
  });

  it("refuses a subscription with the error that the node has for it", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    sockets.live.refuse = MoonportError.of("class_not_found", "no such class");
    client.send({ type: "subscribe", id: 1, ...TARGET });
    expect(await client.next("error")).toMatchObject({ id: 1, error: { code: "class_not_found" } });
    expect(sockets.door.load.subscriptions).toBe(0);
  });

  it("encodes an event once, however many subscriptions it goes to", async () => {
    const clients = [await TestClient.greeted(sockets.port, codec), await TestClient.greeted(sockets.port, codec)];
    for (const client of clients) {
      for (let id = 1; id <= 300; id += 99) client.send({ type: "subscribe", id, ...TARGET });
    }
    await eventually(() => sockets.live.open === 8);
    const event = anEvent(2 ** 33);
    sockets.live.deliver({ kind: "event", event });
    expect([...event.encoded.keys()]).toEqual([codec.protocol]);
    const body = event.encoded.get(codec.protocol);
    sockets.live.deliver({ kind: "event", event });
    expect(event.encoded.get(codec.protocol)).toBe(body);
    for (const client of clients) {
      for (let id = 1; id <= 300; id += 99) expect(await client.next("event", id)).toMatchObject({ number: 2 ** 33 });
    }
  });

  it("carries values larger than what fits one write", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    for (const length of [125, 126, 65_535, 65_536, 900_000]) {
      client.send({ type: "call", id: length, ...TARGET, method: "say", args: ["x".repeat(length - 60)] });
      const { value } = await client.next("reply", length);
      expect((value as string[])[0]).toHaveLength(length - 60);
    }
  });

  it("tells subscribers and answers the calls that run before it stops", async () => {
    const client = await TestClient.greeted(sockets.port, codec);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    await eventually(() => sockets.live.open === 1);
    sockets.live.deliver({ kind: "subscribed", after: 3 });
    sockets.live.deliver({ kind: "event", event: anEvent(4) });
    const reply = deferred<CallReply>();
    sockets.node.answer = () => reply.promise;
    client.send({ type: "call", id: 2, ...TARGET, method: "bid" });
    await eventually(() => sockets.node.calls.length === 1);

    const stopped = sockets.stop();
    expect(await client.next("ended")).toEqual({ type: "ended", id: 1, reason: "stopping", after: 4 });
    client.send({ type: "call", id: 3, ...TARGET, method: "bid" });
    expect(await client.next("error")).toMatchObject({ id: 3, error: { code: "node_stopping", retryable: true } });
    reply.resolve({ value: "made it" });
    expect(await client.next("reply")).toMatchObject({ id: 2, value: "made it" });
    expect(await client.closed).toEqual({ code: 1001, reason: expect.stringMatching(/^stopping: /) });
    await stopped;
    expect(sockets.door.load).toEqual({ sockets: 0, calls: 0, subscriptions: 0 });
  });
});

describe("who becomes a socket", () => {
  function handshake(headers: http.OutgoingHttpHeaders): Promise<{ status: number; body: Record<string, unknown> }> {
    return new Promise((resolve, reject) => {
      const request = http.get({
        port: sockets.port,
        host: "127.0.0.1",
        path: "/v1/socket",
        headers: {
          connection: "Upgrade",
          upgrade: "websocket",
          "sec-websocket-version": "13",
          "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
          ...headers,
        },
      });
      request.on("error", reject);
      request.on("upgrade", (response, socket) => {
        socket.destroy();
        resolve({ status: response.statusCode ?? 0, body: {} });
      });
      request.on("response", async (response) => {
        const parts: Buffer[] = [];
        for await (const part of response) parts.push(part as Buffer);
        const text = Buffer.concat(parts).toString("utf8");
        const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
        resolve({ status: response.statusCode ?? 0, body });
      });
    });
  }

  beforeEach(async () => {
    sockets = await openSockets({ SOCKETS_MAX: 1 });
  });

  it("refuses a request without a subprotocol, or with none that there is, and names the two", async () => {
    for (const headers of [{}, { "sec-websocket-protocol": "moonport.v2+json, chat" }]) {
      const { status, body } = await handshake(headers);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: "bad_request", hint: expect.stringContaining("moonport.v1+json") });
    }
  });

  it("takes the first of the offered subprotocols that there is", async () => {
    expect((await handshake({ "sec-websocket-protocol": "chat, moonport.v1+msgpack, moonport.v1+json" })).status).toBe(
      101,
    );
  });

  it("refuses pages of other origins and names that are not this machine's", async () => {
    const protocol = { "sec-websocket-protocol": "moonport.v1+json" };
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }]) {
      const { status, body } = await handshake({ ...protocol, ...headers });
      expect({ status, code: body.code }).toEqual({ status: 403, code: "origin_refused" });
    }
    expect((await handshake({ ...protocol, origin: "http://localhost:5173" })).status).toBe(101);
  });

  it("refuses one more than SOCKETS_MAX", async () => {
    await TestClient.greeted(sockets.port);
    const { status, body } = await handshake({ "sec-websocket-protocol": "moonport.v1+json" });
    expect({ status, code: body.code }).toEqual({ status: 503, code: "node_full" });
  });
});

describe("a socket with tokens", () => {
  const auth: Authenticator = {
    isOpen: false,
    authenticate: (token) => {
      if (token !== "secret" && token !== "reader") throw MoonportError.of("unauthenticated", "no such token");
      return {
        id: "ada",
        claims: { role: token },
        check: ({ right, key }) => {
          const isFine = key === "mine" && (token === "secret" || right === "read");
          if (!isFine) throw MoonportError.of("forbidden", `not ${right}`);
        },
      };
    },
  };
  beforeEach(async () => {
    sockets = await openSockets({}, auth);
  });
  const mine = { class: "Auction", key: "mine" };

  it("closes with 4401 when the token is missing or wrong, and never shows it", async () => {
    for (const hello of [{ type: "hello" }, { type: "hello", token: "guess" }] as const) {
      const client = await TestClient.connect(sockets.port);
      client.send(hello);
      const { code, reason } = await client.closed;
      expect(code).toBe(4401);
      expect(reason).toMatch(/^unauthenticated: /);
      expect(reason).not.toContain("guess");
    }
  });

  it("gives id and claims to every call, and asks for the right of each", async () => {
    const client = await TestClient.greeted(sockets.port, undefined, "secret");
    client.send({ type: "call", id: 1, ...mine, method: "bid" });
    await client.next("reply");
    expect(sockets.node.calls[0]?.caller).toEqual({ kind: "client", id: "ada", claims: { role: "secret" } });
    for (const frame of [
      { type: "call", id: 2, class: "Auction", key: "other", method: "bid" },
      { type: "subscribe", id: 2, class: "Auction", key: "other" },
      { type: "view", id: 2, class: "Auction", key: "other", method: "top" },
    ] as const) {
      client.send(frame);
      expect(await client.next("error")).toMatchObject({ id: 2, error: { code: "forbidden" } });
    }
    expect(sockets.node.calls).toHaveLength(1);
    expect(sockets.live.open).toBe(0);
  });

  it("lets who may only read call reading methods alone", async () => {
    const client = await TestClient.greeted(sockets.port, undefined, "reader");
    sockets.node.answer = ({ mustRead }) => {
      expect(mustRead).toBe(true);
      throw MoonportError.of("not_a_reading_method", "it writes");
    };
    client.send({ type: "call", id: 1, ...mine, method: "bid" });
    expect(await client.next("error")).toMatchObject({ id: 1, error: { code: "forbidden" } });
    client.send({ type: "subscribe", id: 2, ...mine });
    expect(await client.next("error")).toMatchObject({ id: 2, error: { code: "forbidden" } });
    client.send({ type: "view", id: 3, ...mine, method: "top" });
    await eventually(() => sockets.live.open === 1);
  });
});
