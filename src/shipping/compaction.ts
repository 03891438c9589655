/**
 * How the next flight keeps history bounded. Pure.
 *
 * A *merged* segment replaces the segments since a base by one that holds each changed page once; a *snapshot* replaces
 * everything. Merging pays while little changed in a large database: a snapshot of it every few dozen flights would ship the
 * whole for the sake of a few pages.
 */
import type { Settings } from "../settings/settings.js";
import { inlineBytes, type Manifest, segmentBytes } from "./manifest.js";

export type CompactionSettings = Pick<
  Settings,
  | "COMPACT_SEGMENTS_MAX"
  | "COMPACT_SHARE_PERCENT"
  | "COMPACT_BYTES_MIN"
  | "SNAPSHOT_INLINE_BYTES_MAX"
  | "MANIFEST_INLINE_BYTES_MAX"
>;

export interface HistoryShape {
  readonly manifest: Manifest;
  /** What a snapshot taken now would hold. */
  readonly databaseBytes: number;
  /** Segments of the manifest that a merge would leave as they are. */
  readonly kept: number;
  /** What a merged segment would hold. */
  readonly changedBytes: number;
}

export function compactionOf(history: HistoryShape, settings: CompactionSettings): "none" | "merge" | "snapshot" {
  const { manifest, databaseBytes, kept, changedBytes } = history;
  const bound = Math.max(settings.COMPACT_BYTES_MIN, (databaseBytes * settings.COMPACT_SHARE_PERCENT) / 100);
  if (segmentBytes(manifest) > bound) return "snapshot";
  const isFull = manifest.segments.length >= settings.COMPACT_SEGMENTS_MAX;
  const isLong = inlineBytes(manifest) * 2 > settings.MANIFEST_INLINE_BYTES_MAX;
  if (!isFull && !isLong) return "none";
  const isSmaller = changedBytes * 2 <= databaseBytes && changedBytes <= settings.SNAPSHOT_INLINE_BYTES_MAX;
  const makesRoom =
    kept * 2 <= settings.COMPACT_SEGMENTS_MAX && inlineBytes(manifest, kept) * 4 <= settings.MANIFEST_INLINE_BYTES_MAX;
  if (isSmaller && makesRoom) return "merge";
  // Of a large database no snapshot is taken only because the manifest is long: what does not fit stands beside it.
  return isFull || databaseBytes <= settings.COMPACT_BYTES_MIN ? "snapshot" : "none";
}

/** Whether a merged segment has grown so large that the next merge should leave it alone. */
export function mergeIsFull(changedBytes: number, settings: CompactionSettings): boolean {
  return changedBytes * 2 > settings.SNAPSHOT_INLINE_BYTES_MAX;
}
