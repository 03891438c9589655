/** A real node behind its WebSocket door. */
import fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { readAppSource } from "../../src/app-source.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import { HttpDoor } from "../../src/server/http-door.js";
import { WebSocketDoor } from "../../src/server/websocket-door.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainObject } from "../../src/values.js";
import { msgpackCodec } from "../../src/wire/codec.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { CODECS, eventually, TestClient } from "./sockets.js";

const TALLY = `local Tally = class "Tally"
function Tally:add(by)
  local value = (state.store.get("value") or 0) + (by or 1)
  state.store.set("value", value)
  emit("added", { by = by, value = value })
  return value
end
function Tally:shout(bytes)
  state.store.set("shouts", (state.store.get("shouts") or 0) + 1)
  emit("shout", string.rep("x", bytes))
end
function Tally:dawdle(turns)
  local sum = 0
  for at = 1, turns do sum = sum + at end
  return self:add(1)
end
function Tally.read:value() return state.store.get("value") or 0 end
return Tally`;

const TARGET = { class: "Tally", key: "a" } as const;
const BUFFER_BYTES = 256 * 1_024;

let node: MoonportNode;
let sockets: WebSocketDoor;
let door: HttpDoor;
let port: number;

beforeEach(async () => {
  const settings = resolveSettings({
    DRAIN_MS: 5_000,
    SOCKET_BUFFER_BYTES_MAX: BUFFER_BYTES,
    METHOD_BUDGET_MS: 10_000,
  });
  const world = realWorld(temporaryFolder(), silentLogger);
  const source = { app: "default", name: "Tally", file: "classes/Tally.lua", text: TALLY };
  node = await MoonportNode.open({
    world,
    bucket: new MemoryBucket(world, { timeoutMs: settings.BUCKET_TIMEOUT_MS }),
    apps: [{ app: "default", classes: [source, ...readAppSource("default", new RealFolder(".")).classes] }],
    settings,
    onClassError: "refuse",
  });
  sockets = new WebSocketDoor({ node, live: node, settings, world, session: node.session });
  door = new HttpDoor({ node, settings, world, host: "127.0.0.1", port: 0, upgrades: [sockets] });
  port = Number(new URL((await door.start()).url).port);
});
afterEach(async () => {
  await door.stop();
  await node.stop();
  expect(sockets.load).toEqual({ sockets: 0, calls: 0, subscriptions: 0 });
});

describe.each(CODECS)("a node through a socket of $protocol", (codec) => {
  it("runs a hundred calls in flight in the order they were sent, each once", async () => {
    const client = await TestClient.greeted(port, codec);
    for (let id = 0; id < 100; id++) client.send({ type: "call", id, ...TARGET, method: "add" });
    for (let id = 0; id < 100; id++)
      expect(await client.next("reply", id)).toMatchObject({ value: id + 1, seq: id + 1 });
    client.send({ type: "call", id: 1, ...TARGET, method: "value" });
    expect(await client.next("reply")).toEqual({ type: "reply", id: 1, value: 100 });
  });

  it("answers a call id that comes twice with what came of the first", async () => {
    const client = await TestClient.greeted(port, codec);
    client.send({ type: "call", id: 1, ...TARGET, method: "add", callId: "once" });
    client.send({ type: "call", id: 2, ...TARGET, method: "add", callId: "once" });
    expect(await client.next("reply", 1)).toMatchObject({ value: 1 });
    expect(await client.next("reply", 2)).toMatchObject({ value: 1 });
  });

  it("streams events, resumes after a number, and keeps a view", async () => {
    const client = await TestClient.greeted(port, codec);
    client.send({ type: "subscribe", id: 1, ...TARGET });
    client.send({ type: "view", id: 2, ...TARGET, method: "value" });
    expect(await client.next("subscribed", 1)).toMatchObject({ after: 0 });
    expect(await client.next("view", 2)).toMatchObject({ value: 0 });
    client.send({ type: "call", id: 3, ...TARGET, method: "add", args: [5] });
    expect(await client.next("event", 1)).toMatchObject({ number: 1, name: "added", data: { by: 5, value: 5 } });
    expect(await client.next("view", 2)).toMatchObject({ value: 5 });
    await client.close();

    const again = await TestClient.greeted(port, codec);
    again.send({ type: "call", id: 1, ...TARGET, method: "add", args: [1] });
    await again.next("reply", 1);
    const reading = { method: "value", args: [] };
    again.send({ type: "subscribe", id: 2, ...TARGET, from: { kind: "after", number: 1 } });
    again.send({ type: "subscribe", id: 3, ...TARGET, from: { kind: "snapshot", reading } });
    expect(await again.next("event", 2)).toMatchObject({ number: 2, data: { value: 6 } });
    expect(await again.next("snapshot", 3)).toMatchObject({ value: 6, number: 2 });
  });

  it("refuses what no class has", async () => {
    const client = await TestClient.greeted(port, codec);
    client.send({ type: "call", id: 1, class: "Nothing", key: "a", method: "add" });
    client.send({ type: "subscribe", id: 2, class: "Nothing", key: "a" });
    client.send({ type: "view", id: 3, ...TARGET, method: "nothing" });
    expect(await client.next("error", 1)).toMatchObject({ error: { code: "class_not_found" } });
    expect(await client.next("error", 2)).toMatchObject({ error: { code: "class_not_found" } });
    expect(await client.next("error", 3)).toMatchObject({ error: { code: "method_not_found" } });
  });
});

