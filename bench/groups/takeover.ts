/**
 * How long the objects of a node that was killed are gone: from the kill until the last of them is claimed, so that whoever
 * calls it is served, and until the last has answered through another node, of 64 calls at once that begin with the kill.
 */

import { SETTINGS } from "../../src/settings/settings.js";
import type { FleetCommands } from "../load/fleet-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { Child } from "../support/child.js";

const NODES = ["a", "b", "c"] as const;
const POLL_MS = 20;
const DUE_AFTER_TTL_MS = 1_000;

export interface TakeoverRow {
  readonly name: string;
  readonly objects: number;
}

export function takeoverRow(objects: number): TakeoverRow {
  return { name: `takeover of ${objects} objects`, objects };
}

export async function measureTakeover(parent: string, { name, objects }: TakeoverRow): Promise<Amount[]> {
  const folder = scratchFolder(parent);
  const children = NODES.map(() => new Child<FleetCommands>("load/fleet-child.js"));
  const [killed, asked, other] = children as [Child<FleetCommands>, Child<FleetCommands>, Child<FleetCommands>];
  try {
    const settings = { NODE_CLAIMS_MAX: 2 * objects, NODE_RESIDENT_MAX: 2 * objects };
    for (const [index, child] of children.entries()) {
      await child.ask("open", { folder, node: NODES[index] as string, settings });
    }
    for (const child of children) while ((await child.ask("members", null)) < NODES.length) await pause(POLL_MS);
    const keys: string[] = [];
    for (let batch = 0; keys.length < objects; batch++) {
      const some = Array.from({ length: 1_000 }, (_, index) => `takeover-${batch}-${index}`);
      const owned = new Set(await killed.ask("writeOwned", some));
      keys.push(...some.filter((key) => owned.has(key)).slice(0, objects - keys.length));
    }
    const pid = await killed.ask("pid", null);
    const killedMs = Date.now();
    process.kill(pid, "SIGKILL");
    const survival = { keys, sinceMs: killedMs, members: NODES.length };
    const survived = await Promise.all(
      [asked, other].map((child) => child.ask("survive", { ...survival, reads: child === asked })),
    );
    const claimedMs = Math.max(...survived.map((one) => one.claimedMs));
    const answeredMs = Math.max(...survived.map((one) => one.answeredMs ?? 0));
    return [
      amountOf(
        name,
        claimedMs,
        `until each of ${keys.length} objects of a node killed by SIGKILL has an owner that serves it`,
      ),
      amountOf(`${name}, answered`, answeredMs, "until each has answered a call through another node, 64 at once"),
    ];
  } finally {
    for (const child of [asked, other]) await child.close();
    removeFolder(folder);
  }
}

function amountOf(name: string, tookMs: number, what: string): Amount {
  const share = (tookMs / (SETTINGS.NODE_TTL_MS.default + DUE_AFTER_TTL_MS)).toFixed(2);
  return { name, value: tookMs / 1_000, unit: "s", digits: 2, note: `${share} of NODE_TTL_MS + 1 s; ${what}` };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
