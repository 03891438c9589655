/**
 * The object's record in the bucket: who owns it under which epoch, and which snapshot and segments make up its state.
 *
 * It changes only by compare-and-swap, names only what is fully written (S3), and carries a fresh random id per write so
 * that an unanswered write can be recognised later. It is never deleted: a destroyed object leaves a tombstone, or its
 * epoch could start again at 1. Values are immutable; the functions below make the next one.
 */
import { crc32 } from "node:zlib";
import type { Member, OwnershipRecord, ReplicaSet } from "../cluster/ownership.js";
import { MoonportError } from "../errors.js";
import type { UsedIds } from "../store/call-ids.js";
import type { SegmentName, SnapshotName } from "./layout.js";
import { hexOf } from "./wal/words.js";

export const MANIFEST_FORMAT = 1;

export interface SnapshotEntry extends SnapshotName {
  readonly bytes: number;
  /** Wall clock when it was cut, milliseconds; unknown of those that were made before it was kept. */
  readonly cutMs?: number;
}

export interface SegmentEntry extends SegmentName {
  readonly bytes: number;
  /** Travels in the manifest itself: where segment and manifest cannot land together, that makes one request of two. */
  readonly body?: Uint8Array;
}

/** What the bucket holds: the content of the database at `seq`. */
export interface Position {
  /** Last committing call that is covered; grows through the object's whole life, also across destruction. */
  readonly seq: number;
  /** Content identity of the database at `seq` (wal/page-identity). */
  readonly identity: string;
  readonly pages: number;
  readonly pageSize: number;
}

/** What many nodes add to an object's record (docs/cluster.md). */
export interface ReplicaRecord extends ReplicaSet {
  /** Epoch of the last claim that was completed. */
  readonly tailEpoch: number;
  /** Released by its owner: the bucket holds all of it, and nobody serves it. */
  readonly clean: boolean;
}

export interface Manifest extends Position {
  readonly format: typeof MANIFEST_FORMAT;
  /** Object id, so that a manifest under a wrong key is noticed. */
  readonly object: string;
  /** Fresh per write. */
  readonly rid: string;
  readonly epoch: number;
  /** Session of the owner. */
  readonly owner: string;
  readonly snapshot: SnapshotEntry | undefined;
  /** In order, contiguous: the first starts right after the snapshot (or at 1), the last ends at `seq`. */
  readonly segments: readonly SegmentEntry[];
  /** Ended by `destroy`: no content, kept for its epoch, seq and event number. */
  readonly destroyed: boolean;
  /** Numbers of events go on after this one: given by the lives before this one, or by what was lost when it was recovered. */
  readonly eventLast: number;
  /** Of calls of the lives before this one. Undefined where there were none, and when there is content, which says so itself. */
  readonly usedIds: UsedIds | undefined;
  /** Undefined where its owner was alone: then the bucket has everything that was ever released. */
  readonly replicas: ReplicaRecord | undefined;
}

/** Content identity of a database without pages (wal/page-identity). */
const EMPTY_IDENTITY = "0000000000000000";

/** The first claim of a key that was never written. @param replicas undefined for an owner that is alone */
export function firstManifest(object: string, owner: string, rid: string, replicas?: ReplicaSet): Manifest {
  return {
    format: MANIFEST_FORMAT,
    object,
    rid,
    epoch: 1,
    owner,
    seq: 0,
    identity: EMPTY_IDENTITY,
    pages: 0,
    pageSize: 0,
    snapshot: undefined,
    segments: [],
    destroyed: false,
    eventLast: 0,
    usedIds: undefined,
    replicas: replicas && { ...replicas, tailEpoch: 1, clean: false },
  };
}

/** The claim of an existing object: a higher epoch, the same content (E1). A tombstone comes to life empty. */
export function claimed(manifest: Manifest, owner: string, rid: string, replicas?: ReplicaSet): Manifest {
  const epoch = manifest.epoch + 1;
  const complete = replicas && { ...replicas, tailEpoch: epoch, clean: false };
  return { ...manifest, rid, owner, epoch, destroyed: false, replicas: complete };
}

