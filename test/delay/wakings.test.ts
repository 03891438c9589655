/** Objects that are to say what they owe are woken until they have been, and stand on the list that long. */
import { describe, expect, it } from "vitest";
import { Wakings } from "../../src/delay/wakings.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const failed = MoonportError.of("bucket_failed", "slow down");

function alarm(key: string): ObjectIdentity {
  return identityOf("default", "Alarm", key);
}

/** Each try is ended by the test. */
function start(triesMax = 64) {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder() });
  const tries: (Deferred<void> & { key: string })[] = [];
  const holds = new Map<string, number>();
  const add = ({ key }: ObjectIdentity, by: number): undefined => void holds.set(key, (holds.get(key) ?? 0) + by);
  const wakings = new Wakings({
    world,
    settings: resolveSettings({ TAKEOVER_CONCURRENCY: triesMax }),
    keeper: { hold: (object) => add(object, 1), letGo: (object) => add(object, -1) },
    wake: ({ key }) => {
      const wake = deferred();
      tries.push(Object.assign(wake, { key }));
      return wake.promise;
    },
  });
  return { time, wakings, tries, holds };
}

describe("an object that is to be woken", () => {
  it("is held and tried until it was", async () => {
    const { time, wakings, tries, holds } = start();
    wakings.begin(alarm("a"));
    for (let failures = 0; failures < 3; failures++) {
      tries[failures]?.reject(failed);
      await time.advance(60_000);
    }
    expect([tries.length, holds.get("a")]).toEqual([4, 1]);
    tries[3]?.resolve();
    await time.advance(60_000);
    expect([tries.length, holds.get("a"), time.pendingTimers]).toEqual([4, 0, 0]);
  });

  it("has one try at a time for all who ask, and one more for who asks during a try", async () => {
    const { time, wakings, tries, holds } = start();
    for (let times = 0; times < 3; times++) wakings.begin(alarm("a"));
    expect([tries.length, holds.get("a")]).toEqual([1, 1]);
    tries[0]?.resolve();
    await time.settle();
    expect([tries.length, holds.get("a")]).toEqual([2, 1]);
    tries[1]?.resolve();
    await time.settle();
    expect([tries.length, holds.get("a")]).toEqual([2, 0]);
  });

  it("is not asked twice of by who asks while its next try waits", async () => {
    const { time, wakings, tries, holds } = start();
    wakings.begin(alarm("a"));
    tries[0]?.reject(failed);
    await time.settle();
    wakings.begin(alarm("a"));
    await time.advance(60_000);
    expect(tries).toHaveLength(2);
    tries[1]?.resolve();
    await time.advance(60_000);
    expect([tries.length, holds.get("a")]).toEqual([2, 0]);
  });
});

describe("whoever passes on an object that it holds", () => {
  it("hears when its first try has ended, and holds it no more", async () => {
    const { time, wakings, tries, holds } = start();
    holds.set("a", 1);
    const heard: string[] = [];
    void wakings.tried(alarm("a")).then(() => heard.push("first"));
    holds.set("a", 2);
    void wakings.tried(alarm("a")).then(() => heard.push("second"));
    expect(holds.get("a")).toBe(1);
    await time.settle();
    expect(heard).toEqual([]);
    tries[0]?.reject(failed);
    await time.settle();
    expect(heard).toEqual(["first", "second"]);
    await time.advance(60_000);
    tries[1]?.resolve();
    await time.settle();
    expect([tries.length, holds.get("a")]).toEqual([2, 0]);
  });

  it("hears so of a node that stops, of which it stays on the list", async () => {
    const { time, wakings, tries, holds } = start(1);
    holds.set("a", 1).set("b", 1).set("c", 1);
    const tried = [wakings.tried(alarm("a")), wakings.tried(alarm("b"))];
    wakings.stop();
    await time.until(Promise.all([...tried, wakings.tried(alarm("c"))]));
    tries[0]?.reject(failed);
    await time.settle();
    expect([tries.length, time.pendingTimers]).toEqual([1, 0]);
    expect([...holds.values()]).toEqual([1, 1, 1]);
  });
});

it("leaves room for others, and those who cannot be woken keep nobody asleep", async () => {
  const { time, wakings, tries, holds } = start(2);
  for (const key of ["lame", "a", "b", "c"]) wakings.begin(alarm(key));
  expect(tries.map(({ key }) => key)).toEqual(["lame", "a"]);
  tries[0]?.reject(failed);
  await time.settle();
  expect(tries.map(({ key }) => key)).toEqual(["lame", "a", "b"]);
  tries[1]?.resolve();
  tries[2]?.resolve();
  await time.settle();
  tries[3]?.resolve();
  await time.advance(60_000);
  expect(tries.map(({ key }) => key)).toEqual(["lame", "a", "b", "c", "lame"]);
  expect([...holds]).toEqual([
    ["lame", 1],
    ["a", 0],
    ["b", 0],
    ["c", 0],
  ]);
});

it("waits for what is claimed together, whether or not that succeeds", async () => {
  const { time, wakings, tries } = start();
  const claims = [deferred(), deferred()];
  const claimed = claims.map((claim) => wakings.claimsFirst(() => claim.promise).catch(() => {}));
  wakings.begin(alarm("a"));
  claims[0]?.resolve();
  await time.settle();
  expect(tries).toHaveLength(0);
  claims[1]?.reject(failed);
  await time.until(Promise.all(claimed));
  expect(tries).toHaveLength(1);
});

it("keeps no timer of a node that stops", async () => {
  const { time, wakings, tries } = start();
  wakings.begin(alarm("a"));
  tries[0]?.reject(failed);
  await time.settle();
  expect(time.pendingTimers).toBe(1);
  wakings.stop();
  await time.settle();
  expect([time.pendingTimers, tries.length]).toEqual([0, 1]);
});
