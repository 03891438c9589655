/** Where things stand in the bucket and in the data folder: every key and file name is made here. */
import { createHash } from "node:crypto";
import { identityOf, type ObjectIdentity, partitionOf } from "../identity.js";

export const FLEET_KEY = "fleet.json";
/** When the past of all objects was last looked through. */
export const PAST_WALK_KEY = "past.json";
/** Written by every node to see whether writes land; what stands there means nothing. */
export const PROBE_KEY = "probe.json";

/** A segment's or snapshot's key holds its epoch, so a stale owner writes into a dead prefix (S3). */
export interface SegmentName {
  readonly epoch: number;
  readonly fromSeq: number;
  readonly toSeq: number;
}

export interface SnapshotName {
  readonly epoch: number;
  readonly seq: number;
}

/** A manifest that was replaced by one which no longer names all that it did (history.ts). */
export interface PastName {
  /** Its own. */
  readonly seq: number;
  readonly epoch: number;
  /** Wall clock when what replaced it was cut, milliseconds: until then it was how the object stood. */
  readonly untilMs: number;
  /** What replaced it was a tombstone. */
  readonly isEnd: boolean;
}

/** The bucket keys of one object. */
export class ObjectKeys {
  readonly prefix: string;
  readonly manifest: string;

  constructor(object: ObjectIdentity) {
    const partition = partitionName(object.id);
    this.prefix = `objects/${object.app}/${object.className}/${partition}/${encodeKey(object.key)}/`;
    this.manifest = `${this.prefix}manifest`;
  }

  /** What the keys of its segments and snapshots begin with; no other key does. */
  get bodies(): string {
    return `${this.prefix}e`;
  }

  /** The same of its past manifests. They stand in the order of their seqs. */
  get past(): string {
    return `${this.prefix}past/`;
  }

  segment(name: SegmentName): string {
    return `${this.prefix}e${name.epoch}/${name.fromSeq}-${name.toSeq}.seg`;
  }

  snapshot(name: SnapshotName): string {
    return `${this.prefix}e${name.epoch}/${name.seq}.snap`;
  }

  pastManifest({ seq, epoch, untilMs, isEnd }: PastName): string {
    return `${this.past}${digits(seq, SEQ_DIGITS)}-${digits(epoch, EPOCH_DIGITS)}-${untilMs}${isEnd ? "-end" : ""}`;
  }
}

/** So many that the order of keys is that of numbers: 2^53 has 16 digits. */
const SEQ_DIGITS = 16;
const EPOCH_DIGITS = 10;
const RELEASE_DIGITS = 10;

function digits(value: number, count: number): string {
  return String(value).padStart(count, "0");
}

/**
 * What is known of the stalls of one method of one object. Not under the object's own prefix: a node has to know all of them
 * before it serves anything, in one listing, and the object's keys are its owner's alone to write.
 */
export const POISON_PREFIX = "poison/";

export function poisonKey(object: ObjectIdentity, entry: string): string {
  return `${POISON_PREFIX}${object.app}/${object.className}/${encodeKey(object.key)}/${encodeKey(entry)}`;
}

/** Under it lie large argument lists of delayed commands. */
export const DELAY_PREFIX = "delay/";

export function delayArgumentsKey(shard: number, hash: string): string {
  return `${DELAY_PREFIX}${shard}/${hash}`;
}

/** Under it stand the objects that sessions may owe something, in parts: `owing/<session>/<number>`. */
export const OWING_PREFIX = "owing/";

export function owingPrefix(session: string): string {
  return `${OWING_PREFIX}${session}/`;
}

/** Under it stands what was deployed, by app. */
export const APPS_PREFIX = "apps/";

/** Which releases an app has, and which of them is current. */
export function releaseRecordKey(app: string): string {
  return `${APPS_PREFIX}${app}/release`;
}

/** What the keys of an app's bundles begin with. They stand in the order of their releases' numbers. */
export function bundlesPrefix(app: string): string {
  return `${APPS_PREFIX}${app}/releases/`;
}

/** The files of one release. @param bundle the hash of what stands there */
export function bundleKey(app: string, { number, bundle }: BundleName): string {
  return `${bundlesPrefix(app)}${digits(number, RELEASE_DIGITS)}-${bundle}`;
}

export interface BundleName {
  readonly number: number;
  readonly bundle: string;
}

/** Reads a bundle's key back; undefined for any other key. */
export function parseBundleKey(key: string): BundleName | undefined {
  const [, number, bundle] = /\/releases\/(\d{10})-([0-9a-f]{64})$/.exec(key) ?? [];
  return number === undefined || bundle === undefined ? undefined : { number: Number(number), bundle };
}

/** What the keys of a class's objects begin with. */
export function classPrefix(app: string, className: string): string {
  return `objects/${app}/${className}/`;
}

/** What the keys of all objects begin with. */
export const OBJECTS_PREFIX = "objects/";

/** Whose key it is; undefined for any other key. */
export function objectOfKey(key: string): ObjectIdentity | undefined {
  const [, app, className, encoded] = /^objects\/([^/]+)\/([^/]+)\/[0-9a-f]{2}\/([^/]+)\//.exec(key) ?? [];
  if (app === undefined || className === undefined || encoded === undefined) return undefined;
  return identityOf(app, className, decodeURIComponent(encoded));
}

/** What a segment's or snapshot's key says. */
export interface BodyName {
  readonly epoch: number;
  readonly toSeq: number;
}

/** Reads a segment's or snapshot's key back; undefined for any other key. */
export function parseBodyKey(key: string): BodyName | undefined {
  const match = /\/e(\d+)\/(?:\d+-)?(\d+)\.(?:seg|snap)$/.exec(key);
  return match ? { epoch: Number(match[1]), toSeq: Number(match[2]) } : undefined;
}

/** Reads a past manifest's key back; undefined for any other key. */
export function parsePastKey(key: string): PastName | undefined {
  const [, seq, epoch, untilMs, end] = /\/past\/(\d{16})-(\d{10,})-(\d+)(-end)?$/.exec(key) ?? [];
  if (seq === undefined || epoch === undefined || untilMs === undefined) return undefined;
  return { seq: Number(seq), epoch: Number(epoch), untilMs: Number(untilMs), isEnd: end !== undefined };
}

/** File names are limited to 255 bytes; longer keys are named by their hash. */
const FILE_STEM_MAX = 180;

/** The object's file in the data folder, relative. Its WAL is the same with `-wal` behind. */
export function databasePath(object: ObjectIdentity): string {
  const plain = `${object.app}~${object.className}~${encodeKey(object.key)}`;
  const stem =
    plain.length <= FILE_STEM_MAX
      ? plain
      : `${object.app}~${object.className}~~${createHash("sha256").update(object.key).digest("hex")}`;
  return `objects/${partitionName(object.id)}/${stem}.db`;
}

function partitionName(id: string): string {
  return partitionOf(id).toString(16).padStart(2, "0");
}

/** Percent-encodes all but letters, digits, `-` and `_`, so that no key can climb out of its folder or collide by case rules of `.`. */
function encodeKey(key: string): string {
  return encodeURIComponent(key).replace(
    /[.!~*'()]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}