/** More than an object emits between two losses: an event takes more than a byte or two of a journal, which has 2^40 at most. */
const LOST_EVENTS_MAX = 1_000_000_000_000;

/** Writes may have been lost with events that subscribers were told of: theirs and all numbers before are not given again. */
export function withEventsLost(manifest: Manifest): Manifest {
  return { ...manifest, eventLast: (Math.floor(manifest.eventLast / LOST_EVENTS_MAX) + 1) * LOST_EVENTS_MAX };
}

/** As the ownership protocol sees it: all but the content. */
export function ownershipOf({ rid, epoch, owner, seq, replicas }: Manifest): OwnershipRecord {
  const { tailEpoch, set, quorum, clean } = replicas ?? { ...ALONE, tailEpoch: epoch };
  return { rid, epoch, owner, tailEpoch, set, quorum, covered: seq, clean };
}

const ALONE: Omit<ReplicaRecord, "tailEpoch"> = { set: [], quorum: { copies: 0, acksToLand: 0 }, clean: false };

/** The same content under another record; what that one says of coverage must be what the content is. */
export function withOwnership(manifest: Manifest, record: OwnershipRecord): Manifest {
  const { rid, epoch, owner, tailEpoch, set, quorum, clean } = record;
  return { ...manifest, rid, epoch, owner, replicas: { tailEpoch, set, quorum, clean } };
}

/** One more segment landed. @param kept of the segments before it; all by default, fewer when it is a merged one */
export function withSegment(
  manifest: Manifest,
  segment: SegmentEntry,
  position: Position,
  rid: string,
  kept = manifest.segments.length,
): Manifest {
  const before = kept === manifest.segments.length ? manifest.segments : manifest.segments.slice(0, kept);
  const { format, object, epoch, owner, snapshot, destroyed, eventLast, replicas } = manifest;
  const { seq, identity, pages, pageSize } = position;
  const segments = appended(before, segment);
  // Field by field: each flight makes one, and a spread of two objects costs what the rest of it does.
  return {
    format,
    object,
    rid,
    epoch,
    owner,
    seq,
    identity,
    pages,
    pageSize,
    snapshot,
    segments,
    destroyed,
    eventLast,
    usedIds: undefined,
    replicas,
  };
}

/** A snapshot landed: it replaces everything before it. */
export function withSnapshot(manifest: Manifest, snapshot: SnapshotEntry, position: Position, rid: string): Manifest {
  return { ...manifest, ...position, rid, snapshot, segments: [], usedIds: undefined };
}

/**
 * The object ended: nothing is named any more; epoch, seq, event number and the ids of its calls stay. Nothing is committed after it, so it is a
 * clean release at once (O4).
 */
export function tombstone(
  manifest: Manifest,
  seq: number,
  eventLast: number,
  rid: string,
  usedIds?: UsedIds,
): Manifest {
  return {
    ...manifest,
    rid,
    seq,
    identity: EMPTY_IDENTITY,
    pages: 0,
    pageSize: 0,
    snapshot: undefined,
    segments: [],
    destroyed: true,
    eventLast,
    usedIds,
    replicas: manifest.replicas && { ...manifest.replicas, clean: true },
  };
}

/** The same content: what stands beside it changes. */
export function withRid(manifest: Manifest, rid: string): Manifest {
  return { ...manifest, rid };
}

/** From now on other journals count. */
export function withReplicas(manifest: Manifest, { set, quorum }: ReplicaSet): Manifest {
  const { tailEpoch } = ownershipOf(manifest);
  return { ...manifest, replicas: { set, quorum, tailEpoch, clean: manifest.replicas?.clean ?? false } };
}

/** Whether any content was ever covered and is still named. */
export function hasContent(manifest: Manifest): boolean {
  return manifest.snapshot !== undefined || manifest.segments.length > 0;
}

export function segmentBytes(manifest: Manifest): number {
  return sumsOf(manifest.segments).segmentBytes;
}

/** Of the segments that travel in the manifest. @param count of the first segments; default all */
export function inlineBytes({ segments }: Manifest, count = segments.length): number {
  return (count === segments.length ? sumsOf(segments) : summed(segments.slice(0, count))).inlineBytes;
}

