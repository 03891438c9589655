/**
 * Where an app's releases stand in the bucket, and how one is published: its files first, then the record that names them, by
 * compare-and-swap.
 *
 * A bundle's key holds its release's number, and a number is never given twice. So whoever has changed the record knows of
 * every bundle up to its own number which of them are named, and that none of the others ever will be: those are collected.
 */
import { writeResolved } from "../bucket/ambiguous-write.js";
import type { Bucket, Version } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { bundleKey, bundlesPrefix, parseBundleKey, releaseRecordKey } from "../shipping/layout.js";
import type { World } from "../world/world.js";
import { type Bundle, decodeBundle } from "./bundle.js";
import type { Release } from "./contract.js";
import { currentOf, decodeReleaseRecord, encodeReleaseRecord, type ReleaseRecord } from "./record.js";

export interface StandingRecord {
  readonly record: ReleaseRecord;
  readonly version: Version;
}

/** Tries of a reading whose record moves on under it. */
const READINGS_MAX = 3;

export class ReleaseStore {
  readonly #bucket: Bucket;
  readonly #world: Pick<World, "clock" | "timers" | "random">;
  readonly #resolveMs: number;

  /** @param resolveMs how long it may take to learn what became of a write whose answer was lost */
  constructor(bucket: Bucket, world: Pick<World, "clock" | "timers" | "random">, resolveMs: number) {
    this.#bucket = bucket;
    this.#world = world;
    this.#resolveMs = resolveMs;
  }

  /** @throws MoonportError `bucket_failed`, `release_damaged` */
  async read(app: string): Promise<StandingRecord | undefined> {
    const found = await this.#bucket.get(releaseRecordKey(app));
    return found && { record: decodeReleaseRecord(app, found.bytes), version: found.version };
  }

  /** @throws MoonportError `bucket_failed`, `release_damaged` when it is not there or is another */
  async bundle(app: string, release: Pick<Release, "number" | "bundle">): Promise<Bundle> {
    const found = await this.#bucket.get(bundleKey(app, release));
    if (found !== undefined) return decodeBundle(release.bundle, found.bytes);
    throw MoonportError.of("release_damaged", `the files of release ${release.number} of ${app} are not in the bucket`);
  }

  /** The current release with its files; undefined for an app without releases. @throws MoonportError as {@link bundle} */
  async current(app: string): Promise<{ readonly release: Release; readonly bundle: Bundle } | undefined> {
    for (let reading = 1; ; reading++) {
      const standing = await this.read(app);
      if (standing === undefined) return undefined;
      const release = currentOf(standing.record);
      try {
        return { release, bundle: await this.bundle(app, release) };
      } catch (error) {
        // Where many deploy at once it may be old, and collected, by now.
        if (reading === READINGS_MAX) throw error;
      }
    }
  }

  /**
   * Makes `next` the record, if `before` still stands (R1).
   * @returns whether it is; false when another came first
   * @throws MoonportError `bucket_failed`, with outcome `unknown` when it may be the record or become it yet
   */
  async publish(before: StandingRecord | undefined, next: ReleaseRecord, bundle: Bundle): Promise<boolean> {
    const { app } = next;
    const own = currentOf(next);
    const outcome = await writeResolved(
      this.#bucket,
      this.#world,
      {
        key: releaseRecordKey(app),
        bytes: encodeReleaseRecord(next),
        condition: before === undefined ? { absent: true } : { version: before.version },
        recognise: (bytes) => currentOf(decodeReleaseRecord(app, bytes)).id === own.id,
        beside: [{ key: bundleKey(app, own), bytes: bundle.bytes }],
      },
      { untilMs: this.#world.clock.monotonicMs() + this.#resolveMs },
    );
    if (outcome.kind !== "superseded") return outcome.kind === "landed";
    // Others have deployed since: over this one, if it landed.
    const found = outcome.current && decodeReleaseRecord(app, outcome.current.bytes);
    return found?.releases.some(({ id }) => id === own.id) === true;
  }

  /** Deletes what no release is made of any more. @param record as it stands, or stood @throws MoonportError `bucket_failed` */
  async collect(record: ReleaseRecord): Promise<void> {
    const { app, releases } = record;
    const named = new Set(releases.map((release) => bundleKey(app, release)));
    const { number: last } = currentOf(record);
    const { keys } = await this.#bucket.list(bundlesPrefix(app));
    const left = keys.filter((key) => {
      const name = parseBundleKey(key);
      return name !== undefined && name.number <= last && !named.has(key);
    });
    if (left.length > 0) await this.#bucket.delete(left);
  }
}
