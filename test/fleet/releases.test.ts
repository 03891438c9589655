/** Releases in a fleet: who switches when, who says that it cannot, and what an object does that is further than its node. */
import { afterEach, describe, expect, it } from "vitest";
import type { AppSource } from "../../src/app-source.js";
import type { FleetNode } from "../../src/fleet/fleet-node.js";
import { identityOf, partitionOf } from "../../src/identity.js";
import type { DeployTerms, ReleaseFile } from "../../src/release/contract.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";

const APP = "default";
const TTL_MS = 1_000;
const NAMES = ["n1", "n2", "n3"] as const;
const FIRST = "CREATE TABLE notes (text TEXT)";
const SECOND = "ALTER TABLE notes ADD COLUMN who TEXT";

let fleet: SimulatedFleet;
afterEach(() => fleet.close());

function note(release: number, migrations: readonly string[], more = ""): ReleaseFile {
  const list = migrations.map((sql) => `[[${sql}]]`).join(", ");
  const text = `local Note = class "Note"
Note.migrations = { ${list} }
function Note:add(text) state.sql.exec("INSERT INTO notes (text) VALUES (?)", text) return ${release} end
function Note.read:count() return state.sql.one("SELECT count(*) AS n FROM notes").n end
function Note.read:release() return ${release} end
${more}
return Note`;
  return { path: "classes/Note.lua", text };
}

function appOf({ text }: ReleaseFile): AppSource {
  return { app: APP, classes: [{ app: APP, name: "Note", file: "classes/Note.lua", text }] };
}

/** @param rivals nodes that have a class of their own, which no release can have beside it */
async function threeNodes(settings: Readonly<Record<string, number>> = {}, rivals: readonly string[] = []) {
  fleet = new SimulatedFleet({
    apps: [appOf(note(0, [FIRST]))],
    followsReleases: [APP],
    settings: { NODE_TTL_MS: TTL_MS, NODE_TTL_MARGIN_MS: 100, HEALTH_INTERVAL_MS: 0, ...settings },
  });
  for (const name of NAMES) {
    const native = rivals.includes(name) ? { Rival: { play: () => null } } : undefined;
    await fleet.start(name, native === undefined ? {} : { native });
  }
  // All of them have seen all others.
  await fleet.time.advance(fleet.settings.NODE_TTL_MS);
}

const rival: ReleaseFile = { path: "classes/Rival.lua", text: 'local Rival = class "Rival"\nreturn Rival' };

const node = (name: string): FleetNode => fleet.node(name).node;

function deploy(through: string, files: readonly ReleaseFile[], terms: Partial<DeployTerms> = {}) {
  return fleet.time.until(node(through).deploy({ app: APP, files, by: "ada", ...terms }));
}

function call(through: string, key: string, method: string, ...args: string[]) {
  const object = identityOf(APP, "Note", key);
  const asked = node(through).call({ object, method, args, caller: { kind: "client" }, timeoutMs: 8_000 });
  return fleet.time.until(asked.then(({ value }) => value));
}

async function served(): Promise<unknown[]> {
  const all = await Promise.all(NAMES.map((name) => node(name).status()));
  return all.map(({ releases }) => releases[0]?.release ?? releases[0]?.source);
}

/** A key of an object whose home that node is. */
function keyAt(name: string, count = 1): string[] {
  const { ring } = node("n1").fleet;
  const keys = Array.from({ length: 500 }, (_, index) => `k${index}`);
  const isHome = (key: string) => ring.homesOf(partitionOf(`${APP}/Note/${key}`))[0] === name;
  return keys.filter(isHome).slice(0, count);
}

describe("a deployment through one node", () => {
  it("is served by all of them when it is answered, and each says so", async () => {
    await threeNodes();
    const { release, nodes } = await deploy("n2", [note(1, [FIRST])]);
    expect(release.number).toBe(1);
    expect(nodes).toEqual(NAMES.map((name) => ({ node: name, source: "release", release: 1 })));
    expect(await served()).toEqual([1, 1, 1]);
    for (const name of NAMES) for (const key of ["a", "b", "c"]) expect(await call(name, key, "release")).toBe(1);
    expect(await fleet.time.until(node("n3").releases(APP))).toMatchObject({ nodes, releases: [{ number: 1 }] });
  });

  it("stands in the nodes' records, so that each of them knows what the others serve", async () => {
    await threeNodes();
    await deploy("n1", [note(1, [FIRST])]);
    await fleet.time.advance(2 * TTL_MS);
    for (const name of NAMES) {
      const seen = (await node(name).nodes()).map(({ releases }) => releases);
      expect(seen).toEqual(NAMES.map(() => [{ app: APP, source: "release", release: 1 }]));
    }
  });

  it("reaches a node that could not be told by the records of the others, long before it looks by itself", async () => {
    await threeNodes({ RELEASE_POLL_MS: 3_600_000 });
    fleet.network.cut("n1", "n3");
    const { nodes } = await deploy("n1", [note(1, [FIRST])]);
    expect(nodes.map(({ unreachable }) => unreachable)).toEqual([undefined, undefined, true]);
    await fleet.time.advance(TTL_MS);
    expect(await served()).toEqual([1, 1, 1]);
  });

  it("reaches one whose bucket does not answer as soon as it does", async () => {
    await threeNodes({ RELEASE_POLL_MS: 500 });
    const { faults } = fleet.node("n3").bucket;
    faults.failNext(3, { kind: "refused" }, ["get"]);
    await deploy("n1", [note(1, [FIRST])]);
    await fleet.time.advance(3 * TTL_MS);
    expect(await served()).toEqual([1, 1, 1]);
  });

  it("is what a node serves that comes back, or comes for the first time", async () => {
    await threeNodes();
    fleet.node("n3").crash();
    await deploy("n1", [note(1, [FIRST])]);
    await fleet.time.until(fleet.node("n3").start());
    expect(await served()).toEqual([1, 1, 1]);
    await fleet.start("n4");
    expect((await node("n4").status()).releases).toEqual([{ app: APP, source: "release", release: 1 }]);
  });

  it("loses against another that came first, and no node ever serves the one that lost", async () => {
    await threeNodes();
    const both = await fleet.time.until(
      Promise.allSettled([
        node("n1").deploy({ app: APP, files: [note(11, [FIRST])], by: "ada" }),
        node("n3").deploy({ app: APP, files: [note(33, [FIRST])], by: "bob" }),
      ]),
    );
    const [lost] = both.filter((one) => one.status === "rejected");
    expect(lost?.reason).toMatchObject({ code: "deploy_conflict" });
    const { releases } = await fleet.time.until(node("n2").releases(APP));
    const winner = both[0]?.status === "fulfilled" ? 11 : 33;
    expect(releases).toHaveLength(1);
    for (const name of NAMES) expect(await call(name, "a", "release")).toBe(winner);
  });
});

