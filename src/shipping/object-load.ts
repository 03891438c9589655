/** What an object's flight carries: a segment, a snapshot (whole or streamed), or its tombstone. */
import type { UsedIds } from "../store/call-ids.js";
import type { Position, SegmentEntry } from "./manifest.js";
import type { Load } from "./shipper.js";

interface CutLoad extends Load {
  /** Wall clock when it was taken, milliseconds; never falls from load to load of one opening. */
  readonly cutMs: number;
}

export interface SegmentLoad extends CutLoad {
  readonly carried: "segment";
  readonly entry: SegmentEntry;
  readonly position: Position;
  readonly body: Uint8Array;
  /** A merged segment: it takes the place of all but this many segments of the manifest. */
  readonly kept?: number;
}

export type SnapshotBody =
  | { readonly kind: "whole"; readonly bytes: Uint8Array }
  /** May be read more than once; every reading gives the same bytes. */
  | { readonly kind: "stream"; readonly parts: () => AsyncIterable<Uint8Array> };

export interface SnapshotLoad extends CutLoad {
  readonly carried: "snapshot";
  readonly body: SnapshotBody;
  /** Known once the body has been read to its end. */
  readonly position: () => Position;
  /** Ends the hold on the file, if there is one. Idempotent. */
  readonly release: () => void;
}

/** What stays of an object that ended at `toSeq`. */
export interface ObjectEnd {
  readonly toSeq: number;
  /** Number of the object's last event. */
  readonly eventLast: number;
  /** Of calls in this life and those before it; undefined where none had an id. */
  readonly usedIds: UsedIds | undefined;
}

/** Nothing of the content: the record alone changes, to name another set of journals. */
export interface RecordLoad extends CutLoad {
  readonly carried: "record";
}

export interface TombstoneLoad extends CutLoad, ObjectEnd {
  readonly carried: "tombstone";
}

export type ObjectLoad = SegmentLoad | SnapshotLoad | TombstoneLoad | RecordLoad;
