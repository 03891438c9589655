/** Where a call goes next, by what the last try of it said. */
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { encoded, type Operation } from "../../src/fleet/operation.js";
import { Places } from "../../src/fleet/place.js";
import { Routing, type RoutingParts } from "../../src/fleet/routing.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const ASKED = identityOf("default", "List", "asked");
const INNER = identityOf("default", "List", "inner");
const EXPIRES_MS = 1_000;

/** `moved`, as a node tells it of the object. */
function movedTo(node: string, object: ObjectIdentity): MoonportError {
  return MoonportError.of("moved", `${object.id} lives on ${node}`, { object: object.id, details: { node } });
}

/** A node for whose home the ring names `home`, and whose peers answer with what `peer` throws. */
function nodeWith(home: string, peer: () => MoonportError = () => MoonportError.of("node_unreachable", "no peer")) {
  const time = new VirtualTime();
  const places = new Places({ self: "n0", isMember: () => true, homeOf: () => home });
  const forwardedTo: string[] = [];
  const fleet = {
    isStopping: false,
    whenMembersChange: () => {},
    whenStopping: () => {},
    peer: (node: string) => node,
    ask: async (node: string) => {
      forwardedTo.push(node);
      throw peer();
    },
    counters: { forwardedCalls: { count: () => {} } },
  };
  const node = { holds: () => false, moving: () => undefined, releasing: { numberOf: () => 1 } };
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const parts = { world, settings: resolveSettings(), name: "n0", node, fleet, places };
  const routing = new Routing(parts as unknown as RoutingParts);
  const operation: Operation = {
    kind: "call",
    method: "ask_inner",
    args: encoded([]),
    caller: { kind: "client" },
    chain: [],
  };
  const ask = (here: () => Promise<unknown>) =>
    time.until(routing.ask({ object: ASKED, operation, expiresMs: EXPIRES_MS, hops: 0, isRepeatable: false, here }));
  return { places, forwardedTo, ask };
}

describe("a method that lets `moved` of an object through that it asked", () => {
  it("says nothing of its own object, which is asked again where it is", async () => {
    const { places, forwardedTo, ask } = nodeWith("n0");
    let tries = 0;
    const here = async () => {
      if (++tries === 1) throw movedTo("n1", INNER);
      return "answered";
    };
    expect(await ask(here)).toBe("answered");
    expect(forwardedTo).toEqual([]);
    expect(places.of(ASKED)).toBe("n0");
  });

  it("says nothing of it on another node either", async () => {
    const { places, forwardedTo, ask } = nodeWith("n0", () => movedTo("n2", INNER));
    places.learn(ASKED, "n1");
    await expect(ask(async () => "answered")).rejects.toMatchObject({ code: "moved", object: INNER.id });
    expect(new Set(forwardedTo)).toEqual(new Set(["n1"]));
    expect(places.of(ASKED)).toBe("n1");
  });
});

it("what is said of the object itself is followed", async () => {
  const { places, forwardedTo, ask } = nodeWith("n0", () => movedTo("n1", INNER));
  const here = async () => {
    throw movedTo("n1", ASKED);
  };
  await expect(ask(here)).rejects.toMatchObject({ code: "moved" });
  expect(forwardedTo[0]).toBe("n1");
  expect(places.of(ASKED)).toBe("n1");
});