describe("a release that a node cannot load", () => {
  it("is refused before it is one, with the node's reason", async () => {
    await threeNodes({}, ["n3"]);
    await expect(deploy("n1", [note(1, [FIRST]), rival])).rejects.toMatchObject({
      code: "release_unloadable",
      details: { nodes: [{ node: "n3", message: expect.stringMatching(/a native class is called Rival/) }] },
    });
    expect(await served()).toEqual(["folder", "folder", "folder"]);
  });

  it("is served by the others when it is forced, and that node keeps what it has and says why, until there is another", async () => {
    await threeNodes({ RELEASE_POLL_MS: 200 }, ["n3"]);
    await deploy("n1", [note(1, [FIRST])]);
    const { nodes } = await deploy("n1", [note(2, [FIRST]), rival], { force: true });
    const failed = { release: 2, message: expect.stringMatching(/a native class is called Rival/) };
    expect(nodes).toEqual([
      { node: "n1", source: "release", release: 2 },
      { node: "n2", source: "release", release: 2 },
      { node: "n3", source: "release", release: 1, failed },
    ]);
    await fleet.time.advance(2 * TTL_MS);
    expect(await served()).toEqual([2, 2, 1]);
    const seen = (await node("n1").nodes()).find((one) => one.node === "n3");
    expect(seen?.releases).toEqual([{ app: APP, source: "release", release: 1, failed }]);
    expect(node("n3").gauges().releases).toEqual([{ app: APP, source: "release", release: 1, failed }]);
    const [here = ""] = keyAt("n3");
    expect(await call("n3", here, "release")).toBe(1);
    await deploy("n2", [note(3, [FIRST])]);
    expect(await served()).toEqual([3, 3, 3]);
    expect((await node("n3").status()).releases).toEqual([{ app: APP, source: "release", release: 3 }]);
  });
});

/** Cut off from those who could tell it, and not from those who call through it. */
async function n3Behind(migrations: readonly string[]): Promise<void> {
  await deploy("n1", [note(1, [FIRST])]);
  fleet.network.cut("n1", "n3");
  fleet.network.cut("n2", "n3");
  // Nor does it hear of it in the bucket.
  fleet.node("n3").bucket.faults.failNext(10_000, { kind: "refused" }, ["get", "list"]);
  const { nodes } = await deploy("n1", [note(2, migrations)]);
  expect(nodes.at(-1)).toMatchObject({ node: "n3", release: 1, unreachable: true });
  expect(await served()).toEqual([2, 2, 1]);
}

describe("while nodes differ", () => {
  it("who was answered by the newer release is not answered by the older one a hop further on", async () => {
    await threeNodes({ RELEASE_POLL_MS: 3_600_000, NODE_TTL_MS: 60_000, NODE_TTL_MARGIN_MS: 1_000 });
    const [key = ""] = keyAt("n3");
    await n3Behind([FIRST]);
    fleet.node("n3").bucket.faults.clear();
    fleet.network.heal();
    expect(await call("n1", key, "release")).toBe(2);
    expect(await served()).toEqual([2, 2, 2]);
  });
});

describe("rolling back", () => {
  it("names objects that are open on other nodes and have not reached the bucket yet", async () => {
    await threeNodes({ COVER_MS: 600_000, FLIGHT_HEDGE_MS: 60_000 });
    const [key = ""] = keyAt("n3");
    await deploy("n1", [note(1, [FIRST])]);
    await deploy("n1", [note(2, [FIRST, SECOND])]);
    await call("n1", key, "add", "x");
    const asked = node("n1").rollback({ app: APP, by: "ada" });
    await expect(fleet.time.until(asked)).rejects.toMatchObject({
      code: "objects_migrated",
      details: { count: 1, objects: [{ object: `${APP}/Note/${key}`, applied: 2, declared: 1 }] },
    });
  });

  it("is refused while a node does not say how far its objects are", async () => {
    await threeNodes({ NODE_TTL_MS: 60_000, NODE_TTL_MARGIN_MS: 1_000 });
    await deploy("n1", [note(1, [FIRST])]);
    await deploy("n1", [note(2, [FIRST, SECOND])]);
    fleet.network.cut("n1", "n3");
    const asked = node("n1").rollback({ app: APP, by: "ada" });
    await expect(fleet.time.until(asked)).rejects.toMatchObject({ code: "objects_unread", message: /n3/ });
  });
});
