/** Three nodes over real sockets, in real time, behind their real doors: a client watches through one that owns nothing. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import { connect, type MoonportClient } from "../../src/client/index.js";
import { FleetNode } from "../../src/fleet/fleet-node.js";
import { identityOf } from "../../src/identity.js";
import { WsNetwork } from "../../src/links/ws-network.js";
import { type Doors, openDoors } from "../../src/server/doors.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { TALLY, type TallyMethods } from "../client/support/tally.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const settings = resolveSettings({
  NODE_TTL_MS: 900,
  NODE_TTL_MARGIN_MS: 200,
  BUCKET_TIMEOUT_MS: 500,
  DRAIN_MS: 2_000,
});
const NAMES = ["n1", "n2", "n3"];
const KEY = "a";

interface Running {
  readonly node: FleetNode;
  readonly doors: Doors;
  readonly bucket: MemoryBucket;
}

let running: Map<string, Running>;
let clients: MoonportClient[];
beforeEach(async () => {
  running = new Map();
  clients = [];
  const contents = new MemoryContents();
  for (const name of NAMES) running.set(name, await start(name, contents));
});
afterEach(async () => {
  for (const client of clients) client.close();
  for (const { bucket } of running.values()) bucket.faults.clear();
  await Promise.all([...running.values()].map(({ doors }) => doors.stop()));
  await Promise.all([...running.values()].map(({ node }) => node.stop()));
});

async function start(name: string, contents: MemoryContents): Promise<Running> {
  const world = realWorld(temporaryFolder(), silentLogger);
  const bucket = new MemoryBucket(world, { contents, atomic: false, timeoutMs: settings.BUCKET_TIMEOUT_MS });
  const classes = [{ app: "default", name: "Tally", file: "classes/Tally.lua", text: TALLY }];
  const node = await FleetNode.open(
    { world, bucket, apps: [{ app: "default", classes }], settings, onClassError: "refuse" },
    {
      node: name,
      zone: "z",
      weight: 1,
      network: new WsNetwork({ host: "127.0.0.1", port: 0, settings }),
      secret: "a secret of three nodes on loopback",
    },
  );
  const { session } = node.local;
  const doors = await openDoors({ node, session, settings, world, host: "127.0.0.1", port: 0 });
  return { node, doors, bucket };
}

function clientOf(name: string): MoonportClient {
  const client = connect(at(name).doors.url.replace(/^http/, "ws"), { reconnectDelayMs: 10 });
  clients.push(client);
  return client;
}

function at(name: string): Running {
  const found = running.get(name);
  if (found === undefined) throw new Error(`${name} does not run`);
  return found;
}

async function ownerSeenBy(name: string): Promise<string | undefined> {
  return (await at(name).node.inspect(identityOf("default", "Tally", KEY))).node;
}

/** Gone without a word: nothing reaches it or comes from it any more. */
async function die(name: string): Promise<void> {
  const { node, bucket } = at(name);
  bucket.faults.hold();
  await node.fleet.links.stop();
}

async function stop(name: string): Promise<void> {
  const { node, doors } = at(name);
  running.delete(name);
  await doors.stop();
  await node.stop();
}

it.each([
  ["stops", stop],
  ["dies", die],
])(
  "events and values go on, each once, when the owner %s",
  async (_, end) => {
    const through = NAMES[0] as string;
    await clientOf(through).object<TallyMethods>("Tally", KEY).add("first");
    const first = (await ownerSeenBy("n1")) as string;
    const [watching, writing] = NAMES.filter((name) => name !== first) as [string, string];
    const watched = clientOf(watching).object<TallyMethods>("Tally", KEY);
    const written = clientOf(writing).object<TallyMethods>("Tally", KEY);
    const events = watched.subscribe({ from: { after: 0 } });
    const totals = watched.view("total");
    for (let index = 2; index <= 10; index++) await written.add(`before ${index}`);
    const ended = end(first);
    for (let index = 11; index <= 20; index++) await written.add(`after ${index}`);
    await ended;
    const numbers: number[] = [];
    for await (const item of events) {
      expect(item.kind).toBe("event");
      if (item.kind === "event") numbers.push(item.number);
      if (numbers.at(-1) === 20) break;
    }
    expect(numbers).toEqual(Array.from({ length: 20 }, (_value, index) => index + 1));
    for await (const total of totals) if (total === 20) break;
    expect(await ownerSeenBy(watching)).not.toBe(first);
    expect(await watched.twice()).toEqual([]);
  },
  30_000,
);

it("a client whose own node stops resumes through another", async () => {
  const written = clientOf("n1").object<TallyMethods>("Tally", KEY);
  await written.add("first");
  const first = (await ownerSeenBy("n1")) as string;
  const [leaving, staying] = NAMES.filter((name) => name !== first) as [string, string];
  const seen: number[] = [];
  const read = async (name: string, until: number): Promise<void> => {
    const events = clientOf(name)
      .object("Tally", KEY)
      .subscribe({ from: { after: seen.at(-1) ?? 0 } });
    for await (const item of events) {
      if (item.kind === "event") seen.push(item.number);
      if (seen.at(-1) === until) break;
    }
  };
  const through = clientOf(first).object<TallyMethods>("Tally", KEY);
  const reading = read(leaving, 5);
  for (let index = 2; index <= 5; index++) await through.add(`${index}`);
  await reading;
  const ended = stop(leaving);
  for (let index = 6; index <= 10; index++) await through.add(`${index}`);
  await read(staying, 10);
  await ended;
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}, 30_000);
