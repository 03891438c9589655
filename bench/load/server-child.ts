/** The process that answers: a node behind its doors, or a bare echo that does with a call no more than decode and answer it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pack, unpack } from "msgpackr";
import { WebSocketServer } from "ws";
import { workObject, writeAll } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { type CpuTime, cpuTime } from "../support/measure.js";
import { NodeBehindDoors } from "./node-behind-doors.js";

let node: NodeBehindDoors | undefined;

const commands = {
  /** @returns where the node answers */
  node: async (folder: string): Promise<string> => {
    node = await NodeBehindDoors.open(folder);
    return node.url;
  },
  /** One write on each of these objects, as often as a key is there. */
  write: async (keys: readonly string[]): Promise<void> => {
    if (node !== undefined) await writeAll(node.bench, keys.map(workObject));
  },
  echo: (_: null): Promise<string> => echo(),
  cpu: async (_: null): Promise<CpuTime> => cpuTime(),
};

export type ServerCommands = typeof commands;

serve(commands, async () => node?.close());

/** Bare `ws` with msgpackr, and bare `node:http` with JSON, on one port. */
function echo(): Promise<string> {
  const http = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const args = parts.length === 0 ? [] : JSON.parse(Buffer.concat(parts).toString("utf8"));
      const body = JSON.stringify({ args });
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
      response.end(body);
    });
  });
  const sockets = new WebSocketServer({ server: http, perMessageDeflate: false });
  sockets.on("connection", (socket) => {
    socket.on("message", (data: Buffer) => {
      const { id, args } = unpack(data) as { id?: number; args?: unknown };
      socket.send(pack({ type: "reply", id: id ?? 0, value: args }));
    });
  });
  return new Promise((resolve) => {
    http.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(http.address() as AddressInfo).port}`));
  });
}
