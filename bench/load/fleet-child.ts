/** A node of a fleet in a process of its own. */
import { partitionOf } from "../../src/identity.js";
import { BenchFleetNode, type BenchFleetOptions } from "../support/bench-fleet-node.js";
import { workObject } from "../support/bench-node.js";
import { serve } from "../support/child.js";
import { cpuTime } from "../support/measure.js";

const IN_FLIGHT = 64;

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
  /** One read of each, whoever owns it by then. @returns milliseconds from `sinceMs` (wall clock) until the last has answered */
  readAll: async ({ keys, sinceMs }: { keys: readonly string[]; sinceMs: number }): Promise<number> => {
    await each(keys, (key) => running().look(workObject(key)));
    return Date.now() - sinceMs;
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
