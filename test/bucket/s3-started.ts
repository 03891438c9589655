/** S3 buckets that are started, and stopped when the test ends; and one with the fault proxy before it. */
import { randomUUID } from "node:crypto";
import { onTestFinished } from "vitest";
import { S3Bucket } from "../../src/bucket/s3/s3-bucket.js";
import { parseS3Url } from "../../src/bucket/s3/s3-location.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import type { World } from "../../src/world/world.js";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.js";
import type { RealS3 } from "../support/real-s3.js";

export const world = realWorld("/nonexistent", silentLogger);

/** Long enough for a machine that does much else; tests of the time itself have their own. */
const PATIENT = { BUCKET_TIMEOUT_MS: 60_000 };

export interface ProxiedBucket {
  readonly bucket: S3Bucket;
  readonly proxy: FaultProxy;
  /** Kinds of the requests since the last look, oldest first; those of the start are none of them. */
  asked(): string[];
}

export async function startedS3Bucket(
  url: string,
  options: { readonly settings?: Record<string, number>; readonly world?: World } = {},
): Promise<S3Bucket> {
  const settings = resolveSettings({ ...PATIENT, ...options.settings });
  const bucket = new S3Bucket(options.world ?? world, settings, parseS3Url(url));
  onTestFinished(() => bucket.stop());
  await bucket.start();
  return bucket;
}

/** Each with a prefix of its own. */
export async function bucketBehindProxy(
  s3: RealS3,
  options: { readonly settings?: Record<string, number>; readonly world?: World } = {},
): Promise<ProxiedBucket> {
  const proxy = await startFaultProxy({ target: s3 });
  // Last, because what a test has begun last ends first: the bucket before the proxy it speaks to.
  onTestFinished(() => proxy.stop());
  const url = s3.bucketUrl(`faults/${randomUUID()}`, { endpoint: proxy.endpoint });
  const bucket = await startedS3Bucket(url, options);
  let seen = 0;
  const asked = (): string[] => {
    const kinds = proxy.requests.slice(seen).map(({ kind }) => kind);
    seen = proxy.requests.length;
    return kinds.filter((kind) => kind !== "list_uploads");
  };
  return { bucket, proxy, asked };
}
