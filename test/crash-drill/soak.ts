/**
 * The soak: faults at random under mixed load for minutes. Memory and descriptors of the nodes must stay flat, whoever watches must
 * see each line once, and in the end every object is as the model says.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type MoonportClient } from "../../src/client/index.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import { TOKEN } from "./drill-node.js";
import { Machine } from "./faults.js";
import { type DrillFleet, type DrillServer, NAMES } from "./fleet.js";
import { Load } from "./load.js";
import { DrillBroken } from "./model.js";
import { DrillNetwork } from "./network.js";

const KEYS = Array.from({ length: 8 }, (_, index) => `s${index}`);
const PAUSE_MS = 3_000;
const FAULT_MS_MAX = 8_000;
const SAMPLE_MS = 5_000;
/** What a node's memory may grow by in the second half of a soak, and its descriptors. Garbage comes and goes. */
const GROWTH_MAX = { rssKib: 64 * 1_024, descriptors: 40 };

interface Sample {
  readonly node: string;
  readonly pid: number;
  readonly atMs: number;
  readonly rssKib: number;
  readonly descriptors: number;
}

/** @throws DrillBroken */
export async function soak(server: DrillServer, random: SeededRandom, minutes: number): Promise<void> {
  const machine = await Machine.make(server);
  const { fleet } = machine;
  const load = new Load({ fleet, random, keys: KEYS, callers: 6, pauseMs: 100 });
  const watchers = KEYS.slice(0, 3).map((key) => new Watcher(fleet, key));
  const samples: Sample[] = [];
  const begunMs = performance.now();
  const untilMs = begunMs + minutes * 60_000;
  const sampling = setInterval(() => sample(fleet, begunMs, samples), SAMPLE_MS);
  const faults = new Map<string, number>();
  load.start();
  while (performance.now() < untilMs) {
    await sleep(random.below(PAUSE_MS));
    const fault = await strike(machine, random);
    faults.set(fault, (faults.get(fault) ?? 0) + 1);
    load.throwBroken();
  }
  await fleet.start();
  await load.stop();
  await load.check();
  clearInterval(sampling);
  sample(fleet, begunMs, samples);
  for (const watcher of watchers) await watcher.seesAll();
  console.log(`faults: ${[...faults].map(([name, count]) => `${name} ${count}`).join(", ")}`);
  console.log(`${load.acknowledged} calls answered, ${load.open} in doubt for good`);
  console.log(tableOf(samples));
  assertFlat(samples);
}

/** One fault, and its end. */
async function strike({ fleet, network }: Machine, random: SeededRandom): Promise<string> {
  const node = fleet.nodes[random.below(fleet.nodes.length)];
  if (node === undefined || !node.isUp) return "none";
  const forMs = random.below(FAULT_MS_MAX);
  // The second and third node live on or come back; the first one is only frozen and cut: its memory is what is looked at.
  const choice = node === fleet.nodes[0] ? 1 + random.below(2) : random.below(3);
  if (choice === 0) {
    await node.kill();
    await sleep(random.below(FAULT_MS_MAX));
    await fleet.start();
    return "kill";
  }
  if (choice === 2 && network instanceof DrillNetwork) {
    const others = [...fleet.nodes.filter((other) => other !== node).map(({ name }) => name), "bucket"];
    network.cut(node.name, others[random.below(others.length)] as string);
    await sleep(forMs);
    network.heal();
    return "cut";
  }
  node.signal("SIGSTOP");
  await sleep(forMs);
  node.signal("SIGCONT");
  return "freeze";
}

/** Someone who watches an object through the node that lives through all of it. */
class Watcher {
  readonly #fleet: DrillFleet;
  readonly #key: string;
  readonly #client: MoonportClient;
  readonly #watching: Promise<void>;
  #seen = 0;
  #broken: Error | undefined;

  constructor(fleet: DrillFleet, key: string) {
    this.#fleet = fleet;
    this.#key = key;
    this.#client = connect(fleet.node(NAMES[0]).url.replace(/^http/, "ws"), { token: TOKEN });
    this.#watching = this.#watch().catch((error: Error) => {
      this.#broken ??= error;
    });
  }

  /** @throws DrillBroken */
  async seesAll(): Promise<void> {
    const { length } = await this.#fleet.lines(this.#key);
    for (let tries = 0; this.#seen < length && this.#broken === undefined && tries < 600; tries++) await sleep(100);
    this.#client.close();
    await this.#watching;
    if (this.#seen < length) {
      const why = this.#broken === undefined ? "" : ` (${this.#broken.message})`;
      throw new DrillBroken(`who watches ${this.#key} has seen ${this.#seen} of ${length} lines${why}`);
    }
    console.log(`${this.#seen} events of ${this.#key} seen, each once`);
  }

  async #watch(): Promise<void> {
    for await (const item of this.#client.object("Drill", this.#key).subscribe({ from: { after: 0 } })) {
      if (item.kind !== "event") throw new DrillBroken(`who watches ${this.#key} met ${item.kind}`);
      if (item.number !== ++this.#seen) {
        throw new DrillBroken(`who watches ${this.#key} has seen ${item.number} after ${this.#seen - 1}`);
      }
    }
  }
}

function sample(fleet: DrillFleet, begunMs: number, samples: Sample[]): void {
  for (const node of fleet.up) {
    const usage = node.usage();
    if (usage !== undefined) {
      samples.push({ node: node.name, pid: node.pid, atMs: performance.now() - begunMs, ...usage });
    }
  }
}

/** Each minute of each life of a node. */
function tableOf(samples: readonly Sample[]): string {
  const lines = ["node  pid       minute  RSS MiB  descriptors"];
  const told = new Set<string>();
  for (const { node, pid, atMs, rssKib, descriptors } of samples) {
    const minute = Math.floor(atMs / 60_000);
    const name = `${pid} ${minute}`;
    if (told.has(name)) continue;
    told.add(name);
    const cells = [node.padEnd(4), String(pid).padEnd(8), String(minute).padStart(6)];
    lines.push([...cells, String(Math.round(rssKib / 1_024)).padStart(7), String(descriptors).padStart(11)].join("  "));
  }
  return lines.join("\n");
}

/** Of the node that lives through all of it: the last third beside the second. */
function assertFlat(samples: readonly Sample[]): void {
  const own = samples.filter(({ node }) => node === NAMES[0]);
  const third = Math.floor(own.length / 3);
  if (third === 0) return;
  for (const field of ["rssKib", "descriptors"] as const) {
    const most = (part: readonly Sample[]): number => Math.max(...part.map((one) => one[field]));
    const [before, after] = [most(own.slice(third, 2 * third)), most(own.slice(2 * third))];
    console.log(`${field} of ${NAMES[0]}: at most ${before} in the second third, ${after} in the last`);
    if (after - before > GROWTH_MAX[field]) {
      throw new DrillBroken(`${field} of ${NAMES[0]} has grown from ${before} to ${after}`);
    }
  }
}
