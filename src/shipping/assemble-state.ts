/**
 * A database file made of what one manifest names: all of it, or as far as a seq or a time goes, to the grain of a flight.
 *
 * Each flight in it is whole, and the result has the content that the flight itself named; a history with a gap or a flipped
 * bit is refused (S1).
 */
import type { BucketReader } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { Folder } from "../world/folder.js";
import type { ObjectKeys } from "./layout.js";
import type { Manifest, Position, SegmentEntry } from "./manifest.js";
import { readAhead } from "./read-ahead.js";
import { DatabaseAssembler } from "./wal/assemble.js";
import { segmentsOf } from "./wal/bundle.js";
import type { PageLedger } from "./wal/page-identity.js";
import { decodeSegment, type Segment } from "./wal/segment.js";

export type StateReader = Pick<BucketReader, "get" | "readStream">;

/** How far to go: flights that end beyond `seq`, or were cut after `timeMs`, are left away. */
export type StateLimit = { readonly seq: number } | { readonly timeMs: number };

export interface AssembledState {
  readonly ledger: PageLedger;
  readonly position: Position;
  /** Wall clock when the last flight in it was cut, milliseconds; unknown of flights from before that was kept. */
  readonly cutMs: number | undefined;
  /** The limit lies within a merged segment, which ends at this seq: states between it and `position` were there. */
  readonly mergedToSeq: number | undefined;
}

export interface StateSource {
  readonly bucket: StateReader;
  readonly folder: Folder;
  readonly keys: ObjectKeys;
  readonly manifest: Manifest;
}

/**
 * @param path of the file, relative to the folder
 * @throws MoonportError `object_corrupt`, `storage_*`, `bucket_failed`; nothing is left on the disk then
 */
export async function assembleState(source: StateSource, path: string): Promise<PageLedger> {
  const { manifest, folder } = source;
  const assembler = new DatabaseAssembler(folder, path, { object: manifest.object, pageSize: manifest.pageSize });
  try {
    await addBase(assembler, source);
    for await (const { value } of bodiesOf(source, manifest.segments)) assembler.addSegment(value);
    return assembler.finish(manifest);
  } catch (error) {
    assembler.abort();
    throw error;
  }
}

/**
 * As {@link assembleState}, no further than `limit`.
 * @returns nothing, and no file, when even what it begins with lies beyond
 */
export async function assembleWithin(
  source: StateSource,
  path: string,
  limit: StateLimit,
): Promise<AssembledState | undefined> {
  const { manifest, folder } = source;
  const { snapshot } = manifest;
  if (snapshot !== undefined && isBeyond(limit, snapshot.seq, snapshot.cutMs)) return undefined;
  const assembler = new DatabaseAssembler(folder, path, { object: manifest.object, pageSize: manifest.pageSize });
  try {
    await addBase(assembler, source);
    const { last, next } = await addWithin(assembler, source, limit);
    if (last === undefined && snapshot === undefined) {
      assembler.abort();
      return undefined;
    }
    const position = positionAfter(manifest, last, next, assembler.identity);
    return {
      ledger: assembler.finish(position),
      position,
      cutMs: last === undefined ? snapshot?.cutMs : last.cutMs,
      mergedToSeq: next?.isMerged ? next.toSeq : undefined,
    };
  } catch (error) {
    assembler.abort();
    throw error;
  }
}

function isBeyond(limit: StateLimit, seq: number, cutMs: number | undefined): boolean {
  // What does not say when it was cut is not known to be too young.
  return "seq" in limit ? seq > limit.seq : (cutMs ?? 0) > limit.timeMs;
}

async function addBase(assembler: DatabaseAssembler, { bucket, keys, manifest }: StateSource): Promise<void> {
  const { snapshot, segments } = manifest;
  if (snapshot === undefined) return assembler.startEmpty((segments[0]?.fromSeq ?? 1) - 1);
  const parts = await bucket.readStream(keys.snapshot(snapshot));
  if (parts === undefined) throw missing(manifest.object, keys.snapshot(snapshot));
  for await (const part of parts) assembler.addSnapshotPart(part);
  assembler.endSnapshot(snapshot);
}

/** @returns the last segment that was taken, and the first that was not */
async function addWithin(
  assembler: DatabaseAssembler,
  source: StateSource,
  limit: StateLimit,
): Promise<{ readonly last?: Segment; readonly next?: Segment }> {
  const { segments } = source.manifest;
  const end = "seq" in limit ? segments.findIndex(({ toSeq }) => toSeq > limit.seq) + 1 : 0;
  let last: Segment | undefined;
  for await (const { value } of bodiesOf(source, end === 0 ? segments : segments.slice(0, end))) {
    // What journals held one by one lies in one body, and each of it is a state.
    for (const bytes of segmentsOf(value)) {
      const segment = decodeSegment(bytes, `the segment of ${source.manifest.object}`);
      if (isBeyond(limit, segment.toSeq, segment.cutMs)) return { ...(last && { last }), next: segment };
      assembler.addSegment(bytes);
      last = segment;
    }
  }
  return last === undefined ? {} : { last };
}

/** A snapshot does not say what its content is: whatever follows it does. */
function positionAfter(
  manifest: Manifest,
  last: Segment | undefined,
  next: Segment | undefined,
  identity: string,
): Position {
  const { pageSize, snapshot } = manifest;
  if (last !== undefined) {
    return { seq: last.toSeq, identity: last.identityAfter, pages: last.finalPages, pageSize };
  }
  if (snapshot === undefined) return { seq: 0, identity, pages: 0, pageSize };
  if (next === undefined) return manifest;
  return { seq: snapshot.seq, identity: next.identityBefore, pages: snapshot.bytes / pageSize, pageSize };
}

export async function* bodiesOf(
  { bucket, keys, manifest }: StateSource,
  segments: readonly SegmentEntry[],
): AsyncGenerator<{ readonly value: Uint8Array }> {
  const read = async (one: SegmentEntry): Promise<Uint8Array | undefined> =>
    one.body ?? (await bucket.get(keys.segment(one)))?.bytes;
  for await (const { of, value } of readAhead(segments, read)) {
    if (value === undefined) throw missing(manifest.object, keys.segment(of));
    yield { value };
  }
}

function missing(object: string, key: string): MoonportError {
  return MoonportError.of("object_corrupt", `the history of ${object} has a gap: ${key} is not in the bucket`, {
    object,
    hint: "restore the key from a copy of the bucket",
  });
}
