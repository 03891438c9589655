import { beforeEach, describe, expect, it } from "vitest";
import { Addresses } from "../../src/client/addresses.js";
import type { ClientState } from "../../src/client/link.js";
import { CLOSE_CODES } from "../../src/wire/frames.js";
import { ScriptedNode } from "./support/scripted-node.js";

let node: ScriptedNode;
beforeEach(() => {
  node = new ScriptedNode();
});

describe("the connection of a client", () => {
  it("goes to the node's socket, says hello with the token, and is open once it is welcome", async () => {
    const states: ClientState[] = [];
    const client = node.client({ token: "secret" });
    client.onStateChange((state) => states.push(state));
    expect(client.state).toEqual({ kind: "connecting", attempt: 1 });
    await node.time.settle();
    expect(node.connection.url).toBe("ws://node.test:7070/v1/socket");
    expect(node.connection.frames).toEqual([{ type: "hello", token: "secret" }]);
    expect(client.state).toEqual({ kind: "open", session: "s1", version: "0.0.0" });
    expect(states.at(-1)).toBe(client.state);
  });

  it.each([
    ["http://127.0.0.1:7070", "ws://127.0.0.1:7070/v1/socket"],
    ["https://moon.test/port/", "wss://moon.test/port/v1/socket"],
    ["wss://moon.test", "wss://moon.test/v1/socket"],
  ])("understands %s", (url, expected) => {
    expect(new Addresses(url).current).toBe(expected);
  });

  it.each(["", "localhost:7070", "ftp://a", "ws://a?b=c", "ws://user@a"])("refuses %s as an address", (url) => {
    expect(() => new Addresses(url)).toThrow(expect.objectContaining({ code: "bad_option" }));
  });

  it("names the nearest of a misspelled option", () => {
    const misspelled: object = { timeoutMS: 5 };
    expect(() => node.client(misspelled)).toThrow(expect.objectContaining({ hint: "did you mean timeoutMs?" }));
  });

  it("is tried again with growing pauses, up to a bound", async () => {
    node.manner = "refuse";
    const client = node.client({ reconnectDelayMs: 100, reconnectDelayMaxMs: 1_000 });
    const pauses: number[] = [];
    client.onStateChange((state) => {
      if (state.kind === "waiting") pauses.push(state.delayMs);
    });
    await node.time.advance(20_000);
    const bounds = [100, 200, 400, 800, 1_000, 1_000];
    for (const [index, most] of bounds.entries()) {
      expect(pauses[index]).toBeGreaterThanOrEqual(most / 2);
      expect(pauses[index]).toBeLessThanOrEqual(most);
    }
    expect(new Set(pauses).size).toBeGreaterThan(bounds.length);
    expect(client.state).toMatchObject({ kind: "waiting", error: { code: "node_unreachable" } });
  });

  it("goes to the next address at once when one is lost, and pauses when all have been tried", async () => {
    node.manner = "refuse";
    const client = node.clientOf(["ws://a.test", "ws://b.test"], { reconnectDelayMs: 1_000 });
    await node.time.advance(100);
    expect(node.connections.map(({ url }) => new URL(url).host)).toEqual(["a.test", "b.test"]);
    expect(client.state).toMatchObject({ kind: "waiting" });
  });

  it("goes to another node as soon as its own is about to stop, with the calls under way", async () => {
    const client = node.clientOf(["ws://a.test", "ws://b.test"]);
    await node.time.settle();
    const call = client.object("Counter", "a").call("increment");
    const [{ callId } = { callId: "" }] = node.connection.of("call");
    await node.connection.say({ type: "leaving", nodes: [] });
    await node.time.advance(1);
    expect(new URL(node.connection.url).host).toBe("b.test");
    const [again] = node.connection.of("call");
    expect(again).toMatchObject({ method: "increment", callId });
    await node.connection.say({ type: "reply", id: again?.id ?? 0, value: 1 });
    expect(await call).toBe(1);
  });

  it("takes the addresses that a node names when it is to learn any, and stays otherwise", async () => {
    const nodes = ["http://b.test:7071", "no address"];
    const settled = await node.connected();
    await node.connection.say({ type: "leaving", nodes });
    expect([settled.state.kind, node.connections.length]).toEqual(["open", 1]);
    await node.connected({ learnNodes: true });
    await node.connection.say({ type: "leaving", nodes });
    await node.time.advance(1);
    expect(node.connection.url).toBe("ws://b.test:7071/v1/socket");
  });

  it("starts from short pauses again after one that was of use", async () => {
    node.manner = "refuse";
    const client = await node.connected();
    await node.time.advance(30_000);
    node.manner = "welcome";
    await node.time.advance(10_000);
    expect(client.state.kind).toBe("open");
    await node.connection.say({ type: "pong" });
    node.connection.close();
    await node.time.settle();
    expect(client.state).toMatchObject({ kind: "waiting", attempt: 2 });
  });

  it("is given up after as many tries as it may have, and everything fails with the reason", async () => {
    node.manner = "refuse";
    const client = await node.connected({ reconnectAttemptsMax: 3 });
    const call = client.object("Counter", "a").call("increment");
    const events = client.object("Counter", "a").subscribe();
    call.catch(() => {});
    await node.time.advance(10_000);
    expect(node.connections).toHaveLength(3);
    expect(client.state).toMatchObject({ kind: "closed", error: { code: "node_unreachable" } });
    await expect(call).rejects.toMatchObject({ code: "node_unreachable" });
    await expect(events.next()).rejects.toMatchObject({ code: "node_unreachable" });
    await expect(client.object("Counter", "a").call("increment")).rejects.toMatchObject({ code: "node_unreachable" });
  });

  it("is given up at once when the token is refused", async () => {
    node.manner = { close: CLOSE_CODES.unauthenticated };
    const client = await node.connected({ token: "wrong" });
    await node.time.advance(10_000);
    expect(node.connections).toHaveLength(1);
    expect(client.state).toMatchObject({ kind: "closed", error: { code: "unauthenticated" } });
    expect(JSON.stringify(client.state)).not.toContain("wrong");
  });

  it("asks for a fresh token at each try, and gives one that was refused a second chance", async () => {
    const tokens = ["old", "new", "newest"];
    node.manner = { close: CLOSE_CODES.unauthenticated };
    const client = await node.connected({ token: async () => tokens.shift() ?? "" });
    node.manner = "welcome";
    await node.time.advance(1_000);
    expect(client.state.kind).toBe("open");
    expect(node.connections.map((one) => one.last("hello").token)).toEqual(["old", "new"]);
  });

  it("is tried again when the token could not be had", async () => {
    let failures = 1;
    const client = node.client({
      token: () => {
        if (failures-- > 0) throw new Error("the issuer is away");
        return "fresh";
      },
    });
    await node.time.advance(1_000);
    expect(client.state.kind).toBe("open");
  });

  it("is given up when the node cannot read what it was sent", async () => {
    const client = await node.connected();
    node.connection.close(CLOSE_CODES.bad_frame, 'bad_frame: there are no frames of type "call"');
    await node.time.advance(10_000);
    expect(node.connections).toHaveLength(1);
    expect(client.state).toMatchObject({ kind: "closed", error: { message: expect.stringContaining("no frames") } });
  });

  it("is dropped when no welcome comes in time", async () => {
    node.manner = "silent";
    const client = await node.connected({ connectTimeoutMs: 2_000 });
    await node.time.advance(1_999);
    expect(client.state.kind).toBe("connecting");
    await node.time.advance(2);
    expect(node.connections[0]?.droppedByClient).toBe(true);
    expect(client.state.kind).toBe("waiting");
  });

  it("is dropped when the other side is no node", async () => {
    node.protocol = "";
    const client = await node.connected();
    expect(client.state).toMatchObject({
      kind: "waiting",
      error: { message: expect.stringContaining("does not speak") },
    });
    node.protocol = "moonport.v1+json";
    for (const text of ["what?", "null", "[]", '{"id":1}', '{"type":7}']) {
      await node.time.advance(1_000);
      expect(client.state.kind).toBe("open");
      await node.connection.sayRaw(text);
      expect(client.state).toMatchObject({ kind: "waiting", error: { message: expect.stringContaining("no frame") } });
    }
  });

  it("asks a silent node for a sign of life, and drops it when none comes", async () => {
    const client = await node.connected({ pingIntervalMs: 10_000, pingTimeoutMs: 5_000 });
    await node.time.advance(10_001);
    expect(node.connection.of("ping")).toHaveLength(1);
    await node.connection.say({ type: "pong" });
    await node.time.advance(14_000);
    expect(node.connection.of("ping")).toHaveLength(2);
    expect(client.state.kind).toBe("open");
    await node.time.advance(1_010);
    expect(client.state).toMatchObject({
      kind: "waiting",
      error: { message: expect.stringContaining("no sign of life") },
    });
    expect(node.connections[0]?.droppedByClient).toBe(true);
  });

  it("asks nothing of a node that talks", async () => {
    await node.connected({ pingIntervalMs: 10_000 });
    for (let second = 0; second < 30; second++) {
      await node.time.advance(1_000);
      await node.connection.say({ type: "pong" });
    }
    expect(node.connection.of("ping")).toEqual([]);
  });
});

