/**
 * Thousands of subscribers of one object, over many sockets of both codecs: how often an event is encoded, how long it takes to
 * reach the last of them, what each costs in memory. Server and subscribers are processes of their own.
 */
import type { SubscribersLoadCommands } from "../load/subscribers-load-child.js";
import type { Memory, SubscribersServerCommands } from "../load/subscribers-server-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { Child } from "../support/child.js";
import { cpuPerCall, median } from "../support/measure.js";

const KEY = "watched";
const PER_SOCKET = 100;
const EVENTS_WARM_UP = 10;

export interface SubscribersRow {
  readonly name: string;
  readonly subscribers: number;
  readonly events: number;
}

export function subscribersRow(subscribers: number, events: number): SubscribersRow {
  return { name: `subscribers ${subscribers} of one object`, subscribers, events };
}

export async function measureSubscribers(parent: string, row: SubscribersRow): Promise<Amount[]> {
  const folder = scratchFolder(parent);
  const server = new Child<SubscribersServerCommands>("load/subscribers-server-child.js", ["--expose-gc"]);
  const load = new Child<SubscribersLoadCommands>("load/subscribers-load-child.js");
  try {
    const url = await server.ask("open", folder);
    const memory = await subscribe(url, row, server, load);
    const events = await emit(row, server, load);
    return [...events, ...memory];
  } finally {
    await load.close();
    await server.close();
    removeFolder(folder);
  }
}

/** @returns the memory that it took */
async function subscribe(
  url: string,
  { name, subscribers }: SubscribersRow,
  server: Child<SubscribersServerCommands>,
  load: Child<SubscribersLoadCommands>,
): Promise<Amount[]> {
  const sockets = subscribers / PER_SOCKET;
  // What a node makes once must not count: code, the object, pools of buffers.
  await load.ask("connect", { url, sockets: 2 });
  await load.ask("subscribe", { key: KEY, perSocket: PER_SOCKET });
  await server.ask("emit", KEY);
  await load.ask("disconnect", null);
  const bare = await server.ask("memory", null);
  await load.ask("connect", { url, sockets });
  const connected = await server.ask("memory", null);
  await load.ask("subscribe", { key: KEY, perSocket: PER_SOCKET });
  const subscribed = await server.ask("memory", null);
  return [
    kilobytes(`${name}: memory`, "subscriber", subscribers, connected, subscribed),
    kilobytes(`${name}: memory`, "socket", sockets, bare, connected),
  ];
}

async function emit(
  { name, subscribers, events }: SubscribersRow,
  server: Child<SubscribersServerCommands>,
  load: Child<SubscribersLoadCommands>,
): Promise<Amount[]> {
  const deliveryMs: number[] = [];
  const landingMs: number[] = [];
  const cpuUs: number[] = [];
  const before = { ...(await server.ask("encodings", null)) };
  for (let event = 1; event <= EVENTS_WARM_UP + events; event++) {
    const cpuBefore = await server.ask("cpu", null);
    const { committedMs, landedMs } = await server.ask("emit", KEY);
    const lastMs = await load.ask("delivered", event * subscribers);
    const { mainCpuUs } = cpuPerCall(cpuBefore, await server.ask("cpu", null), subscribers);
    if (event <= EVENTS_WARM_UP) continue;
    deliveryMs.push(lastMs - committedMs);
    landingMs.push(landedMs - committedMs);
    if (mainCpuUs !== undefined) cpuUs.push(mainCpuUs);
  }
  const after = await server.ask("encodings", null);
  const made = (codec: "json" | "msgpack"): number => (after[codec] - before[codec]) / (EVENTS_WARM_UP + events);
  return [
    {
      name: `${name}: encodings of an event`,
      value: made("json") + made("msgpack"),
      unit: "in all",
      note: `json ${made("json")}, msgpack ${made("msgpack")}, ${subscribers / PER_SOCKET} sockets, half of them each`,
    },
    {
      name: `${name}: commit to last delivery`,
      value: median(deliveryMs),
      unit: "ms",
      note: `median of ${events} events, longest ${Math.max(...deliveryMs).toFixed(1)}; of it until it landed ${median(landingMs).toFixed(1)}`,
    },
    {
      name: `${name}: a delivery`,
      value: median(cpuUs),
      unit: "µs main-thread CPU",
      note: "the write and its commit included",
    },
  ];
}

function kilobytes(name: string, what: string, count: number, before: Memory, after: Memory): Amount {
  const each = (bytes: (memory: Memory) => number): number => (bytes(after) - bytes(before)) / count / 1_024;
  return {
    name: `${name} of a ${what}`,
    value: each(({ rssBytes }) => rssBytes),
    unit: `KB/${what}`,
    note: `${count} of them, heap and buffers ${each(({ heapBytes }) => heapBytes).toFixed(2)} KB/${what}`,
  };
}
