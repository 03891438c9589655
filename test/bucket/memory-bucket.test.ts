import { expect, test } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { MemoryBucket, type MemoryBucketOptions } from "../../src/bucket/memory-bucket.js";
import { MemoryContents } from "../../src/bucket/memory-contents.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { bucketConformance, bytesOf, put, textAt } from "./conformance.js";

const world = realWorld("/nonexistent", silentLogger);

for (const atomic of [true, false]) {
  bucketConformance(atomic ? "the memory bucket" : "the memory bucket without batches", {
    atomic,
    prepare() {
      const contents = new MemoryContents();
      return () => new MemoryBucket(world, { atomic, contents });
    },
  });
}

function virtual(options: MemoryBucketOptions = {}, seed = 1) {
  const time = new VirtualTime();
  const bucket = new MemoryBucket(
    {
      clock: { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs },
      timers: { after: (delayMs, run) => time.after(delayMs, run), soon: (run) => time.soon(run) },
      random: new SeededRandom(seed),
    },
    options,
  );
  void bucket.start();
  return { time, bucket };
}

async function stored(bucket: MemoryBucket, key: string): Promise<string | undefined> {
  const found = bucket.contents.get(key);
  return found && new TextDecoder().decode(found.bytes);
}

test("a request takes its latency there and again back, and has its effect in the middle", async () => {
  const { time, bucket } = virtual({ latencyMs: 10 });
  const write = put(bucket, "a", "one");
  await time.advance(9);
  expect(await stored(bucket, "a")).toBeUndefined();
  await time.advance(1);
  expect(await stored(bucket, "a")).toBe("one");
  expect((await time.until(write)).kind).toBe("landed");
  expect(time.nowMs).toBe(20);
});

test("the same seed gives the same latencies", async () => {
  const run = async (seed: number): Promise<number> => {
    const { time, bucket } = virtual({ latencyMs: (_, { random }) => random.fraction() * 100 }, seed);
    for (let round = 0; round < 5; round += 1) await time.until(put(bucket, "a", "x"));
    return time.nowMs;
  };
  expect(await run(7)).toBe(await run(7));
  expect(await run(7)).not.toBe(await run(8));
});

test("a refused write did not happen; one whose request was lost neither, but the caller cannot know", async () => {
  const { time, bucket } = virtual();
  bucket.faults.failNext(1, { kind: "refused" });
  await expect(time.until(put(bucket, "a", "x"))).rejects.toMatchObject({ details: { outcome: "refused" } });
  bucket.faults.failNext(1, { kind: "lost_request" });
  await expect(time.until(put(bucket, "a", "x"))).rejects.toMatchObject({ details: { outcome: "unknown" } });
  expect(await stored(bucket, "a")).toBeUndefined();
  await time.until(put(bucket, "a", "x"));
  expect(await stored(bucket, "a")).toBe("x");
});

test("a write whose answer was lost did happen; a late one happens later, under its condition", async () => {
  const { time, bucket } = virtual();
  bucket.faults.failNext(1, { kind: "lost_answer" });
  await expect(time.until(put(bucket, "a", "one"))).rejects.toMatchObject({ details: { outcome: "unknown" } });
  expect(await stored(bucket, "a")).toBe("one");
  for (const key of ["a", "b"]) {
    bucket.faults.failNext(1, { kind: "late", landsAfterMs: 500 });
    await expect(time.until(put(bucket, key, "late", { absent: true }))).rejects.toMatchObject({
      details: { outcome: "unknown" },
    });
    await time.advance(499);
    expect(await stored(bucket, "b")).toBeUndefined();
    await time.advance(1);
  }
  expect(await stored(bucket, "a")).toBe("one");
  expect(await stored(bucket, "b")).toBe("late");
});

