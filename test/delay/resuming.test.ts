/** What stood as being delivered when a shard came here. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { ArgumentStore } from "../../src/delay/argument-store.js";
import { DelayDriver } from "../../src/delay/delay-driver.js";
import type { DriverPort } from "../../src/delay/driver-port.js";
import { ShardDriver } from "../../src/delay/shard-driver.js";
import type { Entry } from "../../src/delay/shard-entry.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { Slots } from "../../src/delay/slots.js";
import { MoonportError } from "../../src/errors.js";
import { DelayCounters } from "../../src/metrics/delay-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { encodeValue } from "../../src/store/value-codec.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import { sleep } from "../../src/world/world.js";
import "../support/property-seed.js";
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
    leftBehind: () => {},
  });
  driver.poke();
  await time.advance(10_000);
  expect(writes).toBe(2);
  driver.end();
});

interface Shard {
  readonly states: Map<string, "waiting" | "delivering" | "done">;
}

/** What a shard's methods do to it, as far as delivery goes. */
function apply({ states }: Shard, entry: Entry): PlainValue {
  if (entry.kind === "resume") {
    for (const [id, state] of states) if (state === "delivering") states.set(id, "waiting");
  } else if (entry.kind === "begin") {
    if (states.get(entry.id) !== "waiting") return null;
    states.set(entry.id, "delivering");
    const to = {
      app: "default",
      className: "Doer",
      key: "k",
      method: "take",
      args: encodeValue([], 100, ""),
      argsHash: null,
    };
    const tried = { tries: 0, attempts: 0, beganMs: 0, callIdMs: 0, doubtful: false };
    return { id: entry.id, run: 1, callId: entry.id, dueMs: 0, caller: {}, ...to, ...tried };
  } else if (entry.kind === "ended" && states.get(entry.id) !== "done") {
    states.set(entry.id, entry.outcome.kind === "done" ? "done" : "waiting");
  }
  return true;
}

const afterMs = fc.nat({ max: 40 });
const storm = fc.record({
  commands: fc.integer({ min: 1, max: 6 }),
  /** When the shard goes, and comes back at once. */
  losses: fc.array(fc.nat({ max: 120 }), { minLength: 1, maxLength: 6 }),
  /** Of each request of the shard: how long until it is done, and until that is known, and whether the word is lost. */
  requests: fc.array(fc.record({ doneMs: afterMs, toldMs: afterMs, isLost: fc.integer({ min: 0, max: 9 }) }), {
    minLength: 1,
    maxLength: 12,
  }),
  callMs: afterMs,
});

it("is delivered in the end, whenever the shard goes and comes back", async () => {
  await fc.assert(
    fc.asyncProperty(storm, async ({ commands, losses, requests, callMs }) => {
      const time = new VirtualTime();
      const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
      const settings = resolveSettings({});
      const shard: Shard = { states: new Map() };
      for (let index = 0; index < commands; index++) shard.states.set(`c${index}`, "waiting");
      let asked = 0;
      const here: DriverPort["here"] = async (_, method, args) => {
        // After the storm all is well.
        const calm = { doneMs: 1, toldMs: 1, isLost: 1 };
        const { doneMs, toldMs, isLost } = (time.nowMs < 400 ? requests[asked++ % requests.length] : undefined) ?? calm;
        await sleep(world, doneMs);
        let answer: PlainValue = null;
        if (method === "append") answer = (args[0] as unknown as Entry[]).map((entry) => apply(shard, entry));
        if (method === "due") {
          const waiting = [...shard.states].filter(([, state]) => state === "waiting").map(([id]) => id);
          const isDelivering = [...shard.states.values()].includes("delivering");
          answer = { wakes: [], commands: waiting, nextMs: null, isDelivering };
        }
        await sleep(world, toldMs);
        if (isLost === 0) throw MoonportError.of("outcome_unknown", "nobody knows");
        return answer;
      };
      const port: DriverPort = {
        here,
        ask: here,
        holds: () => true,
        isHome: () => true,
        exists: async () => true,
        call: () => sleep(world, callMs).then(() => null),
        wake: () => Promise.reject(new Error("nobody has timers")),
      };
      const driver = new DelayDriver({
        world,
        settings,
        port,
        slots: new Slots(settings.DELAY_CONCURRENCY),
        counters: new DelayCounters(),
        arguments: new ArgumentStore(new MemoryBucket(world)),
        shards: new ShardMap([16]),
      });
      driver.touched(0);
      for (const atMs of losses) {
        time.after(atMs, () => {
          driver.lost(0);
          driver.touched(0);
        });
      }
      await time.advance(60_000);
      expect([...shard.states.values()]).toEqual(Array(commands).fill("done"));
      await time.until(driver.stop());
    }),
    { numRuns: 300 },
  );
});