describe("close", () => {
  it("ends loops, fails calls by what is known of them, and stays closed", async () => {
    const client = await node.connected({ callsInFlightMax: 1 });
    const counter = client.object("Counter", "a");
    const outcomes = Promise.allSettled([counter.call("increment"), counter.call("increment")]);
    const events = counter.subscribe().next();
    const values = counter.view("value").next();
    await node.time.settle();
    await client.close();
    await client.close();
    expect(await outcomes).toMatchObject([
      { reason: { code: "outcome_unknown", callId: expect.any(String) } },
      { reason: { code: "caller_gone" } },
    ]);
    expect([await events, await values]).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
    expect(node.connection.droppedByClient).toBe(true);
    expect(client.state).toEqual({ kind: "closed" });
    await expect(counter.call("increment")).rejects.toMatchObject({ code: "caller_gone" });
    expect(() => counter.subscribe()).toThrow(expect.objectContaining({ code: "caller_gone" }));
    await node.time.advance(60_000);
    expect(node.connections).toHaveLength(1);
  });

  it("while it pauses, or asks for a token, keeps it from connecting", async () => {
    let give = (_token: string): void => {};
    const asking = node.client({
      token: () =>
        new Promise<string>((resolve) => {
          give = resolve;
        }),
    });
    await node.time.settle();
    await asking.close();
    give("late");
    node.manner = "refuse";
    const pausing = await node.connected();
    await pausing.close();
    await node.time.advance(60_000);
    expect(node.connections).toHaveLength(1);
  });

  it("may be called by a listener of states", async () => {
    const client = node.client();
    const stop = client.onStateChange((state) => {
      if (state.kind === "open") void client.close();
    });
    await node.time.advance(1_000);
    expect(client.state).toEqual({ kind: "closed" });
    stop();
  });
});
