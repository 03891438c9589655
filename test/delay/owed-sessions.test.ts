/** What ended sessions owed is woken: one object that cannot be keeps none of the others asleep. */
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { OwedSessions } from "../../src/delay/owed-sessions.js";
import { Wakings } from "../../src/delay/wakings.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

function alarm(key: string): ObjectIdentity {
  return identityOf("default", "Alarm", key);
}

/** @param wake of an object, by its key */
async function start(wake: (key: string) => Promise<void>) {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const bucket = new MemoryBucket(world);
  await bucket.start();
  const holds = new Map<string, number>();
  const add = ({ key }: ObjectIdentity, by: number): void => void holds.set(key, (holds.get(key) ?? 0) + by);
  const settings = resolveSettings();
  const keeper = {
    hold: async (object: ObjectIdentity) => add(object, 1),
    letGo: (object: ObjectIdentity) => add(object, -1),
  };
  const sessions = new OwedSessions({
    world,
    settings,
    bucket,
    keeper,
    wakings: new Wakings({ world, settings, keeper, wake: ({ key }) => wake(key) }),
    session: () => "mine",
    isDead: async () => true,
    isHome: () => true,
  });
  const list = async (part: string, keys: readonly string[]): Promise<void> => {
    const bytes = Buffer.from(JSON.stringify(keys.map((key) => alarm(key).id)), "utf8");
    await time.until(bucket.write([{ key: `owing/${part}`, bytes }]));
  };
  return { time, bucket, sessions, list, holds };
}

it("goes on to the next lists while an object of the first cannot be woken, and tries that one again", async () => {
  const tried: string[] = [];
  const { time, bucket, sessions, list, holds } = await start(async (key) => {
    tried.push(key);
    if (key === "lame" && tried.filter((other) => other === key).length < 4) {
      throw MoonportError.of("class_not_found", "no such class");
    }
  });
  await list("dead/1", ["lame", "a"]);
  await list("dead/2", ["b"]);
  await list("dead2/1", ["c"]);
  sessions.look();
  await time.settle();
  expect(tried).toEqual(["lame", "a", "b", "c"]);
  expect((await time.until(bucket.list("owing/"))).keys).toEqual([]);
  expect([...holds]).toEqual([
    ["lame", 1],
    ["a", 0],
    ["b", 0],
    ["c", 0],
  ]);
  await time.advance(5_000);
  expect(tried.slice(4)).toEqual(["lame", "lame", "lame"]);
  expect(holds.get("lame")).toBe(0);
  expect(time.pendingTimers).toBe(0);
});
