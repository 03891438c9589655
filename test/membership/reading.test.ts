/** Readings of all nodes' records go on, whatever those do who are told of one. */
import path from "node:path";
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { RecordReader } from "../../src/membership/reading.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

it("one that is asked for while another is under way begins, though whoever is told of that one throws", async () => {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: path.join(temporaryFolder(), "world"), seed: 1 });
  const bucket = new MemoryBucket(world);
  await bucket.start();
  let told = 0;
  const reader = new RecordReader({
    world,
    bucket,
    patienceMs: 1_000,
    read: () => {
      if (++told === 1) throw new Error("a fault of whoever is told");
    },
  });
  const first = reader.fresh().then(
    () => "told",
    () => "failed",
  );
  const second = reader.fresh();
  expect(await time.until(first)).toBe("failed");
  expect((await time.until(second)).error).toBeUndefined();
  expect((await time.until(reader.fresh())).error).toBeUndefined();
  expect(told).toBe(3);
});
