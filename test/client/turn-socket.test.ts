/** Frames of one turn leave together, and none later than that turn. */
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { TurnSocket } from "../../src/client/turn-socket.js";

let server: WebSocketServer | undefined;
afterEach(() => {
  for (const socket of server?.clients ?? []) socket.terminate();
  server?.close();
});

it("holds frames for the rest of a turn, at most sixteen, and sends them in their order", async () => {
  server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const received: string[] = [];
  server.on("connection", (socket) => {
    socket.on("message", (data) => {
      received.push(String(data));
      if (received.length === 40) socket.close();
    });
  });
  const client = new TurnSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, "json");
  const upgraded = once(client, "upgrade") as Promise<[{ socket: Socket }]>;
  await once(client, "open");
  const [{ socket: raw }] = await upgraded;

  let writes = 0;
  const { _writev } = raw as unknown as { _writev: (...args: unknown[]) => unknown };
  Object.assign(raw, {
    _writev(...args: unknown[]) {
      writes++;
      return _writev.apply(raw, args);
    },
  });
  client.send("0");
  expect(writes).toBe(0);
  await Promise.resolve();
  for (let frame = 1; frame < 16; frame++) client.send(String(frame));
  expect(writes).toBe(1);
  for (let frame = 16; frame < 40; frame++) client.send(String(frame));
  expect(writes).toBe(2);
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(raw.writableCorked).toBe(0);
  await once(client, "close");
  expect(writes).toBe(3);
  expect(received).toEqual(Array.from({ length: 40 }, (_, frame) => String(frame)));
});
