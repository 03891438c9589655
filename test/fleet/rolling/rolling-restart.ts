/**
 * Three nodes under load, each in a process of its own, of which one after the other is stopped by SIGTERM and started again.
 * Clients know all three addresses; their calls carry ids. Nothing that was acknowledged may be missing or be there twice, no
 * call may fail, and whoever watches sees each event once.
 */
import { setTimeout as pause } from "node:timers/promises";
import { connect, type MoonportClient } from "../../../src/client/index.js";
import { StartedNode } from "./started-node.js";

const NAMES = ["n1", "n2", "n3"] as const;
const LOOK_MS = 20;
const IN_TIME_MS = 120_000;

export interface RollingRestart {
  /** An app's folder with the Ledger. */
  readonly cwd: string;
  readonly settings: readonly string[];
  readonly objects: number;
  readonly lanesPerClient: number;
  /** Calls that are answered before the first node stops, between two, and after the last. */
  readonly callsBetween: number;
  /** Nobody waits for the outcome any more. */
  readonly ended?: AbortSignal;
}

export interface RollingOutcome {
  /** How long each call took, milliseconds. */
  readonly waitsMs: readonly number[];
  /** How long each node took to stop, milliseconds. */
  readonly stopsMs: readonly number[];
  readonly exits: readonly (number | null)[];
  /** What went wrong, in words. */
  readonly faults: readonly string[];
}

interface Entry {
  readonly key: string;
  readonly tag: number;
}

export async function rollingRestart(options: RollingRestart): Promise<RollingOutcome> {
  const { cwd, settings } = options;
  const nodes = NAMES.map((name) => new StartedNode({ name, cwd, words: settings }));
  try {
    return await Promise.race([restarted(options, nodes), aborted(options.ended)]);
  } finally {
    await Promise.all(nodes.map((node) => node.kill()));
  }
}

async function restarted(options: RollingRestart, nodes: readonly StartedNode[]): Promise<RollingOutcome> {
  await Promise.all(nodes.map((node) => node.start()));
  await allSeeEachOther(nodes);
  return underLoad(options, nodes);
}

/** @throws its reason */
function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

async function underLoad(options: RollingRestart, nodes: readonly StartedNode[]): Promise<RollingOutcome> {
  const urls = nodes.map(({ url }) => url);
  // Each begins at another node.
  const clients = urls.map((_, index) => connect([...urls.slice(index), ...urls.slice(0, index)]));
  const load = new Load(options, clients);
  const stopsMs: number[] = [];
  const exits: (number | null)[] = [];
  try {
    await load.more(options.callsBetween);
    for (const node of nodes) {
      const begunMs = performance.now();
      exits.push(await node.stop());
      stopsMs.push(performance.now() - begunMs);
      await load.more(options.callsBetween);
      await node.start();
      await allSeeEachOther(nodes);
      await load.more(options.callsBetween);
    }
    await load.end();
    await load.check();
  } finally {
    await Promise.all(clients.map((client) => client.close()));
  }
  for (const node of nodes) exits.push(await node.stop());
  return { waitsMs: load.waitsMs, stopsMs, exits, faults: load.faults };
}

class Load {
  readonly waitsMs: number[] = [];
  readonly faults: string[] = [];
  readonly #clients: readonly MoonportClient[];
  readonly #keys: readonly string[];
  readonly #acknowledged: Entry[] = [];
  readonly #lanes: readonly Promise<void>[];
  readonly #watching: readonly Promise<void>[];
  #tag = 0;
  #isOver = false;
  /** Number of the last event of the object that is watched; known at the end. */
  #lastEvent = Number.POSITIVE_INFINITY;
  #seen: readonly number[] = [];

  constructor({ objects, lanesPerClient }: RollingRestart, clients: readonly MoonportClient[]) {
    this.#clients = clients;
    this.#keys = Array.from({ length: objects }, (_, index) => `k${index}`);
    const seen = clients.map(() => 0);
    this.#seen = seen;
    this.#lanes = clients.flatMap((client) => Array.from({ length: lanesPerClient }, () => this.#lane(client)));
    this.#watching = clients.map((client, index) => this.#watch(client, index, seen));
  }

  /** So many calls more have been answered. */
  async more(calls: number): Promise<void> {
    const enough = this.#acknowledged.length + calls;
    const isEnough = () => this.#acknowledged.length >= enough || this.faults.length > 0;
    await until(isEnough, `${calls} more answers`);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#lanes);
  }

  /** Through every client each object holds what was acknowledged, once; and who watches has seen all. */
  async check(): Promise<void> {
    const [first] = this.#keys;
    for (const client of this.#clients) {
      for (const key of this.#keys) {
        const { log } = (await client.object("Ledger", key).call("everything")) as { log: { tag: number }[] };
        const tags = log.map(({ tag }) => tag);
        if (new Set(tags).size !== tags.length) this.faults.push(`${key}: a call is there twice`);
        const lost = this.#acknowledged.filter((entry) => entry.key === key && !tags.includes(entry.tag));
        if (lost.length > 0) this.faults.push(`${key}: ${lost.length} acknowledged calls are lost`);
        // Two events a call.
        if (key === first) this.#lastEvent = 2 * tags.length;
      }
    }
    await until(() => this.#seen.every((last) => last >= this.#lastEvent) || this.faults.length > 0, "all events");
    await Promise.all(this.#clients.map((client) => client.close()));
    await Promise.all(this.#watching);
  }

  async #lane(client: MoonportClient): Promise<void> {
    while (!this.#isOver) {
      const tag = ++this.#tag;
      const key = this.#keys[tag % this.#keys.length] as string;
      const begunMs = performance.now();
      try {
        await client.object("Ledger", key).call("add", [tag, 1, 2], { callId: `call-${tag}` });
        this.#acknowledged.push({ key, tag });
      } catch (error) {
        this.faults.push(`call ${tag} of ${key} failed: ${error}`);
      }
      this.waitsMs.push(performance.now() - begunMs);
    }
  }

  async #watch(client: MoonportClient, index: number, seen: number[]): Promise<void> {
    const [first = ""] = this.#keys;
    for await (const item of client.object("Ledger", first).subscribe({ from: { after: 0 } })) {
      const last = seen[index] as number;
      if (item.kind !== "event" || item.number !== last + 1) {
        this.faults.push(`a watcher at event ${last} was told ${JSON.stringify(item)}`);
        return;
      }
      seen[index] = item.number;
    }
  }
}

async function allSeeEachOther(nodes: readonly StartedNode[]): Promise<void> {
  const doSee = async (): Promise<boolean> => {
    const seen = await Promise.all(nodes.map((node) => node.sees()));
    return seen.every((names) => names.length === nodes.length);
  };
  await until(doSee, "all nodes see each other");
}

async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const untilMs = performance.now() + IN_TIME_MS;
  while (!(await isSo())) {
    if (performance.now() > untilMs) throw new Error(`waited in vain: ${what}`);
    await pause(LOOK_MS);
  }
}
