import { expect, it } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { noRequests } from "../../src/bucket/request-counts.js";
import { lastingBucket } from "../../src/testing/lasting-bucket.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const memory = (): MemoryBucket =>
  new MemoryBucket(new VirtualWorld({ time: new VirtualTime(), root: temporaryFolder() }));

it("a lasting bucket has what the bucket has of what a bucket may have, as it is when it is asked", () => {
  const plain = lastingBucket(memory());
  expect([plain.requests, "hintFor" in plain]).toEqual([undefined, false]);
  let put = 1;
  const counting: Bucket = Object.defineProperty(memory() as Bucket, "requests", {
    get: () => ({ ...noRequests(), put }),
  });
  counting.hintFor = (check) => `try ${check}`;
  const lasting = lastingBucket(counting);
  expect(lasting.hintFor?.("create")).toBe("try create");
  expect(lasting.requests?.put).toBe(1);
  put = 2;
  expect(lasting.requests?.put).toBe(2);
});
