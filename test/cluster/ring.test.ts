import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { homesOf, Ring, type RingNode, replicaMembers } from "../../src/cluster/ring.js";
import { PARTITION_COUNT } from "../../src/identity.js";

const PARTITIONS = Array.from({ length: PARTITION_COUNT }, (_, partition) => partition);

const name = fc.oneof(
  fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/),
  fc.nat(999).map((number) => `node-${number}`),
  fc.nat(255).map((number) => `ip-10-0-0-${number}`),
);

function fleetOf(
  least: number,
  most: number,
  weight: fc.Arbitrary<number> = fc.constant(1),
  zones = 4,
): fc.Arbitrary<RingNode[]> {
  const zone = fc.nat(zones - 1).map((number) => `zone-${number}`);
  return fc.uniqueArray(fc.record({ node: name, zone, weight }), {
    minLength: least,
    maxLength: most,
    selector: ({ node }) => node,
  });
}

const anyWeight = fc.constantFrom(0, 1, 1, 2, 3, 0.5);
const anyFleet = fleetOf(1, 12, anyWeight);

const homeOf = (partition: number, nodes: readonly RingNode[]): string => homesOf(partition, nodes)[0] as string;

/** How many partitions each node is the home of. */
function shares(nodes: readonly RingNode[]): Map<string, number> {
  const counts = new Map(nodes.map(({ node }) => [node, 0]));
  for (const partition of PARTITIONS) {
    const home = homeOf(partition, nodes);
    counts.set(home, (counts.get(home) ?? 0) + 1);
  }
  return counts;
}

describe("the order of nodes that a partition prefers", () => {
  it("names every node once, whatever order they were given in", () => {
    fc.assert(
      fc.property(anyFleet, fc.nat(255), fc.infiniteStream(fc.nat()), (nodes, partition, keys) => {
        const shuffled = nodes
          .map((node) => ({ node, key: keys.next().value as number }))
          .sort((left, right) => left.key - right.key)
          .map(({ node }) => node);
        const homes = homesOf(partition, nodes);
        expect([...homes].sort()).toEqual(nodes.map(({ node }) => node).sort());
        expect(homesOf(partition, shuffled)).toEqual(homes);
      }),
    );
  });

  it("is this one: another hash would move every object of every fleet", () => {
    const nodes = ["a", "b", "c", "d"].map((node) => ({ node, zone: node < "c" ? "left" : "right", weight: 1 }));
    expect([0, 1, 2, 3, 255].map((partition) => homesOf(partition, nodes).join(""))).toMatchInlineSnapshot(`
      [
        "acbd",
        "dbca",
        "adcb",
        "adbc",
        "dabc",
      ]
    `);
  });

  it("moves only what a node that joins wins, and what a node that leaves had", () => {
    fc.assert(
      fc.property(fleetOf(2, 12, anyWeight), (nodes) => {
        const [joining, ...before] = nodes as [RingNode, ...RingNode[]];
        for (const partition of PARTITIONS) {
          const [homeBefore, homeAfter] = [homeOf(partition, before), homeOf(partition, nodes)];
          if (homeBefore === homeAfter || homeAfter === joining.node) continue;
          // Only where no other node had any weight does one without weight stand in for it.
          expect(before.every(({ weight }) => weight === 0)).toBe(true);
        }
      }),
    );
  });

  it("gives nodes of one weight about as many partitions each", () => {
    // A share of 256 random draws, n times: within four standard deviations and a half, over many fleets.
    let worst = 0;
    let fleets = 0;
    let sum = 0;
    fc.assert(
      fc.property(fleetOf(2, 32), (nodes) => {
        const mean = PARTITION_COUNT / nodes.length;
        const deviation = Math.sqrt(mean * (1 - 1 / nodes.length));
        const most = Math.max(...shares(nodes).values());
        worst = Math.max(worst, (most - mean) / deviation);
        sum += most / mean;
        fleets += 1;
      }),
      { numRuns: 300, seed: 20260101 },
    );
    expect(worst).toBeLessThan(4.5);
    expect(sum / fleets).toBeLessThan(1.7);
  });

  it("gives each node partitions in proportion to its weight", () => {
    fc.assert(
      fc.property(fleetOf(2, 6, fc.constantFrom(1, 2, 4)), (nodes) => {
        const total = nodes.reduce((sum, { weight }) => sum + weight, 0);
        for (const [node, count] of shares(nodes)) {
          const share = (nodes.find((one) => one.node === node)?.weight ?? 0) / total;
          const deviation = Math.sqrt(PARTITION_COUNT * share * (1 - share));
          expect(Math.abs(count - PARTITION_COUNT * share)).toBeLessThan(4.5 * deviation + 1);
        }
      }),
      { numRuns: 200, seed: 20260102 },
    );
  });

  it("goes through all zones before it comes to one again", () => {
    fc.assert(
      fc.property(fleetOf(1, 12), fc.nat(255), (nodes, partition) => {
        const zoneOf = new Map(nodes.map(({ node, zone }) => [node, zone]));
        const zones = new Set(zoneOf.values());
        const first = homesOf(partition, nodes).slice(0, zones.size);
        expect(new Set(first.map((node) => zoneOf.get(node)))).toEqual(zones);
      }),
    );
  });

  it("comes to nodes without weight when there is nobody else", () => {
    fc.assert(
      fc.property(anyFleet, fc.nat(255), (nodes, partition) => {
        const weights = new Map(nodes.map(({ node, weight }) => [node, weight]));
        const has = homesOf(partition, nodes).map((node) => weights.get(node) !== 0);
        expect([...has].sort((left, right) => Number(right) - Number(left))).toEqual(has);
      }),
    );
  });
});

