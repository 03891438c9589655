/** A bucket that outlives its nodes: one that stops takes its bucket with it, this one is there for the next. */
import type { Bucket } from "../bucket/bucket.js";

/** @param bucket is started and stopped by whoever made it */
export function lastingBucket(bucket: Bucket): Bucket {
  const lasting: Bucket = {
    name: bucket.name,
    atomic: bucket.atomic,
    bulk: bucket.bulk,
    marks: bucket.marks,
    ...(bucket.hintFor !== undefined && { hintFor: (check) => bucket.hintFor?.(check) }),
    start: async () => {},
    stop: async () => {},
    get: (key) => bucket.get(key),
    write: (writes, hint) => bucket.write(writes, hint),
    writeStream: (key, parts) => bucket.writeStream(key, parts),
    readStream: (key) => bucket.readStream(key),
    list: (prefix, options) => bucket.list(prefix, options),
    delete: (keys) => bucket.delete(keys),
  };
  // They go on counting; a bucket that counts none has no such member.
  if (bucket.requests !== undefined) Object.defineProperty(lasting, "requests", { get: () => bucket.requests });
  return lasting;
}
