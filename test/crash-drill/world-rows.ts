/** Rows of the drill in which nobody dies at a chosen point: the world misbehaves for a while, under load, and then all is as it must be. */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { FaultProxy } from "../support/fault-proxy.js";
import { Clocks, type Machine, SmallDisk } from "./faults.js";
import { eventually, NAMES } from "./fleet.js";
import type { Load } from "./load.js";
import { DrillBroken } from "./model.js";
import { DrillNetwork } from "./network.js";
import { type Report, SKIPPED } from "./report.js";

export interface World {
  readonly machine: Machine;
  readonly load: Load;
  readonly proxy: FaultProxy;
  /** How long a bucket stays throttled or gone, a disk full, a link cut. */
  readonly spellMs: number;
}

export interface WorldRow {
  readonly name: string;
  readonly isShort: boolean;
  /** @returns why it cannot be tried here */
  readonly run: (world: World) => Promise<string | undefined>;
}

/** Beyond which a session that was not renewed is over for all, NODE_TTL_MS and its margin. */
const LEASE_MS = 7_000;
const TWO_HOURS_S = 7_200;
/** Of two looks at clocks that show the same. */
const APART_MAX_MS = 600_000;

const stopped: WorldRow = {
  name: "SIGSTOP past the lease, then SIGCONT",
  isShort: true,
  run: async ({ machine: { fleet }, load }) => {
    const node = await fleet.ownerOf(load.keys[0] as string);
    node.signal("SIGSTOP");
    await sleep(LEASE_MS);
    node.signal("SIGCONT");
    await sleep(1_000);
    return undefined;
  },
};

const drained: WorldRow = {
  name: "SIGTERM: each node in turn drains, exits 0 and comes back",
  isShort: true,
  run: async ({ machine: { fleet } }) => {
    for (const node of fleet.nodes) {
      const code = await node.stop();
      if (code !== 0) throw new DrillBroken(`${node.name} ended with ${code}: ${node.logTail()}`);
      await fleet.start();
    }
    return undefined;
  },
};

const throttled: WorldRow = {
  name: "the bucket says 503 SlowDown to everything",
  isShort: false,
  run: async ({ proxy, spellMs }) => {
    const over = proxy.always("any", { kind: "replaced", status: 503, code: "SlowDown" });
    await sleep(spellMs);
    over();
    return undefined;
  },
};

const gone: WorldRow = {
  name: "the bucket is gone",
  isShort: true,
  run: async ({ proxy, spellMs }) => {
    const back = await proxy.refuseConnections();
    await sleep(spellMs);
    await back();
    return undefined;
  },
};

const full: WorldRow = {
  name: "a node's disk is full",
  isShort: false,
  run: async ({ machine: { disk }, load, spellMs }) => {
    if (!(disk instanceof SmallDisk)) return disk;
    load.explain("storage_full");
    disk.fill();
    await sleep(spellMs);
    disk.free();
    return undefined;
  },
};

const wiped: WorldRow = {
  name: "a node is killed and its disk wiped",
  isShort: false,
  run: async ({ machine: { fleet } }) => {
    const node = fleet.node(NAMES[2]);
    await node.kill();
    fs.rmSync(node.dataFolder, { recursive: true, force: true });
    await fleet.start();
    return undefined;
  },
};

/** While clocks are apart nobody can say when a timer is due: writes only. */
function clockRow(name: string, seconds: number): WorldRow {
  return {
    name,
    isShort: false,
    run: async ({ machine: { fleet, clocks }, load, spellMs }) => {
      if (!(clocks instanceof Clocks)) return clocks;
      const node = await fleet.ownerOf(load.keys[0] as string);
      await load.onlyWrites(async () => {
        clocks.step(node.name, seconds);
        await eventually(`the clock of ${node.name} has stepped`, async () => {
          return Math.abs((await node.timeMs()) - Date.now() - seconds * 1_000) < APART_MAX_MS;
        });
        await sleep(spellMs);
        clocks.step(node.name, 0);
        await sleep(1_000);
      });
      return undefined;
    },
  };
}

function cutRow(name: string, cut: (network: DrillNetwork) => void, isShort: boolean): WorldRow {
  return {
    name,
    isShort,
    run: async ({ machine: { network }, spellMs }) => {
      if (!(network instanceof DrillNetwork)) return network;
      cut(network);
      await sleep(spellMs);
      network.heal();
      return undefined;
    },
  };
}

export const WORLD: readonly WorldRow[] = [
  stopped,
  drained,
  cutRow("one-way cut: a node hears nothing from another", (network) => network.cut("n1", "n2"), true),
  cutRow(
    "one-way cut: nobody hears a node",
    (network) => {
      network.cut("n2", "n1");
      network.cut("n2", "n3");
    },
    false,
  ),
  cutRow("one-way cut: a node reaches no bucket", (network) => network.cut("n3", "bucket"), false),
  throttled,
  gone,
  full,
  wiped,
  clockRow("a clock steps forward by 2 h and back", TWO_HOURS_S),
  clockRow("a clock steps back by 2 h and forward", -TWO_HOURS_S),
];

/** Under load before, meanwhile and after; then everything is compared with the model. */
export async function runWorldRow(world: World, row: WorldRow, report: Report): Promise<void> {
  await report.row(row.name, async (trial) => {
    const { load, machine } = world;
    const before = load.acknowledged;
    load.start();
    await sleep(1_000);
    const why = await row.run(world);
    await machine.fleet.start();
    await sleep(1_000);
    await load.stop();
    await load.check();
    if (why === undefined)
      trial({ way: "load", heard: `${load.acknowledged - before} answered`, after: "as the model" });
    else trial({ way: "load", heard: "-", after: `${SKIPPED}${why}` });
  });
}
