/** What stood as being delivered when a shard came here. */
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { ArgumentStore } from "../../src/delay/argument-store.js";
import type { DriverPort } from "../../src/delay/driver-port.js";
import { ShardDriver } from "../../src/delay/shard-driver.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { Slots } from "../../src/delay/slots.js";
import { MoonportError } from "../../src/errors.js";
import { DelayCounters } from "../../src/metrics/delay-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

it("is taken up again, also when the first write that says so fails", async () => {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const settings = resolveSettings({});
  let isDelivering = true;
  let writes = 0;
  const here: DriverPort["here"] = async (_, method) => {
    if (method === "due") return { wakes: [], commands: [], nextMs: null, isDelivering };
    if (method !== "append") return null;
    if (++writes === 1) throw MoonportError.of("not_durable_yet", "it has not landed");
    isDelivering = false;
    return [1];
  };
  const driver = new ShardDriver(0, {
    world,
    settings,
    port: { here } as DriverPort,
    slots: new Slots(settings.DELAY_CONCURRENCY),
    counters: new DelayCounters(),
    arguments: new ArgumentStore(new MemoryBucket(world)),
    shards: new ShardMap([16]),
    ended: () => {},
  });
  driver.poke();
  await time.advance(10_000);
  expect(writes).toBe(2);
  driver.end();
});
