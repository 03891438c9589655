/**
 * The past of objects that nobody writes to, or that were destroyed: no compaction of theirs comes by to delete what is older
 * than retention, so now and then the keys of all objects are walked, a page at a time and slowly.
 *
 * A past manifest's key says until when it stood, so the listing tells which objects are due, and only those are asked for more.
 * One node of a fleet walks at a time: whoever is the first to write in the bucket that it begins.
 */
import type { Bucket, BucketObject, Version } from "../bucket/bucket.js";
import { asMoonportError, isOwn } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { sleep, type Timer, type World } from "../world/world.js";
import { OBJECTS_PREFIX, ObjectKeys, objectOfKey, PAST_WALK_KEY, parsePastKey } from "./layout.js";
import { decodeManifest } from "./manifest.js";
import { keptSince, retentionMs, sweepEveryMs } from "./retention.js";
import { sweep } from "./sweep.js";

/** Not right at a start, when there is much else to ask of the bucket. */
const FIRST_MS = 60_000;
const EVERY_MS_MIN = 60_000;
/** Between two pages. */
const PAUSE_MS = 100;
/** Steps of one object's sweep; what is left is the next walk's. */
const STEPS_MAX = 1_000;

export interface PastWalkParts {
  readonly world: Pick<World, "clock" | "timers" | "log">;
  readonly bucket: Bucket;
  readonly settings: Pick<Settings, "PITR_RETENTION_MS">;
}

export class PastWalk {
  readonly #parts: PastWalkParts;
  readonly #retentionMs: number;
  readonly #everyMs: number;
  readonly #stopped = new AbortController();
  #timer: Timer | undefined;
  /** Of a walk that by this node's clock is yet to begin: what stood when it last looked. */
  #waitsFor: Version | undefined;

  constructor(parts: PastWalkParts) {
    this.#parts = parts;
    this.#retentionMs = retentionMs(parts.settings, parts.bucket);
    this.#everyMs = Math.max(EVERY_MS_MIN, sweepEveryMs(this.#retentionMs));
  }

  /** Without retention nothing is kept that a walk could find. */
  start(): void {
    if (this.#retentionMs > 0) this.#plan(FIRST_MS);
  }

  stop(): void {
    this.#stopped.abort();
    this.#timer?.cancel();
  }

  #plan(delayMs: number): void {
    if (this.#isStopped) return;
    // What it throws beside what it tells is that there is no world any more.
    this.#timer = this.#parts.world.timers.after(delayMs, () => void this.#due().catch(() => {}));
  }

  async #due(): Promise<void> {
    try {
      const waitMs = await this.#begin();
      if (waitMs === 0) await this.#walk();
      this.#plan(waitMs === 0 ? this.#everyMs : waitMs);
    } catch (error) {
      if (this.#isStopped) return;
      this.#parts.world.log.warn(
        { error: (error as Error).message },
        "the past of objects could not be looked through",
      );
      this.#plan(this.#everyMs);
    }
  }

  /** @returns after how long it is due; 0: it is this node's to walk now */
  async #begin(): Promise<number> {
    const { bucket, world } = this.#parts;
    const nowMs = world.clock.wallMs();
    const found = await bucket.get(PAST_WALK_KEY);
    const earlyMs = beganMsIn(found) + this.#everyMs - nowMs;
    if (earlyMs > 0 && !this.#hasWaitedFor(found)) {
      if (earlyMs >= this.#everyMs) this.#waitsFor = found?.version;
      return Math.min(earlyMs, this.#everyMs);
    }
    const bytes = Buffer.from(JSON.stringify({ beganMs: nowMs }), "utf8");
    const condition = found === undefined ? { absent: true as const } : { version: found.version };
    const outcome = await bucket.write([{ key: PAST_WALK_KEY, bytes, condition }]);
    return outcome.kind === "landed" ? 0 : this.#everyMs;
  }

  /** It stands there still, after as long as there is between two walks: it was begun by a clock that was far ahead. */
  #hasWaitedFor(found: BucketObject | undefined): boolean {
    return found !== undefined && found.version === this.#waitsFor;
  }

  async #walk(): Promise<void> {
    const { bucket, world } = this.#parts;
    let last: ObjectIdentity | undefined;
    for (let after: string | undefined; ; ) {
      const page = await bucket.list(OBJECTS_PREFIX, after === undefined ? {} : { after });
      for (const object of this.#dueIn(page.keys)) {
        if (this.#isStopped) return;
        if (object.id !== last?.id) await this.#trySweep(object);
        last = object;
      }
      if (page.next === undefined) return;
      after = page.next;
      await sleep(world, PAUSE_MS, this.#stopped.signal);
      if (this.#isStopped) return;
    }
  }

  /** Objects of which something is older than retention; each may come more than once, in a row. */
  *#dueIn(keys: readonly string[]): Generator<ObjectIdentity> {
    const keptSinceMs = keptSince(this.#parts.world.clock.wallMs(), this.#retentionMs);
    for (const key of keys) {
      const past = parsePastKey(key);
      const object = past !== undefined && past.untilMs < keptSinceMs ? objectNamedBy(key) : undefined;
      if (object !== undefined) yield object;
    }
  }

  /** One object that is damaged keeps none of the others from its turn. @throws MoonportError `bucket_failed` */
  async #trySweep(object: ObjectIdentity): Promise<void> {
    try {
      await this.#sweep(object);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (isOwn(error, "bucket_failed") || this.#isStopped) throw error;
      this.#parts.world.log.warn({ object: object.id, error: error.message }, "its past could not be looked through");
    }
  }

  async #sweep(object: ObjectIdentity): Promise<void> {
    const { bucket, world } = this.#parts;
    const keys = new ObjectKeys(object);
    const found = await bucket.get(keys.manifest);
    if (found === undefined) return;
    const landed = decodeManifest(object.id, found.bytes);
    const keptSinceMs = keptSince(world.clock.wallMs(), this.#retentionMs);
    let after: string | undefined;
    for (let steps = 0; steps < STEPS_MAX && !this.#isStopped; steps++) {
      const { next, isPartial } = await sweep({ bucket, object, keys, landed, keptSinceMs }, after);
      if (next === undefined && !isPartial) return;
      after = next;
      await sleep(world, PAUSE_MS, this.#stopped.signal);
    }
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }
}

/** Nothing for a key that no object can have. */
function objectNamedBy(key: string): ObjectIdentity | undefined {
  try {
    return objectOfKey(key);
  } catch {
    return undefined;
  }
}

function beganMsIn(found: BucketObject | undefined): number {
  if (found === undefined) return Number.NEGATIVE_INFINITY;
  try {
    const { beganMs } = JSON.parse(Buffer.from(found.bytes).toString("utf8")) as { beganMs?: unknown };
    return typeof beganMs === "number" ? beganMs : Number.NEGATIVE_INFINITY;
  } catch {
    return Number.NEGATIVE_INFINITY;
  }
}
