/** Clients of a fleet of real nodes that learn where objects live, and call their owners there. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { identityOf } from "../../src/identity.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import type { TallyMethods } from "../client/support/tally.js";
import { RealFleet } from "./real-fleet.js";

const NAMES = ["n1", "n2", "n3"];
const KEYS = Array.from({ length: 12 }, (_, index) => `key ${index}`);

let fleet: RealFleet;
beforeEach(async () => {
  fleet = await RealFleet.start(NAMES);
});
afterEach(() => fleet.close());

const forwardedBy = (name: string): number => fleet.at(name).node.fleet.counters.forwardedCalls.ok;

/** A key whose object the node does not own. */
async function keyElsewhere(name: string): Promise<{ key: string; owner: string }> {
  for (const key of KEYS) {
    const owner = await fleet.ownerSeenBy(name, "Tally", key);
    if (owner !== name) return { key, owner };
  }
  throw new Error(`${name} owns all of them`);
}

it("an answer that another node gave names it, and where clients reach it, at both doors", async () => {
  const { key, owner } = await keyElsewhere("n1");
  const object = identityOf("default", "Tally", key);
  const world = realWorld("/nonexistent", silentLogger);
  for (const name of NAMES) {
    const client = new HttpNodeClient({ url: fleet.at(name).doors.url, world });
    const reply = await client.call({ object, method: "total", args: [], caller: { kind: "client" } });
    client.close();
    const expected = name === owner ? undefined : { name: owner, url: fleet.at(owner).doors.url };
    expect([name, reply.node]).toEqual([name, expected]);
    const answer = await fetch(`${fleet.at(name).doors.url}/v1/default/Tally/${encodeURIComponent(key)}/total`);
    expect([answer.headers.get("moonport-node"), answer.headers.get("moonport-node-url")]).toEqual(
      name === owner ? [null, null] : [owner, fleet.at(owner).doors.url],
    );
  }
});

it("a client that learns nodes is forwarded once, and any other each time", async () => {
  const { key, owner } = await keyElsewhere("n1");
  const learning = fleet.client("n1", { learnNodes: true }).object<TallyMethods>("Tally", key);
  await learning.add("first");
  // The way is made behind its back.
  await expect
    .poll(async () => {
      const before = forwardedBy("n1");
      await learning.total();
      return forwardedBy("n1") - before;
    })
    .toBe(0);
  const before = forwardedBy("n1");
  for (let index = 0; index < 20; index++) await learning.add(`${index}`);
  expect(forwardedBy("n1") - before).toBe(0);
  const other = fleet.client("n1").object<TallyMethods>("Tally", key);
  for (let index = 0; index < 20; index++) await other.add(`other ${index}`);
  expect(forwardedBy("n1") - before).toBe(20);
  expect(await other.total()).toBe(41);
  expect(await fleet.ownerSeenBy("n1", "Tally", key)).toBe(owner);
});

it.each(["drained", "stopped", "dead"] as const)(
  "each call is done once, and all are answered, while owners move under the client: one is %s",
  async (how) => {
    const client = fleet.client("n1", { learnNodes: true, callsInFlightMax: 16 });
    const tallies = KEYS.map((key) => client.object<TallyMethods>("Tally", key));
    for (const tally of tallies) await tally.add("first");
    const owners = await Promise.all(KEYS.map((key) => fleet.ownerSeenBy("n1", "Tally", key)));
    const victim = owners.find((owner) => owner !== "n1") ?? "";
    let enough = false;
    let made = 0;
    const lanes = tallies.map(async (tally) => {
      let count = 1;
      while (!enough || count < 40) {
        // One that is tried again while its object moves may be overtaken.
        const totals = await Promise.all([tally.add(`a ${count}`), tally.add(`b ${count}`)]);
        expect(totals.toSorted((left, right) => left - right)).toEqual([++count, ++count]);
        made += 2;
      }
      return count;
    });
    await expect.poll(() => made).toBeGreaterThan(200);
    if (how === "drained") await fleet.at("n1").node.drain({ node: victim });
    else if (how === "stopped") await fleet.stop(victim);
    else await fleet.die(victim);
    enough = true;
    const counts = await Promise.all(lanes);
    for (const [index, tally] of tallies.entries()) {
      expect(await tally.total()).toBe(counts[index]);
      expect(await tally.twice()).toEqual([]);
    }
    for (const key of KEYS) expect(await fleet.ownerSeenBy("n1", "Tally", key)).not.toBe(victim);
  },
  60_000,
);