describe("a client that goes away", () => {
  it("in the middle of its calls: the running one ends, those that have not begun never run", async () => {
    const watcher = await TestClient.greeted(port);
    // The object is open from here on: what its mailbox is given begins in the same turn.
    watcher.send({ type: "call", id: 1, ...TARGET, method: "add" });
    await watcher.next("reply", 1);
    const client = await TestClient.greeted(port);
    client.send({ type: "call", id: 0, ...TARGET, method: "dawdle", args: [3_000_000] });
    await eventually(() => sockets.load.calls === 1);
    for (let id = 1; id <= 20; id++) client.send({ type: "call", id, ...TARGET, method: "add" });
    await eventually(() => sockets.load.calls === 21);
    client.ws.terminate();
    await eventually(() => sockets.load.calls === 0);
    watcher.send({ type: "call", id: 2, ...TARGET, method: "add" });
    expect(await watcher.next("reply", 2)).toMatchObject({ value: 3 });
  });

  it("or never reads while events flow: it is closed as slow, the node's buffer stays bounded, others get everything", async () => {
    const slow = await TestClient.greeted(port, msgpackCodec);
    const quick = await TestClient.greeted(port, msgpackCodec);
    for (const client of [slow, quick]) {
      client.send({ type: "subscribe", id: 1, ...TARGET });
      await client.next("subscribed", 1);
    }
    slow.ws.pause();
    let number = 0;
    while (sockets.load.subscriptions === 2) {
      number += 1;
      quick.send({ type: "call", id: 10 + number, ...TARGET, method: "shout", args: [100_000] });
      expect(await quick.next("event", 1)).toMatchObject({ number });
      await quick.next("reply", 10 + number);
    }
    slow.ws.resume();
    expect((await slow.closed).code).toBe(4429);
    const ended = slow.frames.at(-1) as PlainObject;
    expect(ended).toMatchObject({ type: "ended", reason: "slow" });

    // It comes again and goes on where it was told to.
    const again = await TestClient.greeted(port, msgpackCodec);
    again.send({ type: "subscribe", id: 1, ...TARGET, from: { kind: "after", number: ended.after as number } });
    for (let next = (ended.after as number) + 1; next <= number; next++) {
      expect(await again.next("event", 1)).toMatchObject({ number: next });
    }
  });

  it("resumes from far back through a buffer that is smaller than what it missed", async () => {
    const writer = await TestClient.greeted(port, msgpackCodec);
    for (let id = 0; id < 40; id++) writer.send({ type: "call", id, ...TARGET, method: "shout", args: [50_000] });
    for (let id = 0; id < 40; id++) await writer.next("reply", id);
    const reader = await TestClient.greeted(port, msgpackCodec);
    reader.send({ type: "subscribe", id: 1, ...TARGET, from: { kind: "after", number: 0 } });
    for (let number = 1; number <= 40; number++) expect(await reader.next("event", 1)).toMatchObject({ number });
  });

  it("thousands of times with subscriptions and views open: nothing is left of it", async () => {
    await node.call({
      object: identityOf("default", "Tally", "a"),
      method: "add",
      args: [],
      caller: { kind: "client" },
    });
    for (let round = 0; round < 20; round++) {
      const client = await TestClient.greeted(port, msgpackCodec);
      for (let id = 0; id < 100; id++) client.send({ type: "subscribe", id, ...TARGET });
      for (let id = 100; id < 110; id++) client.send({ type: "view", id, ...TARGET, method: "value" });
      await client.next("view", 109);
      client.ws.terminate();
    }
    await eventually(() => sockets.load.sockets === 0);
    expect(sockets.load.subscriptions).toBe(0);
  });
});

it("the example of docs/websocket.md prints what the page says", async () => {
  const page = fs.readFileSync("docs/websocket.md", "utf8");
  const example = /```js\n([\s\S]+?)```/.exec(page)?.[1]?.replace("127.0.0.1:7070", `127.0.0.1:${port}`) ?? "";
  const printed: PlainObject[] = [];
  const run = new Function("WebSocket", "console", example) as (socket: typeof WebSocket, console: unknown) => void;
  run(WebSocket, { log: (frame: PlainObject) => void printed.push(frame) });
  await eventually(() => printed.length === 4);
  const saidOnPage = ["welcome", "subscribed", "event", "reply"];
  expect(printed.map(({ type }) => type).sort()).toEqual([...saidOnPage].sort());
  for (const type of saidOnPage) expect(page).toContain(`\`${type}\``);
});