/** Asked before each flight, of lists that are long and far apart in memory: those that this node made know theirs. */
function sumsOf(segments: readonly SegmentEntry[]): Sums {
  return listBytes.get(segments) ?? summed(segments);
}

function summed(segments: readonly SegmentEntry[]): Sums {
  let [all, inline] = [0, 0];
  for (const { bytes, body } of segments) {
    all += bytes;
    inline += body?.length ?? 0;
  }
  return { segmentBytes: all, inlineBytes: inline };
}

/** Compact JSON: small, readable in any bucket browser. Entries are arrays: [epoch, ...numbers, bytes], then a body in base64. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const head = headText(manifest);
  const list = listOf(manifest.segments);
  const bytes = Buffer.allocUnsafe(Buffer.byteLength(head, "utf8") + list.length + 1 + CHECKSUM_FIELD_LENGTH);
  let at = bytes.write(head, 0, "utf8");
  bytes.set(list.bytes.subarray(0, list.length), at);
  at += list.length;
  bytes[at++] = CLOSING_BRACKET;
  at += bytes.write(checksumField(crc32(bytes.subarray(0, at))), at, "latin1");
  return bytes.subarray(0, at);
}

/** Everything but the segments, up to where their list begins. Written out by hand: it is made for each flight. */
function headText(manifest: Manifest): string {
  const { object, rid, owner, snapshot, format, epoch, seq } = manifest;
  const { identity, pages, pageSize, destroyed, eventLast, usedIds, replicas } = manifest;
  const used = usedIds === undefined ? "" : `"usedIds":${JSON.stringify([usedIds.throughMs, ...usedIds.ids])},`;
  const shared = replicas === undefined ? "" : replicasText(replicas);
  const base = snapshot === undefined ? "" : `"snapshot":[${snapshotText(snapshot)}],`;
  return (
    `{"format":${format},"object":${JSON.stringify(object)},"rid":${JSON.stringify(rid)},"epoch":${epoch},` +
    `"owner":${JSON.stringify(owner)},"seq":${seq},"identity":"${identity}","pages":${pages},"pageSize":${pageSize},` +
    `"destroyed":${destroyed},"eventLast":${eventLast},${used}${shared}${base}"segments":[`
  );
}

function replicasText({ tailEpoch, set, quorum, clean }: ReplicaRecord): string {
  return (
    `"tailEpoch":${tailEpoch},"copies":${quorum.copies},"acksToLand":${quorum.acksToLand},"clean":${clean},` +
    `"set":${membersText(set)},`
  );
}

/** Made anew only when the set changes: each flight writes it. */
function membersText(set: readonly Member[]): string {
  let text = memberTexts.get(set);
  if (text === undefined) {
    text = JSON.stringify(set.map(({ node, journal }) => [node, journal]));
    memberTexts.set(set, text);
  }
  return text;
}

const memberTexts = new WeakMap<readonly Member[], string>();

/** Objects of one node have few sets between them: each is kept once, however many records were read that name it. */
const knownSets = new Map<string, readonly Member[]>();
const SETS_KNOWN_MAX = 1_024;

function oneOf(stored: unknown, read: () => readonly Member[]): readonly Member[] {
  const text = JSON.stringify(stored);
  let set = knownSets.get(text);
  if (set === undefined) {
    set = read();
    if (knownSets.size >= SETS_KNOWN_MAX) knownSets.clear();
    knownSets.set(text, set);
  }
  return set;
}

function snapshotText({ epoch, seq, bytes, cutMs }: SnapshotEntry): string {
  return cutMs === undefined ? `${epoch},${seq},${bytes}` : `${epoch},${seq},${bytes},${cutMs}`;
}

/** The document's end: a checksum over all before it. One flipped bit could else name another history, and a valid one. */
function checksumField(checksum: number): string {
  return `,"crc":"${hexOf(checksum)}"}`;
}

const CHECKSUM_FIELD_LENGTH = ',"crc":"00000000"}'.length;
const CLOSING_BRACKET = 0x5d;
const LIST_BYTES_MIN = 512;

