/** What every bucket accepts as a key and as a batch, and the order in which it lists keys. */
import { assert, MoonportError } from "../errors.js";
import type { BucketWrite } from "./bucket.js";

/** S3's bound, which the others keep too so that a history can move between them. */
const BUCKET_KEY_BYTES_MAX = 1_024;

/** @throws MoonportError `bad_key` */
export function checkBucketKey(key: string): void {
  const bytes = Buffer.byteLength(key, "utf8");
  if (bytes === 0 || bytes > BUCKET_KEY_BYTES_MAX || !key.isWellFormed()) {
    const shown = key.length > 80 ? `${key.slice(0, 77)}...` : key;
    throw MoonportError.of(
      "bad_key",
      `a bucket key is 1 to ${BUCKET_KEY_BYTES_MAX} bytes of well-formed UTF-8, not "${shown}"`,
    );
  }
}

/** A batch names each key once: two writes of one key in one step have no order that a condition could mean. */
export function checkWrites(writes: readonly BucketWrite[], atomic: boolean): void {
  assert(writes.length > 0, "a bucket write holds at least one key");
  assert(atomic || writes.length === 1, "this bucket takes one write at a time");
  for (const write of writes) checkBucketKey(write.key);
  if (writes.length > 1) {
    assert(new Set(writes.map((write) => write.key)).size === writes.length, "a bucket batch names each key once");
  }
}

/** Ascending order of UTF-8 bytes, which differs from JavaScript's own order where surrogate pairs are involved. */
export function compareUtf8(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left, "utf8"), Buffer.from(right, "utf8"));
}
