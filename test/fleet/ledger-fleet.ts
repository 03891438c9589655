/**
 * Clients at work on a fleet of real processes while the owner of one of their objects is killed: each call goes through some
 * node that is not to die, with an id, again until it is answered, and what was answered must be there afterwards. Who watches
 * the object through another node must see each of its events once.
 */
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { connect, type MoonportClient, type SubscriptionItem } from "../../src/client/index.js";
import { identityOf } from "../../src/identity.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { argumentsOf, type LedgerCall, LedgerHistory } from "../drill/ledger-model.js";
import { callOf } from "../drill/ledger-plans.js";

export interface NodeProcess {
  readonly node: string;
  readonly url: string;
  readonly pid: number;
}

/** As short as a machine that does much else lets a session live. */
export const HURRIED = ["NODE_TTL_MS=1500", "NODE_TTL_MARGIN_MS=150", "COVER_MS=300", "LINK_CONNECT_MS=1000"].flatMap(
  (set) => ["--set", set],
);

const KEYS = ["a", "b", "c", "d"];
const LANES_PER_KEY = 2;
const BEFORE = 40;
const AFTER = 40;

class Clients {
  readonly #nodes: ReadonlyMap<string, HttpNodeClient>;
  readonly #histories = new Map(KEYS.map((key) => [key, new LedgerHistory(`Ledger/${key}`)]));
  #asked = 0;

  constructor(nodes: readonly NodeProcess[]) {
    const world = realWorld("/nonexistent", silentLogger);
    this.#nodes = new Map(nodes.map(({ node, url }) => [node, new HttpNodeClient({ url, world })]));
  }

  get acknowledged(): number {
    return [...this.#histories.values()].reduce((sum, history) => sum + history.acknowledged, 0);
  }

  async ownerOf(key: string, through: string): Promise<string> {
    const { node = "" } = await this.#clientOf(through).inspect(identityOf("default", "Ledger", key));
    return node;
  }

  async lastEventOf(key: string, through: string): Promise<number> {
    const { events } = await this.#clientOf(through).inspect(identityOf("default", "Ledger", key));
    return events.last;
  }

  /** One write after another until it is enough; each until it is answered. @param through nodes to ask, in turn */
  async write(key: string, through: readonly string[], isEnough: () => boolean): Promise<void> {
    const history = this.#historyOf(key);
    while (!isEnough()) {
      const tag = history.calls.length + 1;
      await this.#settle(key, callOf(tag, { method: "add", rows: 1, units: 5 }, `${key}-${tag}`), through);
    }
  }

  /** Through each of these nodes every object is what all answers said. */
  async check(through: readonly string[]): Promise<void> {
    for (const [key, history] of this.#histories) {
      expect(history.open).toEqual([]);
      for (const node of through) {
        const read = { method: "everything", args: [], caller: { kind: "client" }, mustRead: true } as const;
        const { value } = await this.#clientOf(node).call({ object: identityOf("default", "Ledger", key), ...read });
        history.check(value);
      }
    }
  }

  close(): void {
    for (const client of this.#nodes.values()) client.close();
  }

  async #settle(key: string, call: LedgerCall, through: readonly string[]): Promise<void> {
    for (;;) {
      const asked = this.#historyOf(key).asked(call);
      const client = this.#clientOf(through[this.#asked++ % through.length] as string);
      try {
        const object = identityOf("default", "Ledger", key);
        const { method } = call.operation;
        const { callId = "" } = call;
        const request = { object, method, args: argumentsOf(call), caller: { kind: "client" }, callId } as const;
        return asked.acknowledged(await client.call(request));
      } catch (error) {
        asked.failed(error);
        // What is refused at once must not keep the answers of others from being heard.
        await setImmediate();
      }
    }
  }

  #historyOf(key: string): LedgerHistory {
    return this.#histories.get(key) as LedgerHistory;
  }

  #clientOf(node: string): HttpNodeClient {
    return this.#nodes.get(node) as HttpNodeClient;
  }
}

/** Someone who watches an object through one node from its first event on. */
class EventWatcher {
  readonly #client: MoonportClient;
  readonly #events: AsyncIterable<SubscriptionItem>;

  constructor({ url }: NodeProcess, key: string) {
    this.#client = connect(url.replace(/^http/, "ws"));
    onTestFinished(() => this.#client.close());
    this.#events = this.#client.object("Ledger", key).subscribe({ from: { after: 0 } });
  }

  /** Each once, in order. */
  async seeAllThrough(last: number): Promise<void> {
    let seen = 0;
    for await (const item of this.#events) {
      expect(item).toMatchObject({ kind: "event", number: seen + 1 });
      seen += 1;
      if (seen === last) return;
    }
    expect(seen).toBe(last);
  }
}

/** @returns the node that was killed, and those that were not */
export async function killOwnerUnderWrites(
  nodes: readonly NodeProcess[],
): Promise<{ readonly killed: string; readonly left: readonly string[] }> {
  const clients = new Clients(nodes);
  try {
    const all = nodes.map(({ node }) => node);
    for (const key of KEYS) await clients.write(key, all, oneMore());
    const killed = await clients.ownerOf("a", all[0] as string);
    const left = all.filter((node) => node !== killed);
    const watchers = nodes.filter(({ node }) => node !== killed).map((node) => new EventWatcher(node, "a"));
    let enough = Number.POSITIVE_INFINITY;
    const lanes = KEYS.flatMap((key) =>
      Array.from({ length: LANES_PER_KEY }, () => clients.write(key, left, () => clients.acknowledged >= enough)),
    );
    await expect.poll(() => clients.acknowledged, { timeout: 30_000, interval: 5 }).toBeGreaterThan(BEFORE);
    process.kill(nodes.find(({ node }) => node === killed)?.pid ?? 0, "SIGKILL");
    // Of the object whose owner died, by name: others have owners that live.
    await clients.write("a", left, oneMore());
    enough = clients.acknowledged + AFTER;
    await Promise.all(lanes);
    expect(left).toContain(await clients.ownerOf("a", left[0] as string));
    await clients.check(left);
    const last = await clients.lastEventOf("a", left[0] as string);
    await Promise.all(watchers.map((watcher) => watcher.seeAllThrough(last)));
    return { killed, left };
  } finally {
    clients.close();
  }
}

/** False once. */
function oneMore(): () => boolean {
  let asked = 0;
  return () => asked++ > 0;
}
