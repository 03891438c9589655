/** Objects on their way to the nodes that the ring prefers, one of which does not go at once. */
import { expect, it } from "vitest";
import { Handover } from "../../src/fleet/handover.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { FleetCounters } from "../../src/metrics/fleet-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const busy = identityOf("default", "Counter", "busy");
const idle = identityOf("default", "Counter", "idle");

it.each<[string, () => Promise<boolean>]>([
  ["stays because it is in use", async () => false],
  ["cannot land", () => Promise.reject(new Error("the bucket is away"))],
])("an object that %s is asked again until it goes, the others once", async (_, refuse) => {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder() });
  const held = new Set<ObjectIdentity>([busy, idle]);
  const asked: string[] = [];
  let refusals = 3;
  const counters = new FleetCounters();
  const handover = new Handover({
    world,
    settings: resolveSettings(),
    self: "n1",
    hooks: {
      claims: {
        get all() {
          return [...held];
        },
      } as never,
      lastUsedMs: () => undefined,
      handOver: async (object) => {
        asked.push(object.key);
        if (object === busy && refusals-- > 0) return refuse();
        held.delete(object);
        return true;
      },
    },
    homesOf: () => ["n2", "n1"],
    isValid: () => true,
    counters,
  });
  handover.begin();
  await time.advance(10_000);
  expect(asked.sort()).toEqual(["busy", "busy", "busy", "busy", "idle"]);
  expect(counters.handovers).toEqual({ gone: 2, stayed: 3 });
  await handover.stop();
});
