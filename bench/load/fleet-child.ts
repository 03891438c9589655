/** A node of a fleet in a process of its own. */
import { partitionOf } from "../../src/identity.js";
import { BenchFleetNode, type BenchFleetOptions } from "../support/bench-fleet-node.js";
import { workObject } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { cpuTime } from "../support/measure.js";

const IN_FLIGHT = 64;

const POLL_MS = 10;

interface Survival {
  readonly keys: readonly string[];
  readonly sinceMs: number;
  /** How many nodes there were. */
  readonly members: number;
  /** Whether this one asks each object to answer, whoever owns it by then. */
  readonly reads: boolean;
}

/** From `sinceMs` on. */
interface Survived {
  /** Until all of those whose home this node has become were its own. */
  readonly claimedMs: number;
  /** Until the last has answered. */
  readonly answeredMs?: number;
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
  survive: async ({ keys, sinceMs, members, reads }: Survival): Promise<Survived> => {
    const claimed = claimAll(keys, members).then(() => Date.now() - sinceMs);
    if (reads) await each(keys, (key) => running().look(workObject(key)));
    const answeredMs = Date.now() - sinceMs;
    return { claimedMs: await claimed, ...(reads && { answeredMs }) };
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

async function claimAll(keys: readonly string[], members: number): Promise<void> {
  const { fleet, local } = running().node;
  while (fleet.members.length >= members) await pause(POLL_MS);
  const own = keys.map(workObject).filter(({ id }) => fleet.homeOf(partitionOf(id)) === fleet.node);
  for (const object of own) while (!local.holds(object)) await pause(POLL_MS);
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
