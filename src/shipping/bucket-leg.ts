/**
 * The way of an object's flights into the bucket: the body first, then the manifest that names it, by compare-and-swap
 * under the owner's epoch (S3). Where the bucket is atomic both go in one transaction; where it is not, a small segment
 * travels inside the manifest, which is one request instead of two in a row.
 *
 * One load is in the air at a time. Its manifest is made once, so that every try of it carries the same random id.
 */
import { type ResolvableWrite, type ResolvedWrite, tryWrite } from "../bucket/ambiguous-write.js";
import { type Bucket, mayHaveLanded } from "../bucket/bucket.js";
import type { ReplicaSet } from "../cluster/ownership.js";
import { MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { faultPoint } from "../world/fault-point.js";
import type { Logger } from "../world/logger.js";
import { uuidv7, type World } from "../world/world.js";
import type { Claim } from "./claim.js";
import { Collector, isCompaction, pastBeside } from "./collection.js";
import {
  decodeManifest,
  encodeManifest,
  inlineBytes,
  type Manifest,
  tombstone,
  withReplicas,
  withRid,
  withSegment,
  withSnapshot,
} from "./manifest.js";
import type { ObjectLoad, SegmentLoad, SnapshotBody, SnapshotLoad } from "./object-load.js";
import { type RetentionSettings, retentionMs } from "./retention.js";
import type { Leg, LegResult } from "./shipper.js";

/** A load on its way: its manifest is made once, so that every try carries the same random id. */
interface Attempt {
  readonly load: ObjectLoad;
  readonly next: Manifest;
  readonly write: ResolvableWrite;
  inDoubt: boolean;
}

type BesideWrites = NonNullable<ResolvableWrite["beside"]>;

/** Told of the record as it is written: what a quorum of journals may release depends on it (O2, O3). */
export interface RecordWatch {
  /** Another set that the record of this load is to name. Asked in the tick in which the load was cut. */
  nextSet(load: ObjectLoad): ReplicaSet | undefined;
  /** The record with the other set is about to be sent. */
  setSent(next: Manifest): void;
  /** Known to have won. */
  won(next: Manifest): void;
}

export interface BucketLegOptions {
  readonly watch?: RecordWatch;
  /** What has to be durable before the record names a load; undefined: nothing. A rejection is a failed try. */
  readonly before?: (load: ObjectLoad) => Promise<void> | undefined;
  /** Whether one who waits is all that the node works for. Default: never. */
  readonly isLone?: () => boolean;
}

type InlineSettings = Pick<Settings, "SEGMENT_INLINE_BYTES_MAX" | "MANIFEST_INLINE_BYTES_MAX">;

export class BucketLeg implements Leg<ObjectLoad> {
  readonly #world: World;
  readonly #bucket: Bucket;
  readonly #claim: Claim;
  readonly #collector: Collector;
  readonly #settings: InlineSettings;
  readonly #retentionMs: number;
  readonly #watch: RecordWatch | undefined;
  readonly #before: BucketLegOptions["before"];
  readonly #isLone: BucketLegOptions["isLone"];
  #attempt: Attempt | undefined;

  constructor(
    world: World,
    bucket: Bucket,
    claim: Claim,
    log: Logger,
    settings: InlineSettings & RetentionSettings,
    { watch, before, isLone }: BucketLegOptions = {},
  ) {
    this.#world = world;
    this.#bucket = bucket;
    this.#claim = claim;
    this.#retentionMs = retentionMs(settings, bucket);
    this.#collector = new Collector(world, bucket, claim, log, this.#retentionMs);
    this.#settings = settings;
    this.#watch = watch;
    this.#before = before;
    this.#isLone = isLone;
  }

  async land(load: ObjectLoad, waiting = 0): Promise<LegResult> {
    if (this.#attempt?.load !== load) {
      // No turn is given away otherwise: a record that names another set covers all that is committed when it is made (O3).
      if (isStreamed(load)) await this.#writeStreamed(load);
      this.#attempt = this.#attemptOf(load);
    }
    const attempt = this.#attempt;
    const before = this.#before?.(load);
    if (before !== undefined) await before;
    faultPoint("leg.begins", this.#claim.object.id);
    let result: ResolvedWrite;
    try {
      const isLone = this.#isLone?.() === true && waiting === 1;
      result = await tryWrite(this.#bucket, attempt.write, attempt.inDoubt, { isLone });
    } catch (error) {
      attempt.inDoubt ||= mayHaveLanded(error);
      throw error;
    }
    this.#attempt = undefined;
    if (load.carried === "snapshot") load.release();
    if (result.kind !== "landed") {
      return { kind: "lost", error: this.#lostTo(result), inDoubt: result.kind === "superseded" };
    }
    const replaced = this.#claim.manifest;
    faultPoint("leg.landed", this.#claim.object.id);
    this.#claim.advance(attempt.next, result.version);
    this.#watch?.won(attempt.next);
    if (isCompaction(load)) void this.#collector.collect(replaced, attempt.next);
    return { kind: "landed" };
  }

  #attemptOf(load: ObjectLoad): Attempt {
    const same = this.#manifestAfter(load);
    const set = this.#watch?.nextSet(load);
    const next = set === undefined ? same : withReplicas(same, set);
    if (set !== undefined) this.#watch?.setSent(next);
    const { object, keys, version } = this.#claim;
    const write: ResolvableWrite = {
      key: keys.manifest,
      bytes: encodeManifest(next),
      condition: { version },
      recognise: (found) => decodeManifest(object.id, found).rid === next.rid,
      beside: [...this.#bodyBeside(load, next), ...this.#pastBeside(load)],
    };
    return { load, next, write, inDoubt: false };
  }

  /** A body too large to travel with its manifest goes ahead; repeating it writes the same bytes again. */
  async #writeStreamed(load: StreamedLoad): Promise<void> {
    const key = this.#bodyKey(load);
    await this.#bucket.writeStream(key, load.body.parts());
    faultPoint("leg.bodyWritten", key);
  }

  #bodyBeside(load: ObjectLoad, next: Manifest): BesideWrites {
    if (load.carried === "tombstone" || load.carried === "record") return [];
    if (load.carried === "segment") {
      const isInline = next.segments.at(-1)?.body !== undefined;
      return isInline ? [] : [{ key: this.#bodyKey(load), bytes: load.body }];
    }
    return load.body.kind === "whole" ? [{ key: this.#bodyKey(load), bytes: load.body.bytes }] : [];
  }

  #pastBeside(load: ObjectLoad): BesideWrites {
    const { keys, manifest } = this.#claim;
    return this.#retentionMs === 0 ? [] : pastBeside(keys, manifest, load);
  }

  #bodyKey(load: SegmentLoad | SnapshotLoad): string {
    const { keys, manifest } = this.#claim;
    if (load.carried === "segment") return keys.segment(load.entry);
    return keys.snapshot({ epoch: manifest.epoch, seq: load.toSeq });
  }

  #manifestAfter(load: ObjectLoad): Manifest {
    const { manifest } = this.#claim;
    const rid = uuidv7(this.#world);
    if (load.carried === "segment") {
      const entry = this.#fitsInline(load) ? { ...load.entry, body: load.body } : load.entry;
      return withSegment(manifest, entry, load.position, rid, load.kept);
    }
    if (load.carried === "record") return withRid(manifest, rid);
    if (load.carried === "tombstone") return tombstone(manifest, load.toSeq, load.eventLast, rid, load.usedIds);
    const position = load.position();
    const bytes = position.pages * position.pageSize;
    const { cutMs } = load;
    return withSnapshot(manifest, { epoch: manifest.epoch, seq: load.toSeq, bytes, cutMs }, position, rid);
  }

  #fitsInline({ body, kept }: SegmentLoad): boolean {
    if (this.#bucket.atomic || body.length > this.#settings.SEGMENT_INLINE_BYTES_MAX) return false;
    return inlineBytes(this.#claim.manifest, kept) + body.length <= this.#settings.MANIFEST_INLINE_BYTES_MAX;
  }

  /** Whoever wrote instead of us owns the object now; of what we shipped in doubt the new owner may have all or nothing. */
  #lostTo(result: Exclude<ResolvedWrite, { kind: "landed" }>): MoonportError {
    const { object, manifest } = this.#claim;
    const current = result.kind === "superseded" ? result.current : undefined;
    const winner = current && decodeManifest(object.id, current.bytes);
    return MoonportError.of("moved", `${object.id} was claimed by another node`, {
      object: object.id,
      details: { epoch: manifest.epoch, ...(winner && { winningEpoch: winner.epoch }) },
    });
  }
}

type StreamedLoad = SnapshotLoad & { readonly body: Extract<SnapshotBody, { kind: "stream" }> };

function isStreamed(load: ObjectLoad): load is StreamedLoad {
  return load.carried === "snapshot" && load.body.kind === "stream";
}
