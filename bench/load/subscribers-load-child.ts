/** The subscribers: many on each of many sockets, half of these in either codec. They count what they get, and look at the clock. */
import { pack } from "msgpackr";
import { JSON_PROTOCOL, MSGPACK_PROTOCOL, SOCKET_PATH } from "../../src/wire/frames.js";
import { serve } from "../support/child.js";
import { monotonicMs } from "./monotonic.js";
import { clientFrame, RawSocket } from "./raw-socket.js";

interface Subscribers {
  readonly url: string;
  readonly key: string;
  readonly sockets: number;
  readonly perSocket: number;
}

let sockets: RawSocket[] = [];
let delivered = 0;
let lastMs = 0;
let wanted: { readonly count: number; readonly reached: (lastMs: number) => void } | undefined;
let failure: Error | undefined;

const commands = {
  /** Resolves when the sockets are greeted. */
  connect: async ({ url, sockets: count }: Pick<Subscribers, "url" | "sockets">): Promise<void> => {
    for (let index = 0; index < count; index++) {
      const protocol = protocolOf(index);
      const socket = await RawSocket.open(`${url.replace("http", "ws")}${SOCKET_PATH}`, protocol);
      await answers(socket, 1, frame(protocol, { type: "hello" }));
      sockets.push(socket);
    }
  },
  /** Resolves when all stand. */
  subscribe: async ({ key, perSocket }: Pick<Subscribers, "key" | "perSocket">): Promise<void> => {
    for (const [index, socket] of sockets.entries()) {
      const frames = Array.from({ length: perSocket }, (_, id) =>
        frame(protocolOf(index), { type: "subscribe", id: id + 1, class: "Work", key }),
      );
      await answers(socket, perSocket, Buffer.concat(frames));
    }
    delivered = 0;
    for (const socket of sockets) {
      socket.listen({
        message: () => {
          delivered++;
        },
        readDone: () => {
          lastMs = monotonicMs();
          if (wanted !== undefined && delivered >= wanted.count) wanted.reached(lastMs);
        },
        failed: (error) => {
          failure = error;
        },
      });
    }
  },
  /** Resolves with the moment of the last of so many deliveries, counted from the beginning. */
  delivered: async (count: number): Promise<number> => {
    if (failure !== undefined) throw failure;
    if (delivered >= count) return lastMs;
    return await new Promise((resolve) => {
      wanted = { count, reached: resolve };
    });
  },
  disconnect: async (_: null): Promise<void> => disconnect(),
};

export type SubscribersLoadCommands = typeof commands;

serve(commands, async () => disconnect());

function disconnect(): void {
  for (const socket of sockets) socket.close();
  sockets = [];
}

function protocolOf(index: number): string {
  return index % 2 === 0 ? MSGPACK_PROTOCOL : JSON_PROTOCOL;
}

function frame(protocol: string, fields: object): Buffer {
  return clientFrame(protocol === JSON_PROTOCOL ? JSON.stringify(fields) : pack(fields));
}

function answers(socket: RawSocket, count: number, frames: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = count;
    socket.listen({
      message: () => {
        if (--left === 0) resolve();
      },
      readDone: () => {},
      failed: reject,
    });
    socket.send(frames);
  });
}
