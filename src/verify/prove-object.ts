/**
 * Proves that one object can be restored, by restoring it: manifest, snapshot and segments become a file, whose seq, size
 * and content must be what the manifest says, and which SQLite must find sound. In the same way, that it can be restored as it
 * was: of a past manifest, all states that it names are on the way to its last.
 *
 * A node may be at work on the object. What fails is believed only if the manifest still stands at the version that was
 * read; else the history moved under the reading, and is read again. Nothing is written but the file, which is removed.
 */
import type { BucketObject, BucketReader } from "../bucket/bucket.js";
import { isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import type { ObjectKeys } from "../shipping/layout.js";
import { decodeManifest, hasContent, type Manifest } from "../shipping/manifest.js";
import { removeLocalFile } from "../shipping/open-file.js";
import { readAhead } from "../shipping/read-ahead.js";
import { DatabaseAssembler } from "../shipping/wal/assemble.js";
import { segmentsOf } from "../shipping/wal/bundle.js";
import { decodeSegment } from "../shipping/wal/segment.js";
import { ObjectDatabase } from "../store/object-database.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";

export interface ProofParts {
  readonly bucket: BucketReader;
  /** Its folder takes the file. */
  readonly world: World;
  readonly settings: Settings;
  /** Of the file, relative to the folder. */
  readonly path: string;
  readonly signal?: AbortSignal;
}

export type Proof =
  | { readonly kind: "restorable"; readonly manifest: Manifest }
  /** It was claimed, and nothing was ever written to it. */
  | { readonly kind: "unwritten"; readonly manifest: Manifest }
  | { readonly kind: "destroyed"; readonly manifest: Manifest }
  | {
      readonly kind: "damaged";
      /** Where the damage is. */
      readonly key: string;
      readonly reason: string;
      /** Absent where it cannot be read. */
      readonly manifest?: Manifest;
    }
  /** The bucket would not give it, or it moved whenever it was read. */
  | { readonly kind: "unread"; readonly reason: string }
  /** Told to stop. */
  | { readonly kind: "stopped" };

interface Gone {
  readonly kind: "gone";
}

interface StandingManifest {
  readonly manifest: Manifest;
  readonly version: string;
}

const READINGS_MAX = 5;
const PAUSE_MS = 100;
const PAUSE_MAX_MS = 2_000;
/** After so many bytes of a snapshot the segments are those of the manifest as it then stands: a hot object has merged meanwhile. */
const LONG_READING_BYTES = 1024 * 1024;

export async function proveObject(parts: ProofParts, object: ObjectIdentity, keys: ObjectKeys): Promise<Proof> {
  const proof = await proved(parts, object, keys, keys.manifest);
  if (proof.kind !== "gone") return proof;
  return { kind: "damaged", key: keys.manifest, reason: "its manifest is not in the bucket" };
}

/** @param key of the past manifest. `gone`: what is older than retention is deleted */
export async function provePast(
  parts: ProofParts,
  object: ObjectIdentity,
  keys: ObjectKeys,
  key: string,
): Promise<Proof | Gone> {
  return await proved(parts, object, keys, key);
}

async function proved(
  parts: ProofParts,
  object: ObjectIdentity,
  keys: ObjectKeys,
  manifestKey: string,
): Promise<Proof | Gone> {
  for (let reading = 1; ; reading++) {
    const outcome = await new Reading(parts, object, keys, manifestKey).run();
    if (outcome.kind === "proof") return outcome.proof;
    if (parts.signal?.aborted === true) return { kind: "stopped" };
    if (reading === READINGS_MAX) return { kind: "unread", reason: outcome.reason };
    if (outcome.kind === "moved") continue;
    const { random } = parts.world;
    await sleep(parts.world, backoffMs(reading, PAUSE_MS, PAUSE_MAX_MS, random.fraction()), parts.signal);
  }
}

type ReadingOutcome =
  | { readonly kind: "proof"; readonly proof: Proof | Gone }
  | { readonly kind: "moved" | "refused"; readonly reason: string };

/** What was read is not what it should be, or was not to be had. `key` says where. */
class Fault extends Error {
  constructor(
    readonly key: string,
    override readonly cause: MoonportError,
  ) {
    super(cause.message);
  }

  /** The bucket answered, and what it holds is wrong; a bucket whose own file is damaged says so with its answer. */
  get isDamage(): boolean {
    return isOwn(this.cause, "object_corrupt") || this.cause.details?.storage === "corrupt";
  }
}

/** Told to stop. */
class Stopped extends Error {}

/** There is no manifest under the key. */
class Absent extends Error {}

/** What was being read is no longer named. */
class Moved extends Error {}

const MOVED = {
  kind: "moved",
  reason: "its history moved whenever it was read: it is compacted all the time",
} as const;

/** One try. */
class Reading {
  readonly #parts: ProofParts;
  readonly #object: ObjectIdentity;
  readonly #keys: ObjectKeys;
  readonly #manifestKey: string;
  /** What is looked at now. */
  #key: string;
  #standing: StandingManifest | undefined;

  constructor(parts: ProofParts, object: ObjectIdentity, keys: ObjectKeys, manifestKey: string) {
    this.#parts = parts;
    this.#object = object;
    this.#keys = keys;
    this.#manifestKey = manifestKey;
    this.#key = manifestKey;
  }

  async run(): Promise<ReadingOutcome> {
    try {
      const { manifest } = await this.#read();
      if (hasContent(manifest)) return proof({ kind: "restorable", manifest: await this.#restore(manifest) });
      if (manifest.pages !== 0) throw this.#corrupt(`it names no content for its ${manifest.pages} pages`);
      return proof({ kind: manifest.destroyed ? "destroyed" : "unwritten", manifest });
    } catch (thrown) {
      if (thrown instanceof Stopped) return proof({ kind: "stopped" });
      if (thrown instanceof Absent) return proof({ kind: "gone" });
      if (thrown instanceof Moved) return MOVED;
      const fault = faultOf(this.#key, thrown);
      if (fault === undefined) throw thrown;
      return await this.#judged(fault);
    } finally {
      removeLocalFile(this.#parts.world, this.#parts.path);
    }
  }

  /** What a failure means: nothing, if the manifest has moved since it was read. */
  async #judged({ key, message, isDamage }: Fault): Promise<ReadingOutcome> {
    const standing = this.#standing;
    if (standing === undefined) {
      return isDamage ? proof({ kind: "damaged", key, reason: message }) : { kind: "refused", reason: message };
    }
    if (!isDamage) return { kind: "refused", reason: message };
    try {
      if ((await this.#get())?.version !== standing.version) return MOVED;
    } catch (error) {
      if (isRefusal(error)) return { kind: "refused", reason: (error as Error).message };
      throw error;
    }
    return proof({ kind: "damaged", key, reason: message, manifest: standing.manifest });
  }

  async #read(): Promise<StandingManifest> {
    this.#key = this.#manifestKey;
    this.#standing = undefined;
    const found = await this.#get();
    if (found === undefined) throw new Absent();
    this.#standing = { manifest: decodeManifest(this.#object.id, found.bytes), version: found.version };
    return this.#standing;
  }

  #get(): Promise<BucketObject | undefined> {
    return this.#parts.bucket.get(this.#manifestKey);
  }

  /** @returns the manifest whose content the file had */
  async #restore(manifest: Manifest): Promise<Manifest> {
    const { world, path, settings } = this.#parts;
    const { id } = this.#object;
    const assembler = new DatabaseAssembler(world.folder, path, { object: id, pageSize: manifest.pageSize });
    let restored: Manifest;
    try {
      restored = await this.#assemble(assembler, manifest);
    } catch (error) {
      assembler.abort();
      throw error;
    }
    this.#key = this.#manifestKey;
    const database = ObjectDatabase.open(world.folder, path, settings, { mustExist: true });
    try {
      database.verify();
    } finally {
      database.close();
    }
    return restored;
  }

  async #assemble(assembler: DatabaseAssembler, first: Manifest): Promise<Manifest> {
    const manifest = await this.#addBase(assembler, first);
    const bodies = readAhead(manifest.segments, async (segment) => segment.body ?? this.#body(segment));
    for await (const { of: segment, value } of bodies) {
      this.#goOn();
      this.#key = segment.body === undefined ? this.#keys.segment(segment) : this.#manifestKey;
      if (value === undefined) throw this.#missing();
      if (segment === manifest.segments[0]) this.#checkBase(assembler, manifest, value);
      assembler.addSegment(value);
    }
    const { snapshot, segments } = manifest;
    // What all segments agree with cannot be the snapshot's fault.
    const isSnapshotAlone = snapshot !== undefined && segments.length === 0;
    this.#key = isSnapshotAlone ? this.#keys.snapshot(snapshot) : this.#manifestKey;
    assembler.finish(manifest);
    return manifest;
  }

  /** @returns the manifest whose segments follow */
  async #addBase(assembler: DatabaseAssembler, manifest: Manifest): Promise<Manifest> {
    const { snapshot } = manifest;
    if (snapshot === undefined) {
      assembler.startEmpty((manifest.segments[0]?.fromSeq ?? 1) - 1);
      return manifest;
    }
    this.#key = this.#keys.snapshot(snapshot);
    const parts = await this.#parts.bucket.readStream(this.#key);
    if (parts === undefined) throw this.#missing();
    for await (const part of parts) {
      this.#goOn();
      assembler.addSnapshotPart(part);
    }
    assembler.endSnapshot(snapshot);
    if (snapshot.bytes < LONG_READING_BYTES) return manifest;
    const { manifest: now } = await this.#read();
    if (now.snapshot?.epoch === snapshot.epoch && now.snapshot.seq === snapshot.seq) return now;
    throw new Moved();
  }

  /** A snapshot has no checksum of its own: a sound segment that was made over another content shows that it is the damaged one. */
  #checkBase(assembler: DatabaseAssembler, { snapshot }: Manifest, first: Uint8Array): void {
    const { fromSeq, identityBefore } = decodeSegment(
      segmentsOf(first)[0] as Uint8Array,
      "the first segment behind it",
    );
    if (snapshot?.seq !== fromSeq - 1 || identityBefore === assembler.identity) return;
    this.#key = this.#keys.snapshot(snapshot);
    throw this.#corrupt(`its content is ${assembler.identity}, and what follows was made over ${identityBefore}`);
  }

  async #body(segment: Manifest["segments"][number]): Promise<Uint8Array | undefined> {
    return (await this.#parts.bucket.get(this.#keys.segment(segment)))?.bytes;
  }

  #goOn(): void {
    if (this.#parts.signal?.aborted === true) throw new Stopped();
  }

  #missing(): MoonportError {
    return this.#corrupt("it is named by the manifest and not in the bucket");
  }

  #corrupt(what: string): MoonportError {
    return MoonportError.of("object_corrupt", what, { object: this.#object.id });
  }
}

function proof(found: Proof | Gone): ReadingOutcome {
  return { kind: "proof", proof: found };
}

/** Nothing for what says nothing of the bucket: the disk that takes the file is full, say. */
function faultOf(key: string, thrown: unknown): Fault | undefined {
  if (!(thrown instanceof MoonportError)) return undefined;
  return isRefusal(thrown) || isOwn(thrown, "object_corrupt") ? new Fault(key, thrown) : undefined;
}

function isRefusal(error: unknown): boolean {
  return isOwn(error, "bucket_failed");
}
