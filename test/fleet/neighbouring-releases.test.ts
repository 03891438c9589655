/**
 * Two neighbouring releases in one fleet, as while one is rolled out: a node that speaks only the protocol of links before this
 * release's, among nodes that speak both. And releases too far apart, which refuse each other.
 */
import { expect, it } from "vitest";
import { PROTOCOLS } from "../../src/links/handshake.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { append, call, listAt, ownerOf, startFleet, subscribe, until } from "./watching.js";

const BEFORE = { protocols: { min: PROTOCOLS.min, max: PROTOCOLS.max - 1 } };
const NEW = ["n1", "n2"] as const;

/** n0 is of the release before. */
function mixed(settings: Readonly<Record<string, number>> = {}): Promise<SimulatedFleet> {
  return startFleet(3, settings, BEFORE);
}

it("a release speaks the protocol before its own as well", () => {
  expect(PROTOCOLS.max).toBeGreaterThan(1);
  expect(PROTOCOLS.max - PROTOCOLS.min).toBe(1);
});

it("calls and subscriptions cross between them both ways, and journals of both hold what is acknowledged", async () => {
  const fleet = await mixed();
  for (const home of ["n0", ...NEW]) {
    const object = listAt(fleet, home);
    const watching = await Promise.all(["n0", ...NEW].map((node) => subscribe(fleet, node, object)));
    for (const [index, through] of ["n0", ...NEW].entries()) await append(fleet, through, object, index);
    expect(await ownerOf(fleet, object)).toBe(home);
    for (const through of ["n0", ...NEW]) expect(await call(fleet, through, object, "all")).toEqual([0, 1, 2]);
    for (const { sink } of watching) await until(fleet, () => sink.numbers.length === 3);
  }
});

it.each([
  ["the one of the release before", "n0"],
  ["one of this release", "n1"],
])("what was acknowledged is there when %s dies, and the others go on", async (_, dying) => {
  const fleet = await mixed();
  const object = listAt(fleet, dying);
  const left = ["n0", "n1", "n2"].filter((name) => name !== dying);
  for (let value = 0; value < 5; value++) await append(fleet, left[value % 2] as string, object, value);
  fleet.node(dying).crash();
  await append(fleet, left[0] as string, object, 5);
  expect(await call(fleet, left[1] as string, object, "all")).toEqual([0, 1, 2, 3, 4, 5]);
});

it("one that drains hands its objects to the other release, either way", async () => {
  const fleet = await mixed();
  for (const [leaving, through] of [
    ["n1", "n0"],
    ["n0", "n2"],
  ] as const) {
    const object = listAt(fleet, leaving, leaving);
    await append(fleet, through, object, 1);
    await fleet.time.until(fleet.node(leaving).node.stop());
    await append(fleet, through, object, 2);
    expect(await call(fleet, through, object, "all")).toEqual([1, 2]);
    fleet.node(leaving).crash();
    await fleet.time.until(fleet.node(leaving).start());
    await fleet.time.advance(1_000);
  }
});

it("a caller that goes away is told of to this release alone: on the other its call stays, and runs", async () => {
  const fleet = await mixed({ OBJECT_MAILBOX_MAX: 2 });
  const waiting = async (home: string, through: string): Promise<readonly unknown[]> => {
    const object = listAt(fleet, home, through);
    const held = fleet.node(home).bucket.faults.hold();
    const gone = new AbortController();
    const request = { object, method: "append", caller: { kind: "client" } } as const;
    const calls = [
      fleet.node(through).call({ ...request, args: [1], signal: gone.signal }),
      fleet.node(through).call({ ...request, args: [2] }),
    ];
    for (const one of calls) one.catch(() => {});
    await fleet.time.advance(50);
    gone.abort();
    await fleet.time.advance(50);
    held.release();
    await fleet.time.until(Promise.allSettled(calls));
    return (await call(fleet, through, object, "all")) as unknown[];
  };
  expect(await waiting("n1", "n2")).toEqual([2]);
  expect(await waiting("n0", "n2")).toEqual([1, 2]);
  expect(await waiting("n1", "n0")).toEqual([1, 2]);
});

it("a node that shares no protocol with the others is refused by them, which both say", async () => {
  const far = { min: PROTOCOLS.max + 1, max: PROTOCOLS.max + 2 };
  const fleet = await startFleet(1, {}, { protocols: far });
  await fleet.start("n1");
  await fleet.time.advance(1_000);
  const object = listAt(fleet, "n0");
  const asked = fleet.node("n1").call({ object, method: "all", args: [], caller: { kind: "client" }, timeoutMs: 500 });
  await expect(fleet.time.until(asked)).rejects.toMatchObject({
    message: expect.stringMatching(/n0 speaks link protocol 3 to 4 .*, this node link protocol 1 to 2/),
  });
});
