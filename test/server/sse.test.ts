import net from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { Sink, Subscription } from "../../src/realtime/contract.js";
import { EventStreams } from "../../src/server/sse.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { classes } from "../realtime/log-class.js";
import { type ServedNode, StreamClient, serveNode } from "../support/event-streams.js";
import { ask, openDoor, world } from "./door.js";
import { eventually } from "./sockets.js";

const PATH = "/v1/default/Log/a/-/events";
const object = identityOf("default", "Log", "a");

async function call({ node }: ServedNode, method: string, ...args: PlainValue[]): Promise<void> {
  await node.call({ object, method, args, caller: { kind: "client" } });
}

/** Resolves once the node has no subscriptions any more. */
async function forgotten({ node }: ServedNode): Promise<void> {
  while ((await node.status()).subscriptions > 0) await new Promise((resolve) => setImmediate(resolve));
}

describe("an event stream", () => {
  it("tells events with number, name and data as they land", async () => {
    const served = await serveNode({ classes });
    const stream = await StreamClient.open(served.port, PATH);
    expect(stream.response.statusCode).toBe(200);
    expect(stream.response.headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    });
    await stream.until(({ messages }) => messages.length === 1);
    await call(served, "say", "line\nbreak and \u2028");
    await call(served, "say", new Uint8Array([1, 2]));
    await stream.until(({ messages }) => messages.length === 3);
    expect(stream.story).toEqual([
      'moonport.subscribed 0 {"after":0}',
      'said 1 "line\\nbreak and \u2028"',
      'said 2 {"$bytes":"AQI="}',
    ]);
    expect(stream.messages[1]?.atMs).toBeGreaterThan(1_700_000_000_000);
  });

  it("keeps an event's name apart from its own and from the lines of the format", async () => {
    const served = await serveNode({ classes });
    const stream = await StreamClient.open(served.port, PATH);
    await stream.until(({ messages }) => messages.length === 1);
    const names = ["moonport.gap", "two\nlines", "", " spaced: ", "naïve"];
    for (const name of names) await call(served, "many", 1, name);
    await stream.until(({ messages }) => messages.length === 1 + names.length);
    expect(stream.story.slice(1)).toEqual([
      'moonport.event 1 {"name":"moonport.gap","data":1}',
      'moonport.event 2 {"name":"two\\nlines","data":1}',
      'moonport.event 3 {"name":"","data":1}',
      " spaced:  4 1",
      "naïve 5 1",
    ]);
  });

  it("begins after a number, and after Last-Event-ID before what the URL says", async () => {
    const served = await serveNode({ classes });
    await call(served, "many", 4);
    const byUrl = await StreamClient.open(served.port, `${PATH}?after=2`);
    await byUrl.until(({ messages }) => messages.length === 3);
    expect(byUrl.story).toEqual(['moonport.subscribed 2 {"after":2}', "said 3 3", "said 4 4"]);
    const returned = await StreamClient.open(served.port, `${PATH}?after=1&snapshot=last`, { "last-event-id": "3" });
    await returned.until(({ messages }) => messages.length === 2);
    expect(returned.story).toEqual(['moonport.subscribed 3 {"after":3}', "said 4 4"]);
  });

  it("begins with a snapshot, and gives one after a gap", async () => {
    const served = await serveNode({ classes, settings: { EVENT_ROWS_MAX: 10 } });
    await call(served, "many", 128);
    const fresh = await StreamClient.open(served.port, `${PATH}?snapshot=plus&args=[5]`);
    await fresh.until(({ messages }) => messages.length === 2);
    expect(fresh.story).toEqual([
      'moonport.snapshot 128 {"value":133,"number":128}',
      'moonport.subscribed 128 {"after":128}',
    ]);
    const late = await StreamClient.open(served.port, `${PATH}?snapshot=last`, { "last-event-id": "7" });
    await late.until(({ messages }) => messages.length === 3);
    // The gap has no id of its own: who is cut off here hears of it again.
    expect(late.story).toEqual([
      'moonport.subscribed 7 {"after":7}',
      'moonport.gap 7 {"from":8,"first":119}',
      'moonport.snapshot 128 {"value":128,"number":128}',
    ]);
  });

  it("filters by name, and says in its keep-alive how far it has come", async () => {
    const served = await serveNode({ classes, settings: { SSE_KEEPALIVE_MS: 20 } });
    const stream = await StreamClient.open(served.port, `${PATH}?names=whispered,other`);
    await stream.until(({ messages }) => messages.length === 1);
    await call(served, "whisper", "one");
    await call(served, "say", "two");
    await stream.until(({ id }) => id === "2");
    expect(stream.story.slice(1)).toEqual(['whispered 1 "one"']);
    expect(stream.text).toContain(":\nid: 2\n\n");
    const exotic = await StreamClient.open(served.port, `${PATH}?after=0&names=${encodeURIComponent('["a,b"]')}`);
    await call(served, "many", 1, "a,b");
    await exotic.until(({ messages }) => messages.length === 2);
    expect(exotic.story[1]).toBe("a,b 3 1");
  });

  it("says when the object has ended, and ends", async () => {
    const served = await serveNode({ classes });
    const stream = await StreamClient.open(served.port, PATH);
    await stream.until(({ messages }) => messages.length === 1);
    await call(served, "finish");
    await stream.ended();
    expect(stream.story.slice(1)).toEqual(["finished 1 1", 'moonport.ended 1 {"reason":"destroyed","after":1}']);
    await forgotten(served);
  });

  it("is resumed on the next node with nothing lost and nothing doubled", async () => {
    const contents = new MemoryContents();
    const first = await serveNode({ classes, contents });
    const before = await StreamClient.open(first.port, PATH);
    await before.until(({ messages }) => messages.length === 1);
    await call(first, "say", "one");
    await before.until(({ messages }) => messages.length === 2);
    await first.stop();
    await before.ended();
    expect(before.story.at(-1)).toBe('moonport.ended 1 {"reason":"stopping","after":1}');
    const second = await serveNode({ classes, contents });
    await call(second, "say", "two");
    const after = await StreamClient.open(second.port, PATH, { "last-event-id": before.id });
    await after.until(({ messages }) => messages.length === 2);
    expect(after.story[1]).toBe('said 2 "two"');
  });
});

