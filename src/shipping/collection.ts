/**
 * What leaves the bucket after a compaction: what of one object no manifest names any more, or ever will, and what is older
 * than retention.
 *
 * With retention, the manifest that a compaction replaces is kept beside the object, as a *past manifest*: it is written ahead
 * of the one that takes its place, or with it ({@link pastBeside}), so whatever names a body less stands before the body may go.
 * Bodies go by a *sweep* (sweep.ts): the object's keys are listed, and what was left behind when the horizon stood is
 * deleted. A listing costs as much as a write on S3, so a sweep comes at the first compaction after the object was taken over,
 * after one that failed, and else at a compaction when an eighth of retention has passed since the last. It lists a bounded
 * number of keys at a time and goes on at the next compaction. Objects that nobody writes to are left to the walk (past-walk.ts).
 *
 * Without retention, what the manifest before named and the one that stands does not is deleted at once, by name, and a sweep
 * comes every COMPACTIONS_PER_SWEEP compactions, for what no manifest ever named: bodies of a flight that was given up, of a
 * node that died, of a stalled writer.
 *
 * A failure costs space, never data.
 */
import type { Bucket } from "../bucket/bucket.js";
import { faultPoint } from "../world/fault-point.js";
import type { Logger } from "../world/logger.js";
import type { World } from "../world/world.js";
import type { Claim } from "./claim.js";
import type { ObjectKeys } from "./layout.js";
import { encodeManifest, hasContent, type Manifest } from "./manifest.js";
import type { ObjectLoad } from "./object-load.js";
import { isSweepDue, keptSince } from "./retention.js";
import { bodyKeysOf, sweep } from "./sweep.js";

/** What `after` no longer names of that which `before`, the manifest it took the place of, did. */
export function supersededKeys(keys: ObjectKeys, before: Manifest, after: Manifest): string[] {
  const named = new Set(bodyKeysOf(keys, after));
  return bodyKeysOf(keys, before).filter((key) => !named.has(key));
}

/** Whether a load makes a manifest that no longer names all that the one before did. */
export function isCompaction(load: ObjectLoad): boolean {
  if (load.carried === "record") return false;
  return load.carried !== "segment" || load.kept !== undefined;
}

/** What is to stand in the bucket before the manifest that the load makes does, so that `before` can be found again. */
export function pastBeside(
  keys: ObjectKeys,
  before: Manifest,
  load: ObjectLoad,
): readonly { readonly key: string; readonly bytes: Uint8Array }[] {
  if (!isCompaction(load) || !hasContent(before)) return [];
  const { seq, epoch } = before;
  const name = { seq, epoch, untilMs: load.cutMs, isEnd: load.carried === "tombstone" };
  return [{ key: keys.pastManifest(name), bytes: encodeManifest(before) }];
}

export class Collector {
  readonly #world: Pick<World, "clock">;
  readonly #bucket: Bucket;
  readonly #claim: Claim;
  readonly #log: Logger;
  readonly #retentionMs: number;
  #isSweeping = false;

  constructor(world: Pick<World, "clock">, bucket: Bucket, claim: Claim, log: Logger, retentionMs: number) {
    this.#world = world;
    this.#bucket = bucket;
    this.#claim = claim;
    this.#log = log;
    this.#retentionMs = retentionMs;
  }

  /** A compaction has landed: `landed` stands in the place of `before`. Never rejects. */
  async collect(before: Manifest, landed: Manifest): Promise<void> {
    const claim = this.#claim;
    faultPoint("collection.begins", claim.object.id);
    try {
      if (this.#isSweepDue()) await this.#sweep(landed);
      else if (this.#retentionMs === 0) await this.#delete(supersededKeys(claim.keys, before, landed));
    } catch (error) {
      claim.nextSweep = { kind: "due" };
      const fields = { object: claim.object.id, error: (error as Error).message };
      this.#log.warn(fields, "superseded history could not be deleted and stays in the bucket for now");
    }
  }

  #isSweepDue(): boolean {
    const { nextSweep } = this.#claim;
    if (nextSweep.kind === "rests") nextSweep.compactions += 1;
    return !this.#isSweeping && isSweepDue(nextSweep, this.#world.clock.monotonicMs(), this.#retentionMs);
  }

  async #sweep(landed: Manifest): Promise<void> {
    this.#isSweeping = true;
    try {
      const { object, keys, nextSweep } = this.#claim;
      const sinceMs = this.#world.clock.monotonicMs();
      const keptSinceMs = keptSince(this.#world.clock.wallMs(), this.#retentionMs);
      const parts = { bucket: this.#bucket, object, keys, landed, keptSinceMs };
      const { next, isPartial } = await sweep(parts, nextSweep.kind === "goes_on" ? nextSweep.after : undefined);
      if (next !== undefined) this.#claim.nextSweep = { kind: "goes_on", after: next };
      else this.#claim.nextSweep = isPartial ? { kind: "due" } : { kind: "rests", sinceMs, compactions: 0 };
    } finally {
      this.#isSweeping = false;
    }
  }

  async #delete(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    await this.#bucket.delete(keys);
    faultPoint("collection.deleted", this.#claim.object.id);
  }
}