test("faults meet only the operations they are for, as often as they are for", async () => {
  const { time, bucket } = virtual();
  bucket.faults.failNext(2, { kind: "refused" }, ["get"]);
  await time.until(put(bucket, "a", "x"));
  for (let round = 0; round < 2; round += 1)
    await expect(time.until(bucket.get("a"))).rejects.toThrow("told to refuse");
  expect(await time.until(textAt(bucket, "a"))).toBe("x");
  expect(bucket.counts()).toMatchObject({ write: 1, get: 3, list: 0 });
});

test("a gate holds every change and no read until it is released", async () => {
  const { time, bucket } = virtual();
  const gate = bucket.gate();
  const writes = [put(bucket, "a", "one"), put(bucket, "a", "two"), bucket.delete(["b"])];
  await time.settle();
  expect(gate.waiting).toBe(3);
  expect(await time.until(bucket.get("a"))).toBeUndefined();
  gate.release();
  await time.until(Promise.all(writes));
  expect(await stored(bucket, "a")).toBe("two");
  await time.until(put(bucket, "a", "three"));
});

test("a request that hangs is unknown after its time, and still takes effect when it is let go", async () => {
  const { time, bucket } = virtual({ timeoutMs: 1_000 });
  const gate = bucket.gate();
  await expect(time.until(put(bucket, "a", "x"))).rejects.toMatchObject({ details: { outcome: "unknown" } });
  expect(time.nowMs).toBe(1_000);
  expect(await stored(bucket, "a")).toBeUndefined();
  gate.release();
  await time.settle();
  expect(await stored(bucket, "a")).toBe("x");
});

test("answers held back leave the write done and its caller waiting", async () => {
  const { time, bucket } = virtual({ timeoutMs: 1_000 });
  const hold = bucket.faults.hold(["write"], "after");
  const write = put(bucket, "a", "x");
  await time.settle();
  expect(await stored(bucket, "a")).toBe("x");
  hold.release();
  expect((await time.until(write)).kind).toBe("landed");
});

test("a throttle lets so many through in a window and tells the others when to come back", async () => {
  const { time, bucket } = virtual();
  bucket.faults.throttle({ requestsMax: 2, windowMs: 100 });
  const outcomes = await time.until(Promise.allSettled(["a", "b", "c"].map((key) => put(bucket, key, "x"))));
  expect(outcomes.map((outcome) => outcome.status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
  expect(outcomes[2]).toMatchObject({ reason: { retryAfterMs: 100, details: { outcome: "refused" } } });
  await time.advance(100);
  expect((await time.until(put(bucket, "c", "x"))).kind).toBe("landed");
});

test("corruption changes bytes and not the version", async () => {
  const { time, bucket } = virtual();
  await time.until(put(bucket, "a", "clean"));
  const before = bucket.contents.get("a");
  bucket.corrupt("a");
  const after = await time.until(bucket.get("a"));
  expect(after?.version).toBe(before?.version);
  expect(after?.bytes).not.toEqual(before?.bytes);
  expect(after?.bytes).toHaveLength(5);
});

test("a stop fails what is under way as far as it can be known", async () => {
  const { time, bucket } = virtual({ latencyMs: 50 });
  const under: [Promise<unknown>, Promise<unknown>] = [put(bucket, "a", "x"), bucket.get("a")];
  await bucket.stop();
  await expect(under[0]).rejects.toMatchObject({ details: { outcome: "unknown" } });
  await expect(under[1]).rejects.toMatchObject({ details: { outcome: "refused" } });
  await time.advance(1_000);
});

test("nobody changes what is stored by keeping a reference", async () => {
  const { time, bucket }: { time: VirtualTime; bucket: Bucket } = virtual();
  const bytes = bytesOf("mine");
  const write = bucket.write([{ key: "a", bytes }]);
  bytes[0] = 0;
  await time.until(write);
  const found = await time.until(bucket.get("a"));
  found?.bytes.fill(0);
  expect(await time.until(textAt(bucket, "a"))).toBe("mine");
});
