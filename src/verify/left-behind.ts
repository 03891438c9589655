/**
 * Bodies of one object that its manifest does not name: what those take that nobody needs, and which somebody may yet name.
 * What was left behind since its oldest past manifest stood is kept for the past.
 */
import type { BucketReader } from "../bucket/bucket.js";
import { isOwn, MoonportError } from "../errors.js";
import { type ObjectKeys, parseBodyKey } from "../shipping/layout.js";
import { decodeManifest, type Manifest } from "../shipping/manifest.js";
import { pastIn } from "../shipping/retention.js";
import { bodyKeysOf, isLeftBehind } from "../shipping/sweep.js";

/** Past manifests that are tried, from the oldest on. */
const READINGS_MAX = 5;

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
  const unnamed = bodies.filter((key) => !named.has(key));
  const found = { bodies: 0, bytes: 0, underWay: 0 };
  if (unnamed.length === 0) return found;
  const oldest = await oldestOf(bucket, keys, standing);
  const kept = new Set(oldest && bodyKeysOf(keys, oldest));
  for (const key of unnamed) {
    const body = parseBodyKey(key);
    if (body === undefined) continue;
    if (!isLeftBehind(body, standing)) found.underWay++;
    if (oldest === undefined || !isLeftBehind(body, oldest) || kept.has(key)) continue;
    const size = await sizeOf(bucket, key);
    if (size === "gone") continue;
    found.bodies++;
    if (typeof size === "number") found.bytes += size;
  }
  return found;
}

/**
 * Its oldest past manifest, or the one that stands; nothing where the bucket does not give it. One that is damaged, or went
 * meanwhile, is passed over: what it alone names then counts as left behind.
 */
async function oldestOf(bucket: BucketReader, keys: ObjectKeys, standing: Manifest): Promise<Manifest | undefined> {
  const listed = await bucket.list(keys.past, { limit: READINGS_MAX });
  for (const { key } of pastIn(listed.keys)) {
    try {
      const found = await bucket.get(key);
      if (found !== undefined) return decodeManifest(standing.object, found.bytes);
    } catch (error) {
      if (!(error instanceof MoonportError)) throw error;
      if (isOwn(error, "bucket_failed")) return undefined;
    }
  }
  return standing;
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
    if (isOwn(error, "bucket_failed")) return "unknown";
    throw error;
  }
}
