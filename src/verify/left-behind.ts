/** Bodies of one object that its manifest does not name: what they take, and which of them somebody may yet name. */
import type { BucketReader } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { bodyKeysOf, isLeftBehind } from "../shipping/collection.js";
import { type ObjectKeys, parseBodyKey } from "../shipping/layout.js";
import type { Manifest } from "../shipping/manifest.js";

export interface LeftBehind {
  /** No manifest will ever name them. */
  readonly bodies: number;
  /** Of those; what the bucket would not give is not in it. */
  readonly bytes: number;
  /** Others: of a flight under way, or of one that was cut off and whose object was not claimed since. */
  readonly underWay: number;
}

/** @param bodies keys of a listing that is older than `standing`, so that what was superseded in between may be gone */
export async function leftBehind(
  bucket: BucketReader,
  keys: ObjectKeys,
  bodies: readonly string[],
  standing: Manifest,
): Promise<LeftBehind> {
  const named = new Set(bodyKeysOf(keys, standing));
  const found = { bodies: 0, bytes: 0, underWay: 0 };
  for (const key of bodies) {
    const body = named.has(key) ? undefined : parseBodyKey(key);
    if (body === undefined) continue;
    const size = isLeftBehind(body, standing) ? await sizeOf(bucket, key) : "under way";
    if (size === "under way") found.underWay++;
    else if (size !== "gone") found.bodies++;
    if (typeof size === "number") found.bytes += size;
  }
  return found;
}

/** A listing has no sizes, so the body is read. */
async function sizeOf(bucket: BucketReader, key: string): Promise<number | "gone" | "unknown"> {
  try {
    const parts = await bucket.readStream(key);
    if (parts === undefined) return "gone";
    let bytes = 0;
    for await (const part of parts) bytes += part.length;
    return bytes;
  } catch (error) {
    if (error instanceof MoonportError && error.code === "bucket_failed") return "unknown";
    throw error;
  }
}
