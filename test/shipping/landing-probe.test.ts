import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BUCKET_OPERATIONS, CHANGING_OPERATIONS } from "../../src/bucket/memory-faults.js";
import { NO_PAST, VirtualNode } from "../support/virtual-node.js";

let virtual: VirtualNode;
beforeEach(async () => {
  virtual = await VirtualNode.start({ settings: { ...NO_PAST, HEALTH_INTERVAL_MS: 1_000, HEALTH_LANDED_MS: 5_000 } });
});
afterEach(() => virtual.stop());

async function writesLand(): Promise<boolean> {
  return (await virtual.node.status()).writesLand;
}

describe("a node", () => {
  it("says that writes land as long as its probing writes do", async () => {
    expect(await writesLand()).toBe(true);
    await virtual.time.advance(60_000);
    expect(await writesLand()).toBe(true);
    expect((await virtual.node.status()).sinceLandedMs).toBeLessThanOrEqual(1_100);
    expect(await virtual.keys("probe.json")).toEqual(["probe.json"]);
  });

  it("says that they do not when all fail, and that they do again", async () => {
    virtual.bucket.faults.failNext(1_000, { kind: "refused" }, CHANGING_OPERATIONS);
    await virtual.time.advance(4_000);
    expect(await writesLand()).toBe(true);
    await virtual.time.advance(3_000);
    expect(await writesLand()).toBe(false);
    expect((await virtual.node.status()).ready).toBe(true);
    virtual.bucket.faults.clear();
    await virtual.time.advance(2_000);
    expect(await writesLand()).toBe(true);
  });

  it("says that they do not when the bucket hangs without an answer", async () => {
    const hold = virtual.bucket.faults.hold(BUCKET_OPERATIONS, "before");
    await virtual.time.advance(7_000);
    expect(await writesLand()).toBe(false);
    hold.release();
    await virtual.time.advance(15_000);
    expect(await writesLand()).toBe(true);
  });

  it("does not mind one that fails now and then", async () => {
    for (let round = 0; round < 20; round++) {
      virtual.bucket.faults.failNext(1, { kind: "refused" }, CHANGING_OPERATIONS);
      await virtual.time.advance(3_000);
      expect(await writesLand()).toBe(true);
    }
  });

  it("writes no probe while flights land, and one as soon as none has for as long as a probe waits", async () => {
    for (let second = 0; second < 60; second++) {
      await virtual.call("Counter/a", "increment");
      await virtual.time.advance(900);
    }
    expect(await virtual.keys("probe.json")).toEqual([]);
    expect(await writesLand()).toBe(true);
    expect((await virtual.node.status()).sinceLandedMs).toBeLessThanOrEqual(900);
    const { write } = virtual.bucket.counts();
    await virtual.time.advance(10_050);
    expect(virtual.bucket.counts().write - write).toBe(10);
    expect(await virtual.keys("probe.json")).toEqual(["probe.json"]);
  });

  it("takes a flight that landed for the end of a failure", async () => {
    virtual.bucket.faults.failNext(5, { kind: "refused" }, CHANGING_OPERATIONS);
    await virtual.time.advance(5_900);
    expect(await writesLand()).toBe(false);
    await virtual.call("Counter/a", "increment");
    expect(await writesLand()).toBe(true);
  });

  it("does not probe when it is told not to, and then nothing speaks against it", async () => {
    const silent = await VirtualNode.start({ settings: { HEALTH_INTERVAL_MS: 0, HEALTH_LANDED_MS: 10 } });
    await silent.time.advance(60_000);
    expect(await silent.keys("probe.json")).toEqual([]);
    expect((await silent.node.status()).writesLand).toBe(true);
    await silent.stop();
  });
});
