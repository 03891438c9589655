/**
 * What leaves the bucket after a compaction: the bodies of one object that no manifest names any more, or ever will.
 *
 * What the manifest before named and the one that stands does not is deleted by name. A body that no manifest ever named (of
 * a flight that was given up, of a node that died, or what a deletion that failed left) is found only by listing the object's
 * keys, and a listing costs as much as a write on S3. So that happens at the first compaction after the object was taken
 * over, after a deletion failed, and every {@link LISTING_EVERY} compactions, for what a stalled writer put down later.
 *
 * Nothing that a manifest may yet name is deleted ({@link isLeftBehind}). A failure costs space, never data.
 */
import type { Bucket } from "../bucket/bucket.js";
import type { Logger } from "../world/logger.js";
import type { Claim } from "./claims.js";
import { type BodyName, type ObjectKeys, parseBodyKey } from "./layout.js";
import type { Manifest } from "./manifest.js";

/** A hot object that merges every few dozen flights lists once in some thousands of them. */
export const LISTING_EVERY = 64;

/** The keys of all bodies that the manifest names; what travels inside it has none. */
export function bodyKeysOf(keys: ObjectKeys, { snapshot, segments }: Manifest): string[] {
  const beside = segments.filter(({ body }) => body === undefined).map((segment) => keys.segment(segment));
  return snapshot === undefined ? beside : [keys.snapshot(snapshot), ...beside];
}

/** What `after` no longer names of that which `before`, the manifest it took the place of, did. */
export function supersededKeys(keys: ObjectKeys, before: Manifest, after: Manifest): string[] {
  const named = new Set(bodyKeysOf(keys, after));
  return bodyKeysOf(keys, before).filter((key) => !named.has(key));
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

export class Collector {
  readonly #bucket: Bucket;
  readonly #claim: Claim;
  readonly #log: Logger;

  constructor(bucket: Bucket, claim: Claim, log: Logger) {
    this.#bucket = bucket;
    this.#claim = claim;
    this.#log = log;
  }

  /** A compaction has landed: `landed` stands in the place of `before`. Never rejects. */
  async collect(before: Manifest, landed: Manifest): Promise<void> {
    const { keys, object } = this.#claim;
    try {
      if (this.#isListingDue()) await this.#deleteLeftBehind(landed);
      else await this.#delete(supersededKeys(keys, before, landed));
    } catch (error) {
      this.#claim.compactionsSinceListing = Number.POSITIVE_INFINITY;
      const fields = { object: object.id, error: (error as Error).message };
      this.#log.warn(fields, "superseded history could not be deleted and stays in the bucket for now");
    }
  }

  #isListingDue(): boolean {
    this.#claim.compactionsSinceListing += 1;
    if (this.#claim.compactionsSinceListing <= LISTING_EVERY) return false;
    this.#claim.compactionsSinceListing = 0;
    return true;
  }

  async #deleteLeftBehind(landed: Manifest): Promise<void> {
    const { keys } = this.#claim;
    const named = new Set(bodyKeysOf(keys, landed));
    for (let page = await this.#bucket.list(keys.prefix); ; ) {
      await this.#delete(page.keys.filter((key) => !named.has(key) && isLeftBehindKey(key, landed)));
      if (page.next === undefined) return;
      page = await this.#bucket.list(keys.prefix, { after: page.next });
    }
  }

  async #delete(keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.#bucket.delete(keys);
  }
}

function isLeftBehindKey(key: string, landed: Manifest): boolean {
  const body = parseBodyKey(key);
  return body !== undefined && isLeftBehind(body, landed);
}
