/**
 * How long the objects of a node that was killed are gone: from the kill until the last of them is claimed, so that whoever
 * calls it is served. Meanwhile some of them are called, at random: how long those calls wait. Then all are called, each for
 * the first time, which opens its file; what that takes alone, without a takeover and on the owner itself, is its floor.
 */

import { SETTINGS } from "../../src/settings/settings.js";
import type { FleetCommands } from "../load/fleet-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { Child } from "../support/child.js";

const NODES = ["a", "b", "c"] as const;
const POLL_MS = 20;
const DUE_AFTER_TTL_MS = 1_000;
/** One in so many is added and not called until the end. */
const SPARES_SHARE = 20;

export interface TakeoverRow {
  readonly name: string;
  readonly objects: number;
}

export function takeoverRow(objects: number): TakeoverRow {
  return { name: `takeover of ${objects} objects`, objects };
}

export async function measureTakeover(parent: string, { name, objects }: TakeoverRow): Promise<Amount[]> {
  const folder = scratchFolder(parent);
  const spares = Math.ceil(objects / SPARES_SHARE);
  const children = NODES.map(() => new Child<FleetCommands>("load/fleet-child.js"));
  const [killed, asked, other] = children as [Child<FleetCommands>, Child<FleetCommands>, Child<FleetCommands>];
  try {
    const settings = { NODE_CLAIMS_MAX: 2 * objects, NODE_RESIDENT_MAX: 2 * objects };
    for (const [index, child] of children.entries()) {
      await child.ask("open", { folder, node: NODES[index] as string, settings });
    }
    for (const child of children) while ((await child.ask("members", null)) < NODES.length) await pause(POLL_MS);
    const written: string[] = [];
    for (let batch = 0; written.length < objects + spares; batch++) {
      const some = Array.from({ length: 1_000 }, (_, index) => `takeover-${batch}-${index}`);
      written.push(...(await killed.ask("writeOwned", some)));
    }
    const keys = written.slice(0, objects);
    const pid = await killed.ask("pid", null);
    const killedMs = Date.now();
    process.kill(pid, "SIGKILL");
    const survival = { keys, sinceMs: killedMs, members: NODES.length };
    const survived = await Promise.all(
      [asked, other].map((child) =>
        child.ask("survive", { ...survival, called: child === asked ? shuffled(keys) : [] }),
      ),
    );
    const claimedMs = Math.max(...survived.map((one) => one.claimedMs));
    const provedMs = Math.max(...survived.map((one) => one.provedMs));
    const answeringMs = await asked.ask("lookAll", keys);
    const answeredMs = Date.now() - killedMs;
    const sparesMs = await Promise.all(
      [asked, other].map((child) => child.ask("lookOwn", written.slice(objects, objects + spares))),
    );
    const floorMs = (Math.max(...sparesMs) * objects) / spares;
    return [
      amountOf(
        name,
        claimedMs,
        `until each of ${objects} objects of a node killed by SIGKILL has an owner that serves it; ${proof(provedMs)}`,
      ),
      callsOf(
        name,
        survived.flatMap(({ calls }) => calls),
        provedMs,
      ),
      amountOf(
        `${name}, answered`,
        answeredMs,
        `until each has answered a call through another node, 64 at once from the last claim on: ` +
          `${seconds(answeringMs)}, ${(answeringMs / floorMs).toFixed(2)} of their opening alone`,
      ),
      {
        name: `${name}, floor`,
        value: floorMs / 1_000,
        unit: "s",
        digits: 2,
        note: `opening ${objects} objects and answering on their owners, from ${spares} others of the same node`,
      },
    ];
  } finally {
    for (const child of [asked, other]) await child.close();
    removeFolder(folder);
  }
}

/** Of calls to random objects, one each 50 ms from the kill on. */
function callsOf(
  name: string,
  calls: readonly { readonly begunMs: number; readonly answeredMs: number }[],
  provedMs: number,
): Amount {
  const waits = quantiles(calls.map(({ begunMs, answeredMs }) => answeredMs - begunMs));
  const beyond = quantiles(
    calls.map(({ begunMs, answeredMs }) => Math.max(0, answeredMs - Math.max(begunMs, provedMs))),
  );
  return {
    name: `${name}, calls meanwhile`,
    value: beyond.p99 / 1_000,
    unit: "s",
    digits: 2,
    note:
      `p99 of ${calls.length} calls to random ones, one each 50 ms from the kill on, counted from the proof of the death or the ` +
      `call, whichever is later; p50 ${seconds(beyond.p50)}, at most ${seconds(beyond.most)}. ` +
      `From the call on: p50 ${seconds(waits.p50)}, p99 ${seconds(waits.p99)}`,
  };
}

function proof(provedMs: number): string {
  return `of that ${seconds(provedMs)} until its death was proved`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`;
}

function quantiles(values: readonly number[]): { readonly p50: number; readonly p99: number; readonly most: number } {
  const sorted = values.toSorted((left, right) => left - right);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), most: sorted.at(-1) ?? 0 };
}

function shuffled(keys: readonly string[]): string[] {
  return keys
    .map((key) => ({ key, at: Math.random() }))
    .toSorted((left, right) => left.at - right.at)
    .map(({ key }) => key);
}

function amountOf(name: string, tookMs: number, what: string): Amount {
  const share = (tookMs / (SETTINGS.NODE_TTL_MS.default + DUE_AFTER_TTL_MS)).toFixed(2);
  return { name, value: tookMs / 1_000, unit: "s", digits: 2, note: `${share} of NODE_TTL_MS + 1 s; ${what}` };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
