/**
 * The objects that this session owns, and where each stands in the bucket.
 *
 * A claim is taken by compare-and-swap under a higher epoch (E1) and stays with the session after the object left memory,
 * so that waking it again costs no bucket request. Manifests kept for objects that are not resident are bounded; a
 * forgotten one is read again and recognised by the session that wrote it.
 */
import { type ResolvableWrite, type ResolvedWrite, writeResolved } from "../bucket/ambiguous-write.js";
import type { Bucket, BucketObject, Version } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { uuidv7, type World } from "../world/world.js";
import { ObjectKeys } from "./layout.js";
import { claimed, decodeManifest, encodeManifest, firstManifest, inlineBytes, type Manifest } from "./manifest.js";
import type { NextSweep } from "./retention.js";

/** One owned object's record, as this session last wrote it. Only the object's leg changes it. */
export class Claim {
  readonly object: ObjectIdentity;
  readonly keys: ObjectKeys;
  nextSweep: NextSweep = { kind: "due" };
  #manifest: Manifest;
  #version: Version;
  #inlineBytes: number;

  constructor(object: ObjectIdentity, manifest: Manifest, version: Version) {
    this.object = object;
    this.keys = new ObjectKeys(object);
    this.#manifest = manifest;
    this.#version = version;
    this.#inlineBytes = inlineBytes(manifest);
  }

  /** What the record holds of segments, bytes. */
  get inlineBytes(): number {
    return this.#inlineBytes;
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  get version(): Version {
    return this.#version;
  }

  advance(manifest: Manifest, version: Version): void {
    this.#manifest = manifest;
    this.#version = version;
    this.#inlineBytes = inlineBytes(manifest);
  }
}

type ClaimSettings = Pick<
  Settings,
  | "OBJECT_SHIP_BACKOFF_MS"
  | "OBJECT_SHIP_BACKOFF_MAX_MS"
  | "OBJECT_ACK_GATE_MS"
  | "NODE_CLAIMS_MAX"
  | "NODE_CLAIMS_BYTES_MAX"
>;

/** Races lost in a row after which a claim gives up: another owner is alive and keeps writing. */
const RACES_MAX = 3;
/** Peeks remembered for the claim that follows. */
const PEEKED_MAX = 256;

export class Claims {
  readonly #world: World;
  readonly #bucket: Bucket;
  readonly #session: string;
  readonly #settings: ClaimSettings;
  /** In order of last use, for forgetting. */
  readonly #held = new Map<string, Claim>();
  readonly #peeked = new Map<string, BucketObject>();
  /** Objects that may not be gone on with under the epoch they have. */
  readonly #mustRaise = new Set<string>();

  constructor(world: World, bucket: Bucket, session: string, settings: ClaimSettings) {
    this.#world = world;
    this.#bucket = bucket;
    this.#session = session;
    this.#settings = settings;
  }

  /** The claim if this session holds it in memory; no request. */
  held(object: ObjectIdentity): Claim | undefined {
    return this.#held.get(object.id);
  }

  /**
   * Makes the object this session's.
   * @throws MoonportError `moved` when another owner keeps winning, `bucket_failed` when the bucket keeps failing (nothing
   * is known then; trying again is safe), `object_corrupt`
   */
  async claim(object: ObjectIdentity): Promise<Claim> {
    const known = this.#held.get(object.id);
    if (known !== undefined && !known.manifest.destroyed) return this.#remember(known);
    for (let race = 0; race < RACES_MAX; race++) {
      const won = await this.#tryClaim(object);
      if (won !== undefined) return this.#remember(won);
    }
    throw MoonportError.of("moved", `another node keeps claiming ${object.id}`, { object: object.id });
  }

