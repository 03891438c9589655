/** A node of a fleet in a process of its own. */
import { partitionOf } from "../../src/identity.js";
import { BenchFleetNode, type BenchFleetOptions } from "../support/bench-fleet-node.js";
import { workObject } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { cpuTime } from "../support/measure.js";

const IN_FLIGHT = 64;

const POLL_MS = 10;

/** A call each so often while objects are taken over: so few that they do not hold that up. */
const CALL_EVERY_MS = 50;
const PATIENCE_MS = 120_000;

interface Survival {
  readonly keys: readonly string[];
  readonly sinceMs: number;
  /** How many nodes there were. */
  readonly members: number;
  /** Of the keys, those that this node calls meanwhile, one after the other. */
  readonly called: readonly string[];
}

/** From `sinceMs` on. */
interface Survived {
  /** Until this node knew of the death. */
  readonly provedMs: number;
  /** Until all of those whose home this node has become were its own. */
  readonly claimedMs: number;
  readonly calls: readonly { readonly begunMs: number; readonly answeredMs: number }[];
}

interface Drained {
  readonly tookMs: number;
  /** Objects that were this node's. */
  readonly held: number;
  readonly gone: number;
  /** How long those that went were held, together. */
  readonly heldMs: number;
}

let node: BenchFleetNode | undefined;

const commands = {
  open: async (options: BenchFleetOptions): Promise<void> => {
    node = await BenchFleetNode.open(options);
  },
  /** Nodes that this one knows to live. */
  members: async (_: null): Promise<number> => node?.node.fleet.members.length ?? 0,
  /** One write on each whose home this node is. @returns those */
  writeOwned: async (keys: readonly string[]): Promise<string[]> => {
    const { fleet } = running().node;
    const own = keys.filter((key) => fleet.homeOf(partitionOf(workObject(key).id)) === fleet.node);
    await each(own, (key, index) => running().write(workObject(key), index));
    return own;
  },
  /** What becomes of the objects of a node that was killed at `sinceMs` (wall clock). */
  survive: async ({ keys, sinceMs, members, called }: Survival): Promise<Survived> => {
    let isOver = false;
    const calling = callNowAndThen(called, sinceMs, () => isOver);
    const { fleet, local } = running().node;
    await until(() => fleet.members.length < members);
    const provedMs = Date.now() - sinceMs;
    const own = keys.map(workObject).filter(({ id }) => fleet.homeOf(partitionOf(id)) === fleet.node);
    for (const object of own) await until(() => local.holds(object));
    const claimedMs = Date.now() - sinceMs;
    isOver = true;
    return { provedMs, claimedMs, calls: await calling };
  },
  /** Each object answers, whoever owns it. @returns in what time, milliseconds */
  lookAll: async (keys: readonly string[]): Promise<number> => {
    const startedMs = performance.now();
    await each(keys, (key) => running().look(workObject(key)));
    return performance.now() - startedMs;
  },
  /** The same of those that are this node's. */
  lookOwn: async (keys: readonly string[]): Promise<number> => {
    const own = keys.filter((key) => running().node.local.holds(workObject(key)));
    return commands.lookAll(own);
  },
  /** Gives all of its objects to the others. */
  drain: async (_: null): Promise<Drained> => {
    const { node: fleetNode } = running();
    const { fleet } = fleetNode;
    const { held } = fleet;
    const beganMs = performance.now();
    const { left } = await fleetNode.drain({});
    const tookMs = performance.now() - beganMs;
    if (left > 0) throw new Error(`${left} objects have stayed`);
    return { tookMs, held, gone: fleet.counters.handovers.gone, heldMs: fleet.counters.handoverMs.sumMs };
  },
  /** One read of each, wherever it lives. @returns how long all took, milliseconds */
  readAll: async (keys: readonly string[]): Promise<number> => {
    const beganMs = performance.now();
    await each(keys, (key) => running().look(workObject(key)));
    return performance.now() - beganMs;
  },
  cpu: async (_: null) => cpuTime(),
  pid: async (_: null): Promise<number> => process.pid,
};

export type FleetCommands = typeof commands;

serve(commands, async () => node?.close());

function running(): BenchFleetNode {
  if (node === undefined) throw new Error("the node of this process is not open");
  return node;
}

async function callNowAndThen(
  keys: readonly string[],
  sinceMs: number,
  isOver: () => boolean,
): Promise<Survived["calls"]> {
  const calls: Promise<Survived["calls"][number]>[] = [];
  for (const key of keys) {
    if (isOver()) break;
    const begunMs = Date.now() - sinceMs;
    const answer = running().look(workObject(key));
    calls.push(answer.then(() => ({ begunMs, answeredMs: Date.now() - sinceMs })));
    await pause(CALL_EVERY_MS);
  }
  return Promise.all(calls);
}

async function until(holds: () => boolean): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  while (!holds()) {
    if (performance.now() > untilMs) throw new Error("what a dead node left was not taken over");
    await pause(POLL_MS);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

async function each(keys: readonly string[], act: (key: string, index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < keys.length) {
      const index = next++;
      await act(keys[index] as string, index);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}
