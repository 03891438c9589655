/** From a bucket's URL, as users write it, to the bucket: the one place that knows the kinds there are. */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import type { Bucket, BucketReader } from "./bucket.js";
import { MemoryBucket } from "./memory-bucket.js";
import { S3Bucket } from "./s3/s3-bucket.js";
import { parseS3Url } from "./s3/s3-location.js";
import { SqliteBucket } from "./sqlite-bucket.js";
import { SqliteBucketReader } from "./sqlite-bucket-reader.js";
import { type SqliteLocation, sqliteLocation } from "./sqlite-location.js";

const SCHEMES = ["sqlite", "memory", "s3"] as const;
const FORMS = "a bucket is sqlite:PATH, s3://BUCKET/PREFIX or memory:";

/**
 * The bucket named by `url`, not started yet. A relative path is taken from the working directory.
 * @throws MoonportError `bad_option`
 */
export function openBucket(url: string, world: World, settings: Settings): Bucket {
  const { scheme, rest } = partsOf(url);
  switch (scheme) {
    case "sqlite": {
      const { path, isShared } = checkedLocation(url);
      return new SqliteBucket(world, settings, path, { isShared });
    }
    case "memory":
      if (rest !== "") throw badUrl(url, "memory: takes nothing after the colon");
      return new MemoryBucket(world, { timeoutMs: settings.BUCKET_TIMEOUT_MS });
    case "s3":
      return new S3Bucket(world, settings, parseS3Url(url));
  }
}

/**
 * The bucket named by `url`, not started yet, to be read and nothing else: it makes no file, sweeps nothing away, and may be used
 * beside the node whose bucket it is.
 * @throws MoonportError `bad_option`, for `memory:` too, which no other process can read
 */
export function openBucketReader(url: string, world: World, settings: Settings): BucketReader {
  switch (partsOf(url).scheme) {
    case "sqlite":
      return new SqliteBucketReader(world, settings, checkedLocation(url).path);
    case "memory":
      throw badUrl(url, "what another process keeps in memory cannot be read");
    case "s3":
      // Uploads that a dead node left are given up when they are stale; to a reader none ever is.
      return new S3Bucket(world, { ...settings, BUCKET_UPLOAD_STALE_MS: Number.POSITIVE_INFINITY }, parseS3Url(url));
  }
}

function partsOf(url: string): { readonly scheme: (typeof SCHEMES)[number]; readonly rest: string } {
  const colon = url.indexOf(":");
  const scheme = colon < 0 ? url : url.slice(0, colon);
  if (colon < 0 || !isScheme(scheme)) throw unknownScheme(url, scheme);
  return { scheme, rest: url.slice(colon + 1) };
}

function checkedLocation(url: string): SqliteLocation {
  const location = sqliteLocation(url);
  const path = location?.path ?? "";
  if (location === undefined || path === "") throw badUrl(url, "sqlite: needs the path of a file");
  if (path === ":memory:" || path.startsWith("//")) {
    throw badUrl(url, "sqlite: takes a plain path, absolute or relative");
  }
  if (path.includes("\0")) throw badUrl(url, "a path holds no NUL");
  return location;
}

function isScheme(scheme: string): scheme is (typeof SCHEMES)[number] {
  return SCHEMES.some((known) => known === scheme);
}

function badUrl(url: string, reason: string): MoonportError {
  // A URL may carry a secret before its host.
  const shown = url.replace(/\/\/[^@/]*@/, "//...@");
  return MoonportError.of("bad_option", `bucket "${shown}": ${reason}`, { hint: FORMS });
}

function unknownScheme(url: string, scheme: string): MoonportError {
  const guess = nearest(scheme, SCHEMES);
  const reason = `there is no kind of bucket called "${scheme}"`;
  if (guess) return MoonportError.of("bad_option", reason, { hint: `did you mean ${guess}:? ${FORMS}` });
  // A path that lacks its scheme; whatever has another one may hold a secret, and is not repeated.
  const path = /[\\/.]/.test(url) && !url.includes("://");
  return MoonportError.of("bad_option", reason, { hint: path ? `did you mean sqlite:${url}? ${FORMS}` : FORMS });
}
