/** The node behind the rows on subscribers: it emits when told to, and tells what that took. */
import { setTimeout as pause } from "node:timers/promises";
import { jsonCodec, msgpackCodec } from "../../src/wire/codec.js";
import { workObject } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { type CpuTime, cpuTime } from "../support/measure.js";
import { monotonicMs } from "./monotonic.js";
import { NodeBehindDoors } from "./node-behind-doors.js";

export interface Emitted {
  /** The flight with the event set out for the bucket, right after its commit; {@link monotonicMs}. */
  readonly committedMs: number;
  readonly landedMs: number;
}

export interface Memory {
  readonly rssBytes: number;
  /** With what lies outside of it, buffers for instance. */
  readonly heapBytes: number;
}

const SETTLE_MS = 300;

let node: NodeBehindDoors | undefined;
const encodings = { json: 0, msgpack: 0 };
let emitted: Emitted = { committedMs: 0, landedMs: 0 };

const commands = {
  open: async (folder: string): Promise<string> => {
    node = await NodeBehindDoors.open(folder);
    const { bucket } = node.bench;
    const write = bucket.write.bind(bucket);
    bucket.write = async (writes) => {
      const committedMs = monotonicMs();
      const outcome = await write(writes);
      if (writes.some(({ key }) => key.endsWith(".seg"))) emitted = { committedMs, landedMs: monotonicMs() };
      return outcome;
    };
    counting(msgpackCodec, () => encodings.msgpack++);
    counting(jsonCodec, () => encodings.json++);
    return node.url;
  },
  /** One write, one event. */
  emit: async (key: string): Promise<Emitted> => {
    await node?.bench.write(workObject(key), 1);
    return emitted;
  },
  /** Event bodies made so far. */
  encodings: async (_: null) => encodings,
  memory: async (_: null): Promise<Memory> => {
    await pause(SETTLE_MS);
    globalThis.gc?.();
    globalThis.gc?.();
    const { rss, heapUsed, external } = process.memoryUsage();
    return { rssBytes: rss, heapBytes: heapUsed + external };
  },
  cpu: async (_: null): Promise<CpuTime> => cpuTime(),
};

export type SubscribersServerCommands = typeof commands;

serve(commands, async () => node?.close());

function counting(codec: typeof jsonCodec, count: () => void): void {
  const eventBody = codec.eventBody.bind(codec);
  codec.eventBody = (event) => {
    count();
    return eventBody(event);
  };
}
