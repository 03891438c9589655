/** What subscriptions and views begin with stays within the bound of their socket, however many are asked for at once. */
import diagnostics from "node:diagnostics_channel";
import type net from "node:net";
import { expect, it, onTestFinished } from "vitest";
import type { ClientFrame } from "../../src/wire/frames.js";
import { serveNode } from "../support/event-streams.js";
import { CODECS, eventually, openSockets, TestClient } from "./sockets.js";

const BUFFER_BYTES_MAX = 65_536;
const VALUE_BYTES = 500_000;
const BIG = `local Big = class "Big"
function Big:fill() state.store.set("text", string.rep("x", ${VALUE_BYTES})) emit("filled") end
function Big.read:text(number) return { number = number, text = state.store.get("text") } end
return Big`;
const MANY = 60;

/** The most that ever waited to be sent on one connection of this process's servers. */
function watchBuffers(): { readonly peakBytes: number } {
  const watched = { peakBytes: 0 };
  const seen = (message: unknown): void => {
    const { socket } = message as { socket: net.Socket };
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
    socket.write = (...args: unknown[]) => {
      const took = write(...args);
      watched.peakBytes = Math.max(watched.peakBytes, socket.writableLength);
      return took;
    };
  };
  diagnostics.subscribe("net.server.socket", seen);
  onTestFinished(() => void diagnostics.unsubscribe("net.server.socket", seen));
  return watched;
}

const target = { class: "Big", key: "a" } as const;
const asks: Record<string, { frame: (id: number) => ClientFrame; first: string }> = {
  snapshots: {
    frame: (id) => ({
      type: "subscribe",
      id,
      ...target,
      from: { kind: "snapshot", reading: { method: "text", args: [id] } },
    }),
    first: "snapshot",
  },
  views: { frame: (id) => ({ type: "view", id, ...target, method: "text", args: [id] }), first: "view" },
};

it.each(Object.keys(asks))("%s of a client that does not read wait for it, and none is lost", async (what) => {
  const { frame, first } = asks[what] as (typeof asks)[string];
  const buffers = watchBuffers();
  const { port } = await serveNode({
    classes: { Big: BIG },
    settings: { SOCKET_BUFFER_BYTES_MAX: BUFFER_BYTES_MAX, SOCKET_PING_MS: 600_000 },
  });
  const client = await TestClient.greeted(port);
  client.send({ type: "call", id: 1_000, ...target, method: "fill" });
  await client.next("reply");
  client.ws.pause();
  for (let id = 1; id <= MANY; id++) client.send(frame(id));
  await eventually(() => buffers.peakBytes >= BUFFER_BYTES_MAX);
  client.ws.resume();
  for (let id = 1; id <= MANY; id++) await client.next(first, id);
  expect(buffers.peakBytes).toBeLessThan(BUFFER_BYTES_MAX + VALUE_BYTES + 1_024);
});

it.each(CODECS)("few snapshots are asked for before it is known how large they are, by $protocol", async (codec) => {
  const sockets = await openSockets({ SOCKET_BUFFER_BYTES_MAX: BUFFER_BYTES_MAX });
  onTestFinished(() => sockets.stop());
  const client = await TestClient.greeted(sockets.port, codec);
  const { frame } = asks.snapshots as (typeof asks)[string];
  for (let id = 1; id <= MANY; id++) client.send(frame(id));
  await client.roundTrip();
  const { subscriptions } = sockets.live;
  expect(subscriptions.length).toBeLessThanOrEqual(16);
  // Each that is told, or closed, makes room for others; one that is closed before its turn is never asked for.
  client.send({ type: "unsubscribe", id: MANY });
  client.send({ type: "unsubscribe", id: 1 });
  await client.roundTrip();
  for (let told = 0; told < MANY - 1; told++) {
    await eventually(() => subscriptions.length > told);
    if (told > 0) subscriptions[told]?.sink.deliver({ kind: "snapshot", value: "small", number: told });
  }
  for (let id = 2; id < MANY; id++) await client.next("snapshot", id);
  expect(subscriptions.length).toBe(MANY - 1);
});
