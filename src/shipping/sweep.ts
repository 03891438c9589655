/**
 * One object's keys looked through for what nobody needs any more: past manifests older than retention, and bodies that were
 * left behind when the horizon stood (retention.ts).
 *
 * Anybody may do it who has read one of the object's manifests: what was left behind when that stood is never named again.
 */
import type { Bucket, ListPage } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { faultPoint } from "../world/fault-point.js";
import { type BodyName, type ObjectKeys, parseBodyKey } from "./layout.js";
import { decodeManifest, type Manifest } from "./manifest.js";
import { type Horizon, horizonOf, pastIn } from "./retention.js";

/** Pages of a listing that one step looks through at most. */
const PAGES_MAX = 8;

/** The keys of all bodies that the manifest names; what travels inside it has none. */
export function bodyKeysOf(keys: ObjectKeys, { snapshot, segments }: Manifest): string[] {
  const beside = segments.filter(({ body }) => body === undefined).map((segment) => keys.segment(segment));
  return snapshot === undefined ? beside : [keys.snapshot(snapshot), ...beside];
}

/**
 * Whether a body that `standing` does not name will never be named.
 *
 * Of an older epoch: the write that would name it has a version for its condition at which the manifest stood before the
 * object was claimed from its writer. Of the same epoch, and not beyond what is covered: its owner sends one load at a time
 * and seqs grow, so the manifest has moved on since. Anything else may be of a flight under way, or of a newer owner.
 */
export function isLeftBehind(body: BodyName, standing: Pick<Manifest, "epoch" | "seq">): boolean {
  return body.epoch < standing.epoch || (body.epoch === standing.epoch && body.toSeq <= standing.seq);
}

export interface SweepParts {
  readonly bucket: Bucket;
  readonly object: ObjectIdentity;
  readonly keys: ObjectKeys;
  /** Stands, or stood. */
  readonly landed: Manifest;
  /** Wall clock: how the object was before that is not needed. */
  readonly keptSinceMs: number;
}

export interface Swept {
  /** Where the next step goes on; nothing when all was looked through. */
  readonly next: string | undefined;
  /** There are so many past manifests that some which may go are still there. */
  readonly isPartial: boolean;
}

/**
 * One step.
 * @param after where the one before ended
 * @throws MoonportError `bucket_failed`, `object_corrupt` when the horizon's manifest cannot be read
 */
export async function sweep(parts: SweepParts, after?: string): Promise<Swept> {
  const { bucket, keys, landed, keptSinceMs } = parts;
  // Most objects have no more keys than one listing gives.
  const first = after === undefined ? await bucket.list(keys.prefix) : undefined;
  const whole = first?.next === undefined ? first : undefined;
  const past = whole ?? (await bucket.list(keys.past));
  const { expired, standing, isPartial } = horizonOf(pastIn(past.keys), past.next === undefined, keptSinceMs, landed);
  // They go before what they name, so that whatever is there can be restored.
  await deleteAll(
    bucket,
    expired.map(({ key }) => key),
  );
  if (expired.length > 0) faultPoint("collection.deleted", parts.object.id);
  let page = whole ?? (await bodiesFrom(parts, after));
  for (let pages = 1; ; pages++) {
    await deleteLeftBehind(parts, page.keys, standing);
    if (page.next === undefined || pages === PAGES_MAX) return { next: page.next, isPartial };
    page = await bodiesFrom(parts, page.next);
  }
}

function bodiesFrom({ bucket, keys }: SweepParts, after: string | undefined): Promise<ListPage> {
  return bucket.list(keys.bodies, after === undefined ? {} : { after });
}

async function deleteLeftBehind(
  parts: SweepParts,
  listed: readonly string[],
  standing: Horizon["standing"],
): Promise<void> {
  const { bucket, keys, landed } = parts;
  const left = listed.filter((key) => isLeftBehindKey(key, standing));
  if (left.length === 0) return;
  const named = new Set([landed, await manifestOf(parts, standing)].flatMap((one) => bodyKeysOf(keys, one)));
  await deleteAll(
    bucket,
    left.filter((key) => !named.has(key)),
  );
}

async function manifestOf({ bucket, object }: SweepParts, standing: Horizon["standing"]): Promise<Manifest> {
  if (!("key" in standing)) return standing;
  const found = await bucket.get(standing.key);
  if (found !== undefined) return decodeManifest(object.id, found.bytes);
  throw MoonportError.of("object_corrupt", `${standing.key} was listed and is not in the bucket`, {
    object: object.id,
  });
}

function isLeftBehindKey(key: string, standing: Pick<Manifest, "epoch" | "seq">): boolean {
  const body = parseBodyKey(key);
  return body !== undefined && isLeftBehind(body, standing);
}

async function deleteAll(bucket: Bucket, keys: readonly string[]): Promise<void> {
  if (keys.length > 0) await bucket.delete(keys);
}