describe("a client of an event stream", () => {
  it("that goes away is forgotten", async () => {
    const served = await serveNode({ classes });
    const stream = await StreamClient.open(served.port, PATH);
    expect((await served.node.status()).subscriptions).toBe(1);
    stream.response.destroy();
    await forgotten(served);
    expect((await served.node.status()).watchedObjects).toBe(0);
  });

  it("that does not read is ended as slow, and others are served", async () => {
    const served = await serveNode({ classes, settings: { SOCKET_BUFFER_BYTES_MAX: 16 * 1024 } });
    const reader = await StreamClient.open(served.port, PATH);
    const idle = net.connect(served.port, "127.0.0.1");
    idle.on("error", () => {});
    idle.write(`GET ${PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    idle.pause();
    while ((await served.node.status()).subscriptions < 2) await new Promise((resolve) => setImmediate(resolve));
    const text = "x".repeat(500_000);
    let said = 0;
    while ((await served.node.status()).subscriptions === 2 && said < 100) {
      await call(served, "say", text);
      said++;
      await reader.until(({ messages }) => messages.length === said + 1);
    }
    expect(said).toBeLessThan(100);
    let heard = "";
    idle.setEncoding("utf8").on("data", (part: string) => {
      heard += part;
    });
    idle.resume();
    await new Promise((resolve) => idle.on("close", resolve));
    expect(heard).toContain('event: moonport.ended\ndata: {"reason":"slow"');
  });

  it("that catches up slowly is waited for", async () => {
    const served = await serveNode({ classes, settings: { SOCKET_BUFFER_BYTES_MAX: 16 * 1024 } });
    const text = "x".repeat(500_000);
    for (let said = 0; said < 20; said++) await call(served, "say", text);
    const stream = await StreamClient.open(served.port, `${PATH}?after=0`);
    stream.response.pause();
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    stream.response.resume();
    await stream.until(({ messages }) => messages.length === 21);
    await call(served, "say", "last");
    await stream.until(({ messages }) => messages.length === 22);
    expect(stream.messages.slice(1).map(({ id }) => Number(id))).toEqual(Array.from({ length: 21 }, (_, at) => at + 1));
  });
});

describe("a stream that cannot begin", () => {
  it.each([
    ["/v1/default/Lag/a/-/events", 404, "class_not_found"],
    ["/v1/nowhere/Log/a/-/events", 404, "app_not_found"],
    ["/v1/default/log/a/-/events", 400, "bad_name"],
    [`${PATH}?after=x`, 400, "bad_request"],
    [`${PATH}?after=-1`, 400, "bad_request"],
    [`${PATH}?aftr=1`, 400, "bad_option"],
    [`${PATH}?names=[1]`, 400, "bad_request"],
    [`${PATH}?args=[1]`, 400, "bad_request"],
    [`${PATH}?snapshot=plus&args=1`, 400, "bad_request"],
    [`${PATH}?snapshot=plus&args=[`, 400, "bad_json"],
    [`${PATH}?snapshot=nothing`, 404, "method_not_found"],
    [`${PATH}?snapshot=say`, 405, "not_a_reading_method"],
    [`${PATH}?snapshot=plus&args=["x"]`, 500, "method_error"],
  ])("%s answers %i %s", async (path, status, code) => {
    const served = await serveNode({ classes });
    const reply = await ask(served.port, "GET", path.replaceAll('"', "%22"));
    expect([reply.status, reply.json.code, reply.headers["content-type"]]).toEqual([
      status,
      code,
      expect.stringContaining("application/problem+json"),
    ]);
    expect((await served.node.status()).subscriptions).toBe(0);
  });

  it("answers other methods, broken ids and missing rights as any route does", async () => {
    const may = (right: string): boolean => right === "subscribe";
    const auth = {
      isOpen: false,
      authenticate: () => ({
        check: ({ right }: { right: string }) => {
          if (!may(right)) throw MoonportError.of("forbidden", `no ${right}`);
        },
      }),
    };
    const open = await serveNode({ classes });
    expect((await ask(open.port, "POST", PATH)).status).toBe(405);
    expect((await ask(open.port, "GET", PATH, undefined, { "last-event-id": "x" })).json.code).toBe("bad_request");
    const guarded = await serveNode({ classes, auth });
    const stream = await StreamClient.open(guarded.port, PATH, { authorization: "Bearer t" });
    expect(stream.response.statusCode).toBe(200);
    const refused = await ask(guarded.port, "GET", `${PATH}?snapshot=last`, undefined, { authorization: "Bearer t" });
    expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
  });
});

/** Streams whose subscriptions stand when the test says so. */
async function openHeld() {
  const asked: { sink: Sink; handle: Deferred<Subscription> }[] = [];
  const live = {
    subscribe: (_request: unknown, sink: Sink) => {
      const handle = deferred<Subscription>();
      asked.push({ sink, handle });
      return handle.promise;
    },
  };
  const streams = new EventStreams({ live, settings: resolveSettings({}), world });
  // Whoever waits for DRAIN_MS here waits longer than a test may take.
  const { door, port } = await openDoor({ DRAIN_MS: 600_000 }, { handlers: [streams] });
  return { asked, door, port };
}

describe("a stream that ends before it stands", () => {
  it("ends at once when the door stops, and what comes to stand afterwards is closed", async () => {
    const { asked, door, port } = await openHeld();
    const opening = [StreamClient.open(port, PATH), StreamClient.open(port, PATH)];
    await eventually(() => asked.length === 2);
    await door.stop();
    for (const stream of await Promise.all(opening)) {
      await stream.ended();
      expect(stream.story).toEqual(['moonport.ended  {"reason":"stopping","after":null}']);
    }
    let closed = 0;
    const subscription = { after: 0, close: () => void closed++ };
    asked[0]?.handle.resolve(subscription);
    asked[1]?.handle.reject(MoonportError.of("node_stopping", "too late"));
    await eventually(() => closed === 1);
  });

  it("says so when it is told of its end before its response is its own", async () => {
    const { asked, door, port } = await openHeld();
    onTestFinished(() => door.stop());
    const opening = StreamClient.open(port, PATH);
    await eventually(() => asked.length === 1);
    asked[0]?.handle.resolve({ after: 3, close: () => {} });
    asked[0]?.sink.deliver({ kind: "subscribed", after: 3 });
    asked[0]?.sink.deliver({ kind: "ended", reason: "destroyed", after: 4 });
    const stream = await opening;
    await stream.ended();
    expect(stream.story).toEqual([
      'moonport.subscribed 3 {"after":3}',
      'moonport.ended 4 {"reason":"destroyed","after":4}',
    ]);
  });
});