/**
 * A list of segments as the bytes between its brackets. Each flight adds one entry to up to COMPACT_SEGMENTS_MAX, so a list
 * shares the array of the one it grew out of and writes behind its end; only the longest of those who share may do that.
 */
interface ListBytes extends Sums {
  readonly bytes: Buffer;
  readonly length: number;
  readonly shared: { usedBytes: number };
}

/** What the segments of a list hold together, and those of them that travel in the manifest. */
interface Sums {
  readonly segmentBytes: number;
  readonly inlineBytes: number;
}

const listBytes = new WeakMap<readonly SegmentEntry[], ListBytes>();

function listOf(segments: readonly SegmentEntry[]): ListBytes {
  const known = listBytes.get(segments);
  if (known !== undefined) return known;
  // Without room for more: most lists that were read are written once or twice, by whoever takes the object over.
  const bytes = Buffer.from(segments.map(entryText).join(","), "latin1");
  const { length } = bytes;
  const list = { bytes, length, shared: { usedBytes: length }, ...summed(segments) };
  listBytes.set(segments, list);
  return list;
}

function appended(segments: readonly SegmentEntry[], entry: SegmentEntry): readonly SegmentEntry[] {
  const longer = [...segments, entry];
  const before = listOf(segments);
  const text = before.length === 0 ? entryText(entry) : `,${entryText(entry)}`;
  const { bytes, shared } = withRoom(before, text.length);
  const length = before.length + bytes.write(text, before.length, "latin1");
  shared.usedBytes = length;
  const segmentBytes = before.segmentBytes + entry.bytes;
  listBytes.set(longer, {
    bytes,
    length,
    shared,
    segmentBytes,
    inlineBytes: before.inlineBytes + (entry.body?.length ?? 0),
  });
  return longer;
}

function withRoom(list: ListBytes, moreBytes: number): Pick<ListBytes, "bytes" | "shared"> {
  const { bytes, length, shared } = list;
  if (shared.usedBytes === length && length + moreBytes <= bytes.length) return list;
  const copy = Buffer.allocUnsafeSlow(Math.max(LIST_BYTES_MIN, (length + moreBytes) * 2));
  copy.set(bytes.subarray(0, length));
  return { bytes: copy, shared: { usedBytes: length } };
}

function entryText({ epoch, fromSeq, toSeq, bytes, body }: SegmentEntry): string {
  return body === undefined
    ? `[${epoch},${fromSeq},${toSeq},${bytes}]`
    : `[${epoch},${fromSeq},${toSeq},${bytes},"${Buffer.from(body.buffer, body.byteOffset, body.length).toString("base64")}"]`;
}

