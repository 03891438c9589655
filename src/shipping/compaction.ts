/** When the next flight should carry a snapshot, so that history and restore time stay bounded. Pure. */
import type { Settings } from "../settings/settings.js";
import { type Manifest, segmentBytes } from "./manifest.js";

type CompactionSettings = Pick<Settings, "COMPACT_SEGMENTS_MAX" | "COMPACT_SHARE_PERCENT" | "COMPACT_BYTES_MIN">;

/** @param databaseBytes what a snapshot taken now would hold */
export function snapshotIsDue(manifest: Manifest, databaseBytes: number, settings: CompactionSettings): boolean {
  if (manifest.segments.length >= settings.COMPACT_SEGMENTS_MAX) return true;
  const bound = Math.max(settings.COMPACT_BYTES_MIN, (databaseBytes * settings.COMPACT_SHARE_PERCENT) / 100);
  return segmentBytes(manifest) > bound;
}
