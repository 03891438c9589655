/** Where objects come to live when nodes join and go, while they are called all the time. */
import { expect, it } from "vitest";
import { identityOf, type ObjectIdentity, partitionOf } from "../../src/identity.js";
import type { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import { call, startFleet, until } from "./watching.js";

const OBJECTS = [..."abcdefgh"].map((key) => identityOf("default", "Counter", key));

/** Objects that live where the ring of `through` does not want them. */
function misplaced(fleet: SimulatedFleet, through = "n0"): readonly string[] {
  const { ring } = fleet.node(through).node.fleet;
  return OBJECTS.filter((object) => {
    const [home = ""] = ring.homesOf(partitionOf(object.id));
    return !fleet.node(home).node.local.holds(object);
  }).map(({ id }) => id);
}

/** Asks for every object through `through` again and again, a few milliseconds after each answer, until it is told to end. */
function asked(fleet: SimulatedFleet, through: string): { end(): Promise<void> } {
  let isOver = false;
  const { node } = fleet.node(through);
  const asking = OBJECTS.map(async (object: ObjectIdentity) => {
    while (!isOver) {
      await node.inspect(object);
      await new Promise<void>((resolve) => void fleet.time.after(3, resolve));
    }
  });
  return {
    end: async () => {
      isOver = true;
      await fleet.time.until(Promise.all(asking));
    },
  };
}

it.each([1, 2, 3])("objects that are asked for all the time go to the node that joined (seed %i)", async (seed) => {
  const fleet = await startFleet(1, {}, {}, { seed });
  for (const object of OBJECTS) await call(fleet, "n0", object, "add", [1]);
  const callers = asked(fleet, "n0");
  await fleet.start("n1");
  await until(fleet, () => fleet.node("n0").node.fleet.members.length === 2);
  await fleet.time.advance(3_000);
  await callers.end();
  expect(misplaced(fleet)).toEqual([]);
});
