/**
 * What leaves the bucket after a compaction: what of one object no manifest names any more, or ever will, and what is older
 * than retention.
 *
 * With retention, the manifest that a compaction replaces is kept beside the object, as a *past manifest*: it is written ahead
 * of the one that takes its place, or with it ({@link pastBeside}), so whatever names a body less stands before the body may go.
 * Bodies go by a *sweep*: the object's keys are listed, and what was left behind when the horizon stood (retention.ts) is
 * deleted. A listing costs as much as a write on S3, so a sweep comes at the first compaction after the object was taken over,
 * after one that failed, and else at a compaction when an eighth of retention has passed since the last. It lists a bounded
 * number of keys at a time and goes on at the next compaction.
 *
 * Without retention, what the manifest before named and the one that stands does not is deleted at once, by name, and a sweep
 * comes every COMPACTIONS_PER_SWEEP compactions, for what no manifest ever named: bodies of a flight that was given up, of a
 * node that died, of a stalled writer.
 *
 * Nothing that a manifest may yet name is deleted ({@link isLeftBehind}). A failure costs space, never data.
 */
import type { Bucket, ListPage } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { Logger } from "../world/logger.js";
import type { World } from "../world/world.js";
import type { Claim } from "./claims.js";
import { type BodyName, type ObjectKeys, parseBodyKey } from "./layout.js";
import { decodeManifest, encodeManifest, hasContent, type Manifest } from "./manifest.js";
import type { ObjectLoad } from "./object-load.js";
import { type Horizon, horizonOf, isSweepDue, MARGIN_MS, type NextSweep, pastIn } from "./retention.js";

/** Pages of a listing that one compaction looks through at most. */
const SWEEP_PAGES_MAX = 8;

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
      this.#claim.nextSweep = await this.#lookThrough(landed);
    } finally {
      this.#isSweeping = false;
    }
  }

  /** A part of the object's keys. */
  async #lookThrough(landed: Manifest): Promise<NextSweep> {
    const { keys, nextSweep } = this.#claim;
    const sinceMs = this.#world.clock.monotonicMs();
    const after = nextSweep.kind === "goes_on" ? nextSweep.after : undefined;
    // Most objects have no more keys than one listing gives.
    const first = after === undefined ? await this.#bucket.list(keys.prefix) : undefined;
    const whole = first?.next === undefined ? first : undefined;
    const past = whole ?? (await this.#bucket.list(keys.past));
    const horizon = horizonOf(pastIn(past.keys), past.next === undefined, this.#keptSinceMs(), landed);
    // They go before what they name, so that whatever is there can be restored.
    await this.#delete(horizon.expired.map(({ key }) => key));
    let page = whole ?? (await this.#bodies(after));
    for (let pages = 1; ; pages++) {
      await this.#deleteLeftBehind(page.keys, horizon.standing, landed);
      if (page.next === undefined) break;
      if (pages === SWEEP_PAGES_MAX) return { kind: "goes_on", after: page.next };
      page = await this.#bodies(page.next);
    }
    return horizon.isPartial ? { kind: "due" } : { kind: "rests", sinceMs, compactions: 0 };
  }

  #bodies(after: string | undefined): Promise<ListPage> {
    return this.#bucket.list(this.#claim.keys.bodies, after === undefined ? {} : { after });
  }

  async #deleteLeftBehind(listed: readonly string[], standing: Horizon["standing"], landed: Manifest): Promise<void> {
    const left = listed.filter((key) => isLeftBehindKey(key, standing));
    if (left.length === 0) return;
    const { keys } = this.#claim;
    const named = new Set([landed, await this.#manifestOf(standing)].flatMap((one) => bodyKeysOf(keys, one)));
    await this.#delete(left.filter((key) => !named.has(key)));
  }

  async #manifestOf(standing: Horizon["standing"]): Promise<Manifest> {
    if (!("key" in standing)) return standing;
    const { id } = this.#claim.object;
    const found = await this.#bucket.get(standing.key);
    if (found !== undefined) return decodeManifest(id, found.bytes);
    throw MoonportError.of("object_corrupt", `${standing.key} was listed and is not in the bucket`, { object: id });
  }

  #keptSinceMs(): number {
    // What was kept before retention was turned off goes as well.
    if (this.#retentionMs === 0) return Number.POSITIVE_INFINITY;
    return this.#world.clock.wallMs() - this.#retentionMs - MARGIN_MS;
  }

  async #delete(keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.#bucket.delete(keys);
  }
}

function isLeftBehindKey(key: string, standing: Pick<Manifest, "epoch" | "seq">): boolean {
  const body = parseBodyKey(key);
  return body !== undefined && isLeftBehind(body, standing);
}
