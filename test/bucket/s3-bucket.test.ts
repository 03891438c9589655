/** The S3 bucket on a real S3 server (Ceph's gateway): every promise of a bucket, and what only S3 has. */
import { randomUUID } from "node:crypto";
import { beforeAll, vi } from "vitest";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { describeOnRealS3 } from "../support/real-s3.js";
import { bucketConformance } from "./conformance.js";

const world = realWorld("/nonexistent", silentLogger);

describeOnRealS3("the S3 bucket", (s3) => {
  beforeAll(() => {
    for (const [name, value] of Object.entries(s3().env)) vi.stubEnv(name, value);
  });

  bucketConformance("with a prefix, the S3 bucket", {
    atomic: false,
    rivals: 24,
    prepare() {
      const url = s3().bucketUrl(`conformance/${randomUUID()}`);
      // A thousand writes at once wait for one another; how long that takes here says nothing.
      return () => openBucket(url, world, resolveSettings({ BUCKET_TIMEOUT_MS: 120_000 }));
    },
  });
});