describe("who keeps an object's journals", () => {
  const asked = anyFleet.chain((nodes) =>
    fc.record({
      nodes: fc.constant(nodes),
      partition: fc.nat(255),
      owner: fc.constantFrom(...nodes.map(({ node }) => node)),
      copies: fc.integer({ min: 1, max: 9 }),
    }),
  );

  it("is the owner, and so many others as there are to be", () => {
    fc.assert(
      fc.property(asked, ({ nodes, partition, owner, copies }) => {
        const members = replicaMembers(partition, nodes, owner, copies);
        expect(members[0]).toBe(owner);
        expect(new Set(members).size).toBe(Math.min(copies, nodes.length));
        expect(members.length).toBe(Math.min(copies, nodes.length));
      }),
    );
  });

  it("is the first of the list when its first is the owner", () => {
    fc.assert(
      fc.property(asked, ({ nodes, partition, copies }) => {
        const homes = homesOf(partition, nodes);
        expect(replicaMembers(partition, nodes, homes[0] as string, copies)).toEqual(homes.slice(0, copies));
      }),
    );
  });

  it("is in as many zones as there are, the owner's counted", () => {
    fc.assert(
      fc.property(asked, ({ nodes, partition, owner, copies }) => {
        const weighted = nodes.filter(({ node, weight }) => weight > 0 || node === owner);
        const zones = new Set(weighted.map(({ zone }) => zone)).size;
        const members = replicaMembers(partition, nodes, owner, copies);
        const theirs = new Set(members.map((member) => nodes.find(({ node }) => node === member)?.zone)).size;
        expect(theirs).toBeGreaterThanOrEqual(Math.min(zones, copies));
      }),
    );
  });

  it("asks that the owner is a node", () => {
    expect(() => replicaMembers(1, [{ node: "a", zone: "z", weight: 1 }], "b", 2)).toThrow(/one of the nodes/);
  });
});

describe("a ring", () => {
  it("remembers the orders of its nodes, and knows whether other nodes would make others", () => {
    fc.assert(
      fc.property(anyFleet, anyFleet, (nodes, others) => {
        const ring = new Ring(nodes);
        const owner = nodes[0]?.node as string;
        for (const partition of [0, 7, 255]) {
          expect(ring.homesOf(partition)).toEqual(homesOf(partition, nodes));
          expect(ring.homesOf(partition)).toBe(ring.homesOf(partition));
          const members = ring.replicaMembers(partition, owner, 3);
          expect(members).toEqual(replicaMembers(partition, nodes, owner, 3));
          expect(ring.replicaMembers(partition, owner, 3)).toBe(members);
        }
        expect(ring.isOf([...nodes].reverse())).toBe(true);
        const plain = (fleet: RingNode[]): string =>
          fleet
            .map((node) => JSON.stringify(node))
            .sort()
            .join();
        expect(ring.isOf(others)).toBe(plain(nodes) === plain(others));
      }),
    );
  });
});
