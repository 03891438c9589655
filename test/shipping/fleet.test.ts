import { describe, expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { resolveSettings, SETTING_NAMES, SETTINGS, type SettingEntry } from "../../src/settings/settings.js";
import { type JoinedFleet, joinFleet } from "../../src/shipping/fleet.js";
import { FLEET_KEY } from "../../src/shipping/layout.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

/** As the releases before many nodes wrote it. */
const OLD = { format: 1, partitions: 256, delayShards: 16, manifestFormat: 1 };

class Start {
  readonly time = new VirtualTime();
  readonly bucket = new MemoryBucket(this.#world(0));
  #seed = 1;

  async write(record: unknown): Promise<void> {
    this.bucket.contents.apply([{ key: FLEET_KEY, bytes: Buffer.from(JSON.stringify(record)) }]);
  }

  read(): Record<string, unknown> {
    return JSON.parse(Buffer.from(this.bucket.contents.get(FLEET_KEY)?.bytes ?? []).toString("utf8"));
  }

  alone(delayShards = 16): Promise<JoinedFleet> {
    return this.time.until(joinFleet({ bucket: this.bucket, world: this.#world(this.#seed++), delayShards }));
  }

  /** One of several. */
  joining(overrides: Record<string, number> = {}): Promise<JoinedFleet> {
    const settings = resolveSettings(overrides);
    return joinFleet({ bucket: this.bucket, world: this.#world(this.#seed++), settings, delayShards: 16 });
  }

  join(overrides: Record<string, number> = {}): Promise<JoinedFleet> {
    return this.time.until(this.joining(overrides));
  }

  #world(seed: number): VirtualWorld {
    return new VirtualWorld({ time: this.time, root: temporaryFolder(), seed });
  }
}

async function started(): Promise<Start> {
  const start = new Start();
  await start.bucket.start();
  return start;
}

describe("a fleet's record", () => {
  it("is made once, with an identity that every node is told", async () => {
    const start = await started();
    const joined = await start.alone();
    expect(joined.fleet).toMatch(/^[0-9a-f-]{36}$/);
    expect(await start.alone()).toEqual(joined);
    expect(await start.join()).toEqual(joined);
    expect(start.read()).toMatchObject({ ...OLD, fleet: joined.fleet });
    expect((await (await started()).alone()).fleet).toBeDefined();
  });

  it("is made by one of those who find none at the same time", async () => {
    const start = await started();
    const joined = await start.time.until(Promise.all([start.joining(), start.joining(), start.joining()]));
    expect(new Set(joined.map(({ fleet }) => fleet)).size).toBe(1);
  });

  it("of an older version gets what it lacks, and keeps the rest", async () => {
    const start = await started();
    await start.write({ ...OLD, later: "field" });
    const joined = await start.alone();
    expect(start.read()).toEqual({ ...OLD, later: "field", fleet: joined.fleet });
    expect(await start.join()).toEqual(joined);
    const settings = start.read().settings as Record<string, number>;
    expect(settings.NODE_TTL_MS).toBe(5_000);
    await start.write({ ...start.read(), settings: { NODE_TTL_MS: 5_000, GONE: 7 } });
    await start.join();
    expect(start.read().settings).toEqual({ ...settings, GONE: 7 });
  });

  it("is not written by a node that finds it complete", async () => {
    const start = await started();
    await start.join();
    const { write } = start.bucket.counts();
    await start.join();
    await start.alone();
    expect(start.bucket.counts().write).toBe(write);
  });

  it("names every setting that nodes must share, and both values, when a node's differs", async () => {
    const names = SETTING_NAMES.filter((name) => (SETTINGS[name] as SettingEntry).scope === "fleet");
    expect(names.length).toBeGreaterThan(3);
    for (const name of names) {
      const start = await started();
      await start.join({ OBJECT_REPLICAS: 3, OBJECT_QUORUM: 2 });
      const other = (SETTINGS[name] as SettingEntry).default + (name === "OBJECT_QUORUM" ? -1 : 1);
      const theirs = String((SETTINGS[name] as SettingEntry).default);
      await expect(start.join({ [name]: other })).rejects.toMatchObject({
        code: "fleet_mismatch",
        message: `the fleet has ${name} ${theirs} where this node has ${other}`,
        hint: expect.stringContaining(`${name}=${theirs}`),
      });
      // A node that is alone shares them with nobody.
      await start.alone();
    }
  });

  it("has as many delay shards as the node that wanted most, and says how many there were before", async () => {
    const start = await started();
    await start.write(OLD);
    expect(await start.alone()).toMatchObject({ delayShards: [16] });
    expect(await start.alone(32)).toMatchObject({ delayShards: [16, 32] });
    expect(await start.alone(8)).toMatchObject({ delayShards: [16, 32] });
    expect(await start.alone(48)).toMatchObject({ delayShards: [16, 32, 48] });
    expect(start.read()).toMatchObject({ delayShards: 48, delayShardsBefore: [16, 32] });
    expect((await (await started()).alone(4)).delayShards).toEqual([4]);
  });

  it("refuses a node of other numbers, and is refused when it is none", async () => {
    const start = await started();
    await start.write({ ...OLD, partitions: 128 });
    await expect(start.alone()).rejects.toMatchObject({
      code: "fleet_mismatch",
      message: expect.stringMatching(/128/),
    });
    await start.write("no record");
    await expect(start.alone()).rejects.toMatchObject({ code: "bucket_unusable" });
  });

  it("is the same after an answer was lost", async () => {
    const start = await started();
    start.bucket.faults.failNext(1, { kind: "lost_answer" }, CHANGING_OPERATIONS);
    await expect(start.join()).rejects.toMatchObject({ code: "bucket_failed" });
    const { fleet } = start.read();
    expect(await start.join()).toMatchObject({ fleet });
  });
});
