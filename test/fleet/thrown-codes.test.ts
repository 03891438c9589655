/**
 * A class may throw any code. One by which nodes of a fleet tell each other where an object is, or that a way there is broken, says
 * nothing of that when a class throws it: its method has run, once, and whoever asked hears what it threw.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { uuidv7 } from "../../src/world/world.js";
import { CODES, eachRan, THROWER, ThrowLog } from "../support/thrower-class.js";
import { appOf } from "../support/virtual-node.js";

const UNIT = `
return function(request)
  Thrower(request.body.key):throw(request.body.code)
end`;
const ATTEMPTS_MAX = 2;

let fleet: SimulatedFleet;
let object: ObjectIdentity;
const log = new ThrowLog();
beforeAll(async () => {
  fleet = new SimulatedFleet({
    apps: [appOf({ Thrower: THROWER }, { throw: UNIT })],
    settings: { NODE_TTL_MS: 1_000, NODE_TTL_MARGIN_MS: 100, DELAY_ATTEMPTS_MAX: ATTEMPTS_MAX },
    log: () => log,
  });
  for (const name of ["n0", "n1"]) await fleet.start(name);
  await fleet.time.advance(1_000);
  object = thrower("n1");
});
afterAll(() => fleet.close());

/** One whose home is that node. */
function thrower(node: string): ObjectIdentity {
  const { ring } = fleet.node(node).node.fleet;
  for (let index = 0; ; index++) {
    const one = identityOf("default", "Thrower", `k${index}`);
    if (ring.homesOf(partitionOf(one.id))[0] === node) return one;
  }
}

async function heard(asking: (code: string) => Promise<unknown>): Promise<unknown[]> {
  const all = [];
  for (const code of CODES) {
    const asked = asking(code).then(
      () => "no error",
      (error) => `${error.source} ${error.code}`,
    );
    all.push(await fleet.time.until(asked));
  }
  return all;
}

const BY_CLASS = CODES.map((code) => `class ${code}`);

for (const through of ["n1", "n0"]) {
  for (const [what, method] of [
    ["call", "throw"],
    ["read", "look"],
  ] as const) {
    it(`a ${what} through ${through} runs once, and its caller hears the class`, async () => {
      const node = fleet.node(through);
      const request = { object, method, caller: { kind: "client" } } as const;
      expect(await heard((code) => node.call({ ...request, args: [code], callId: uuidv7(node.world) }))).toEqual(
        BY_CLASS,
      );
      expect(log.threw()).toEqual(eachRan(1));
    });
  }

  it(`so does a call of a unit on ${through}`, async () => {
    const request = { app: "default", unit: "throw", method: "POST", path: "/", query: {}, headers: {} };
    const run = (code: string) =>
      fleet.node(through).node.runUnit({ ...request, caller: { kind: "client" }, body: { key: object.key, code } });
    expect(await heard(run)).toEqual(BY_CLASS);
    expect(log.threw()).toEqual(eachRan(1));
  });
}

it("a message that goes from node to node runs as often as one that stays", async () => {
  const from = { object: thrower("n0"), method: "send_throw", caller: { kind: "client" } } as const;
  for (const code of CODES) await fleet.time.until(fleet.node("n0").call({ ...from, args: [code, object.key] }));
  await fleet.time.advance(60_000);
  expect(log.threw()).toEqual(eachRan(1 + ATTEMPTS_MAX));
});

it("and so does a timer", async () => {
  const request = { object, method: "throw_later", caller: { kind: "client" } } as const;
  for (const code of CODES) await fleet.time.until(fleet.node("n0").call({ ...request, args: [code] }));
  await fleet.time.advance(60_000);
  expect(log.threw()).toEqual(eachRan(ATTEMPTS_MAX));
});