/** @throws MoonportError `object_corrupt` when the bytes are no manifest of this object, or name a history with a gap */
export function decodeManifest(object: string, bytes: Uint8Array): Manifest {
  const document = parse(object, bytes);
  const refuse = (what: string): never => {
    throw corrupt(object, what);
  };
  const whole = (value: unknown, name: string): number =>
    Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : refuse(`${name} is no whole number`);
  const text = (value: unknown, name: string): string =>
    typeof value === "string" ? value : refuse(`${name} is no text`);
  if (document.format !== MANIFEST_FORMAT) refuse(`format ${String(document.format)} is not known to this version`);
  if (document.object !== object) refuse(`it belongs to ${String(document.object)}`);
  const numbers = (value: unknown, length: number, name: string): number[] => {
    if (!Array.isArray(value) || value.length !== length) return refuse(`${name} has the wrong form`);
    return value.map((entry) => whole(entry, name));
  };
  const snapshotOf = (value: unknown): SnapshotEntry => {
    const isTimed = Array.isArray(value) && value.length === 4;
    const [epoch = 0, seq = 0, size = 0, cutMs = 0] = numbers(value, isTimed ? 4 : 3, "snapshot");
    return { epoch, seq, bytes: size, ...(isTimed && { cutMs }) };
  };
  const segmentOf = (value: unknown): SegmentEntry => {
    const isInline = Array.isArray(value) && value.length === 5;
    const [epoch = 0, fromSeq = 0, toSeq = 0, size = 0] = numbers(isInline ? value.slice(0, 4) : value, 4, "a segment");
    if (!isInline) return { epoch, fromSeq, toSeq, bytes: size };
    const body = new Uint8Array(Buffer.from(text(value[4], "a segment's body"), "base64"));
    if (body.length !== size) refuse(`a segment's body has ${body.length} bytes instead of ${size}`);
    return { epoch, fromSeq, toSeq, bytes: size, body };
  };
  const memberOf = (value: unknown): Member => {
    if (!Array.isArray(value) || value.length !== 2) return refuse("a member of its set has the wrong form");
    return { node: text(value[0], "a node"), journal: text(value[1], "a journal") };
  };
  const replicasOf = (): ReplicaRecord => {
    const stored = document.set;
    const set = Array.isArray(stored) ? oneOf(stored, () => stored.map(memberOf)) : refuse("its set is missing");
    const quorum = { copies: whole(document.copies, "copies"), acksToLand: whole(document.acksToLand, "acksToLand") };
    if (set.length !== quorum.copies || quorum.acksToLand > quorum.copies) refuse("its set and its quorum do not fit");
    return { tailEpoch: whole(document.tailEpoch, "tailEpoch"), set, quorum, clean: document.clean === true };
  };
  const usedIdsOf = (value: unknown): UsedIds => {
    const [throughMs, ...ids] = Array.isArray(value) ? value : refuse("its used ids have the wrong form");
    return { throughMs: whole(throughMs, "usedIds"), ids: ids.map((id) => text(id, "a used id")) };
  };
  const manifest: Manifest = {
    format: MANIFEST_FORMAT,
    object,
    rid: text(document.rid, "rid"),
    epoch: whole(document.epoch, "epoch"),
    owner: text(document.owner, "owner"),
    seq: whole(document.seq, "seq"),
    identity: text(document.identity, "identity"),
    pages: whole(document.pages, "pages"),
    pageSize: whole(document.pageSize, "pageSize"),
    snapshot: document.snapshot === undefined ? undefined : snapshotOf(document.snapshot),
    segments: Array.isArray(document.segments) ? document.segments.map(segmentOf) : refuse("segments are missing"),
    destroyed: document.destroyed === true,
    eventLast: whole(document.eventLast ?? 0, "eventLast"),
    // Older versions do not write it, and drop it from what they claim: to them a new life knows of no ids.
    usedIds: document.usedIds === undefined ? undefined : usedIdsOf(document.usedIds),
    replicas: document.tailEpoch === undefined ? undefined : replicasOf(),
  };
  checkContiguous(manifest);
  return manifest;
}

/** A history with a hole is refused, never served half (S1). */
function checkContiguous(manifest: Manifest): void {
  let expected = (manifest.snapshot?.seq ?? manifest.segments[0]?.fromSeq ?? 1) + (manifest.snapshot ? 1 : 0);
  for (const segment of manifest.segments) {
    if (segment.fromSeq !== expected || segment.toSeq < segment.fromSeq) {
      throw corrupt(manifest.object, `segment ${segment.fromSeq}-${segment.toSeq} stands where ${expected} is due`);
    }
    expected = segment.toSeq + 1;
  }
  if (hasContent(manifest) && expected !== manifest.seq + 1) {
    throw corrupt(manifest.object, `its history ends at ${expected - 1}, its seq is ${manifest.seq}`);
  }
}

function parse(object: string, bytes: Uint8Array): Record<string, unknown> {
  const bodyBytes = Math.max(0, bytes.length - CHECKSUM_FIELD_LENGTH);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
  const checksum = checksumField(crc32(bytes.subarray(0, bodyBytes)));
  if (!text.endsWith(checksum)) throw corrupt(object, "its checksum does not fit");
  try {
    const document: unknown = JSON.parse(text);
    if (typeof document === "object" && document !== null) return document as Record<string, unknown>;
  } catch (cause) {
    throw MoonportError.of("object_corrupt", `the manifest of ${object} is not JSON`, { object, cause });
  }
  throw corrupt(object, "it is no JSON object");
}

function corrupt(object: string, what: string): MoonportError {
  return MoonportError.of("object_corrupt", `the manifest of ${object} is damaged: ${what}`, {
    object,
    hint: "the object is not served until its manifest is restored",
  });
}
