/** Objects on their way to the nodes that the ring prefers, one of which does not go at once. */
import { expect, it } from "vitest";
import { Handover } from "../../src/fleet/handover.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { FleetCounters } from "../../src/metrics/fleet-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { sleep } from "../../src/world/world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const busy = identityOf("default", "Counter", "busy");
const idle = identityOf("default", "Counter", "idle");

/** @param handOver to n2, which the ring prefers for all */
function start(
  held: Set<ObjectIdentity>,
  handOver: (object: ObjectIdentity) => Promise<boolean>,
  isTaker = (node: string): boolean => node === "n2",
) {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder() });
  const counters = new FleetCounters();
  const handover = new Handover({
    world,
    settings: resolveSettings({ HANDOFF_CONCURRENCY: 2 }),
    self: "n1",
    hooks: {
      claims: {
        get all() {
          return [...held];
        },
      } as never,
      lastUsedMs: () => undefined,
      handOver,
    },
    homesOf: () => ["n2", "n1"],
    isTaker,
    isValid: () => true,
    counters,
  });
  return { time, world, counters, handover };
}

it.each<[string, () => Promise<boolean>]>([
  ["stays because it is in use", async () => false],
  ["cannot land", () => Promise.reject(new Error("the bucket is away"))],
])("an object that %s is asked again until it goes, the others once", async (_, refuse) => {
  const held = new Set<ObjectIdentity>([busy, idle]);
  const asked: string[] = [];
  let refusals = 3;
  const { time, counters, handover } = start(held, async (object) => {
    asked.push(object.key);
    if (object === busy && refusals-- > 0) return refuse();
    held.delete(object);
    return true;
  });
  handover.begin();
  await time.advance(10_000);
  expect(asked.sort()).toEqual(["busy", "busy", "busy", "busy", "idle"]);
  expect(counters.handovers).toEqual({ gone: 2, stayed: 3 });
  await handover.stop();
});

it("a node that leaves where nobody takes its objects gives each up once: what is asked for comes back", async () => {
  const held = new Set<ObjectIdentity>([busy, idle]);
  const asked: string[] = [];
  const handOver = async (object: ObjectIdentity): Promise<boolean> => {
    asked.push(object.key);
    await sleep(world, 10);
    return true;
  };
  const { time, world, handover } = start(held, handOver, () => false);
  expect(await time.until(handover.leave(world.clock.monotonicMs() + 20_000))).toBe(true);
  expect(asked.sort()).toEqual(["busy", "idle"]);
  await handover.stop();
});

it("a node that leaves does not wait beyond its time for an object that does not go", async () => {
  const { time, world, handover } = start(new Set([busy]), async () => false);
  const begunMs = time.nowMs;
  expect(await time.until(handover.leave(world.clock.monotonicMs() + 20_000))).toBe(false);
  expect(Math.round(time.nowMs - begunMs)).toBe(20_000);
  await handover.stop();
});

it("a node that leaves keeps its time, whatever the ring had begun to move before", async () => {
  const held = new Set(Array.from({ length: 100 }, (_, index) => identityOf("default", "Counter", `k${index}`)));
  const { time, world, handover } = start(held, async (object) => {
    await sleep(world, 100);
    held.delete(object);
    return true;
  });
  handover.begin();
  await time.advance(50);
  const begunMs = time.nowMs;
  expect(await time.until(handover.leave(world.clock.monotonicMs() + 1_000))).toBe(false);
  expect(time.nowMs - begunMs).toBeLessThanOrEqual(1_100);
  expect(held.size).toBeGreaterThan(70);
  await handover.stop();
});
