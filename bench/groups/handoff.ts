/**
 * What it takes to drain a node: until the last of its objects is given up for the others, one object with another. Callers of an
 * object wait while it goes, not for the whole drain.
 */
import type { FleetCommands } from "../load/fleet-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { Child } from "../support/child.js";

const NODES = ["a", "b", "c"] as const;
const POLL_MS = 20;

export interface HandoffRow {
  readonly name: string;
  readonly objects: number;
}

export function handoffRow(objects: number): HandoffRow {
  return { name: `handoff of ${objects} objects`, objects };
}

export async function measureHandoff(parent: string, { name, objects }: HandoffRow): Promise<Amount[]> {
  const folder = scratchFolder(parent);
  const children = NODES.map(() => new Child<FleetCommands>("load/fleet-child.js"));
  const [drained, asked] = children as [Child<FleetCommands>, Child<FleetCommands>, Child<FleetCommands>];
  try {
    for (const [index, child] of children.entries()) await child.ask("open", { folder, node: NODES[index] as string });
    for (const child of children) while ((await child.ask("members", null)) < NODES.length) await pause(POLL_MS);
    const keys: string[] = [];
    for (let batch = 0; keys.length < objects; batch++) {
      const some = Array.from({ length: 1_000 }, (_, index) => `handoff-${batch}-${index}`);
      const owned = new Set((await drained.ask("writeOwned", some)).slice(0, objects - keys.length));
      keys.push(...some.filter((key) => owned.has(key)));
    }
    const { tookMs, held, gone, heldMs } = await drained.ask("drain", null);
    // Each is claimed at its new home by the first call, with one write.
    const answeredMs = await asked.ask("readAll", keys);
    const each = `of ${gone} that went, each was held for ${(heldMs / gone).toFixed(1)} ms in the mean`;
    return [
      {
        name,
        value: tookMs / held,
        unit: "ms/object",
        digits: 2,
        note: `${each}; ${(tookMs / 1_000).toFixed(2)} s in all`,
      },
      {
        name: `${name}, called again`,
        value: answeredMs / objects,
        unit: "ms/object",
        digits: 2,
        note: "the first read of each through another node, 64 at once: claim, restore and answer",
      },
    ];
  } finally {
    for (const child of children) await child.close();
    removeFolder(folder);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
