/**
 * The way of an object's flights into the bucket: the body first, then the manifest that names it, by compare-and-swap
 * under the owner's epoch (S3). Where the bucket is atomic both go in one transaction.
 *
 * One load is in the air at a time. Its manifest is made once, so that every try of it carries the same random id.
 */
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { Logger } from "../world/logger.js";
import { uuidv7, type World } from "../world/world.js";
import { type CasResult, tryCas } from "./cas.js";
import type { Claim } from "./claims.js";
import { parseBodyKey } from "./layout.js";
import { decodeManifest, encodeManifest, type Manifest, tombstone, withSegment, withSnapshot } from "./manifest.js";
import type { ObjectLoad } from "./object-load.js";
import type { Leg, LegResult } from "./shipper.js";

interface Prepared {
  readonly load: ObjectLoad;
  readonly next: Manifest;
  readonly bytes: Uint8Array;
}

export class BucketLeg implements Leg<ObjectLoad> {
  readonly #world: World;
  readonly #bucket: Bucket;
  readonly #claim: Claim;
  readonly #log: Logger;
  /** The load under way once its body stands in the bucket (or will travel beside the manifest). */
  #prepared: Prepared | undefined;

  constructor(world: World, bucket: Bucket, claim: Claim, log: Logger) {
    this.#world = world;
    this.#bucket = bucket;
    this.#claim = claim;
    this.#log = log;
  }

  async land(load: ObjectLoad): Promise<LegResult> {
    if (this.#prepared?.load !== load) {
      await this.#writeBodyApart(load);
      const next = this.#manifestAfter(load);
      this.#prepared = { load, next, bytes: encodeManifest(next) };
    }
    const { next, bytes } = this.#prepared;
    const result = await tryCas(this.#bucket, {
      key: this.#claim.keys.manifest,
      bytes,
      replaces: this.#claim.version,
      isOurs: (found) => decodeManifest(this.#claim.object.id, found).rid === next.rid,
      beside: this.#bodyBeside(load),
    });
    this.#prepared = undefined;
    if (load.carried === "snapshot") load.release();
    if (result.kind === "lost") return { kind: "lost", error: this.#lostTo(result) };
    this.#claim.advance(next, result.version);
    if (load.carried !== "segment") void this.#collect(next);
    return { kind: "landed" };
  }

  /** What cannot or need not travel in the manifest's own transaction. Repeating it writes the same bytes again. */
  async #writeBodyApart(load: ObjectLoad): Promise<void> {
    if (load.carried === "tombstone") return;
    const key = this.#bodyKey(load);
    if (load.carried === "snapshot" && load.body.kind === "stream") {
      await this.#bucket.writeStream(key, load.body.parts());
    } else if (!this.#bucket.atomic) {
      const outcome = await this.#bucket.write([{ key, bytes: wholeBody(load) }]);
      if (outcome.kind === "lost") throw MoonportError.of("internal", `an unconditional write of ${key} was refused`);
    }
  }

  #bodyBeside(load: ObjectLoad): { key: string; bytes: Uint8Array }[] {
    const streamed = load.carried === "snapshot" && load.body.kind === "stream";
    if (!this.#bucket.atomic || load.carried === "tombstone" || streamed) return [];
    return [{ key: this.#bodyKey(load), bytes: wholeBody(load) }];
  }

  #bodyKey(load: ObjectLoad): string {
    const { keys, manifest } = this.#claim;
    if (load.carried === "segment") return keys.segment(load.entry);
    return keys.snapshot({ epoch: manifest.epoch, seq: load.toSeq });
  }

  #manifestAfter(load: ObjectLoad): Manifest {
    const { manifest } = this.#claim;
    const rid = uuidv7(this.#world);
    if (load.carried === "segment") return withSegment(manifest, load.entry, load.position, rid);
    if (load.carried === "tombstone") return tombstone(manifest, load.toSeq, rid);
    const position = load.position();
    const bytes = position.pages * position.pageSize;
    return withSnapshot(manifest, { epoch: manifest.epoch, seq: load.toSeq, bytes }, position, rid);
  }

  #lostTo(result: Extract<CasResult, { kind: "lost" }>): MoonportError {
    const { object, manifest } = this.#claim;
    const winner = result.current && decodeManifest(object.id, result.current.bytes);
    return MoonportError.of("moved", `${object.id} was claimed by another node`, {
      object: object.id,
      details: { epoch: manifest.epoch, winningEpoch: winner?.epoch ?? 0 },
    });
  }

  /**
   * Deletes what stands under the object but is no longer named: superseded history, and bodies whose manifest never
   * came. Newer epochs and seqs beyond this manifest are left alone, for they may be flights under way. A failure costs
   * space, never data, and is made good by the next snapshot.
   */
  async #collect(landed: Manifest): Promise<void> {
    const { keys, object } = this.#claim;
    const named = new Set(this.#bodyKeys(landed));
    try {
      for (let page = await this.#bucket.list(keys.prefix); ; ) {
        const surplus = page.keys.filter((key) => !named.has(key) && isSuperseded(key, landed));
        if (surplus.length > 0) await this.#bucket.delete(surplus);
        if (page.next === undefined) return;
        page = await this.#bucket.list(keys.prefix, { after: page.next });
      }
    } catch (error) {
      const fields = { object: object.id, error: (error as Error).message };
      this.#log.warn(fields, "superseded history could not be deleted and stays in the bucket for now");
    }
  }

  #bodyKeys(manifest: Manifest): string[] {
    const { keys } = this.#claim;
    const segments = manifest.segments.map((segment) => keys.segment(segment));
    return manifest.snapshot === undefined ? segments : [keys.snapshot(manifest.snapshot), ...segments];
  }
}

function isSuperseded(key: string, landed: Manifest): boolean {
  const body = parseBodyKey(key);
  return body !== undefined && body.epoch <= landed.epoch && body.toSeq <= landed.seq;
}

function wholeBody(load: Exclude<ObjectLoad, { carried: "tombstone" }>): Uint8Array {
  if (load.carried === "segment") return load.body;
  if (load.body.kind === "whole") return load.body.bytes;
  throw MoonportError.of("internal", "a streamed snapshot has no whole body");
}