  /** The record as it stands, without claiming; undefined when the key was never written. */
  async peek(object: ObjectIdentity): Promise<Manifest | undefined> {
    const known = this.#held.get(object.id);
    if (known !== undefined) return known.manifest;
    const found = await this.#bucket.get(new ObjectKeys(object).manifest);
    if (this.#peeked.size >= PEEKED_MAX) this.#peeked.clear();
    if (found !== undefined) this.#peeked.set(object.id, found);
    return found && decodeManifest(object.id, found.bytes);
  }

  /**
   * Ownership was lost, or a flight was given up in doubt: the next claim reads the bucket and raises the epoch, even if this
   * session still owns the object. What was given up may land yet; under the old epoch it then meets nothing that counts.
   */
  forget(object: ObjectIdentity): void {
    this.#held.delete(object.id);
    this.#mustRaise.add(object.id);
  }

  async #tryClaim(object: ObjectIdentity): Promise<Claim | undefined> {
    const keys = new ObjectKeys(object);
    const found = this.#takePeeked(object) ?? (await this.#bucket.get(keys.manifest));
    const rid = uuidv7(this.#world);
    const before = found && decodeManifest(object.id, found.bytes);
    const isOurs = before?.owner === this.#session && !before.destroyed && !this.#mustRaise.has(object.id);
    if (found && before && isOurs) return new Claim(object, before, found.version);
    const next = before ? claimed(before, this.#session, rid) : firstManifest(object.id, this.#session, rid);
    const write: ResolvableWrite = {
      key: keys.manifest,
      bytes: encodeManifest(next),
      condition: found === undefined ? { absent: true } : { version: found.version },
      recognise: (bytes) => decodeManifest(object.id, bytes).rid === rid,
    };
    const result = await this.#untilResolved(write);
    if (result.kind !== "landed") return undefined;
    this.#mustRaise.delete(object.id);
    const claim = new Claim(object, next, result.version);
    // Nobody can have left anything under a key that was never written.
    if (before === undefined) {
      claim.nextSweep = { kind: "rests", sinceMs: this.#world.clock.monotonicMs(), compactions: 0 };
    }
    return claim;
  }

  /**
   * A claim mostly follows a peek. One that is out of date loses its compare-and-swap and reads again; but one that names
   * this session would be adopted without any, so only a fresh reading may.
   */
  #takePeeked(object: ObjectIdentity): BucketObject | undefined {
    const peeked = this.#peeked.get(object.id);
    this.#peeked.delete(object.id);
    return peeked && decodeManifest(object.id, peeked.bytes).owner !== this.#session ? peeked : undefined;
  }

  #untilResolved(write: ResolvableWrite): Promise<ResolvedWrite> {
    const { OBJECT_SHIP_BACKOFF_MS, OBJECT_SHIP_BACKOFF_MAX_MS, OBJECT_ACK_GATE_MS } = this.#settings;
    return writeResolved(this.#bucket, this.#world, write, {
      untilMs: this.#world.clock.monotonicMs() + OBJECT_ACK_GATE_MS,
      firstPauseMs: OBJECT_SHIP_BACKOFF_MS,
      pauseMaxMs: OBJECT_SHIP_BACKOFF_MAX_MS,
    });
  }

  #remember(claim: Claim): Claim {
    this.#held.delete(claim.object.id);
    this.#held.set(claim.object.id, claim);
    return claim;
  }

  /** Drops the claims longest unused beyond NODE_CLAIMS_MAX and NODE_CLAIMS_BYTES_MAX, sparing those that `inUse` names. */
  trim(inUse: (id: string) => boolean): void {
    let surplus = this.#held.size - this.#settings.NODE_CLAIMS_MAX;
    let surplusBytes = -this.#settings.NODE_CLAIMS_BYTES_MAX;
    for (const claim of this.#held.values()) surplusBytes += claim.inlineBytes;
    for (const [id, claim] of this.#held) {
      if (surplus <= 0 && surplusBytes <= 0) return;
      if (inUse(id) || (surplus <= 0 && claim.inlineBytes === 0)) continue;
      this.#held.delete(id);
      surplus--;
      surplusBytes -= claim.inlineBytes;
    }
  }
}
