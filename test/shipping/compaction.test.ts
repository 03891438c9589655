import { describe, expect, it } from "vitest";
import { resolveSettings } from "../../src/settings/settings.js";
import { compactionOf, mergeIsFull } from "../../src/shipping/compaction.js";
import { firstManifest, type Manifest } from "../../src/shipping/manifest.js";

const settings = resolveSettings({
  COMPACT_SEGMENTS_MAX: 8,
  COMPACT_BYTES_MIN: 10_000,
  COMPACT_SHARE_PERCENT: 200,
  MANIFEST_INLINE_BYTES_MAX: 4_000,
});

function manifestOf(segments: number, bytesEach: number): Manifest {
  const entries = Array.from({ length: segments }, (_, n) => ({
    epoch: 1,
    fromSeq: n + 1,
    toSeq: n + 1,
    bytes: bytesEach,
  }));
  return { ...firstManifest("a/B/c", "session", "rid"), segments: entries, seq: segments };
}

function withInline(segments: number, bytesEach: number): Manifest {
  const manifest = manifestOf(segments, bytesEach);
  return { ...manifest, segments: manifest.segments.map((entry) => ({ ...entry, body: new Uint8Array(bytesEach) })) };
}

const shape = (manifest: Manifest, databaseBytes: number, changedBytes: number, kept = 0) =>
  compactionOf({ manifest, databaseBytes, changedBytes, kept }, settings);

describe("history", () => {
  it("is left alone while it is short and light", () => {
    expect(shape(manifestOf(7, 100), 1_000_000, 1_000)).toBe("none");
  });

  it("is merged when it has many segments and little of a large database changed", () => {
    expect(shape(manifestOf(8, 100), 1_000_000, 20_000)).toBe("merge");
  });

  it("becomes a snapshot when half of the database changed anyway", () => {
    expect(shape(manifestOf(8, 100), 30_000, 20_000)).toBe("snapshot");
  });

  it("becomes a snapshot when segments outweigh the database, however few they are", () => {
    expect(shape(manifestOf(2, 50_000), 40_000, 1_000)).toBe("snapshot");
    expect(shape(manifestOf(2, 4_000), 1_000, 1_000)).toBe("none");
  });

  it("becomes a snapshot when merging would leave most segments where they are", () => {
    expect(shape(manifestOf(8, 100), 1_000_000, 20_000, 5)).toBe("snapshot");
  });

  it("is merged when half of what a manifest may hold of segments is in it", () => {
    const half = settings.MANIFEST_INLINE_BYTES_MAX / 2;
    expect(shape(withInline(2, half / 2), 1_000_000, 20_000)).toBe("none");
    expect(shape(withInline(2, half / 2 + 1), 1_000_000, 20_000)).toBe("merge");
  });

  it("of a large database is not begun anew because the manifest is long and merging leaves it so", () => {
    const half = settings.MANIFEST_INLINE_BYTES_MAX / 2;
    expect(shape(withInline(2, half / 2 + 1), 1_000_000, 20_000, 2)).toBe("none");
    expect(shape(withInline(2, half / 2 + 1), 10_000, 1_000, 2)).toBe("snapshot");
  });

  it("begins a new merged segment once one has grown large", () => {
    expect(mergeIsFull(settings.SNAPSHOT_INLINE_BYTES_MAX / 2, settings)).toBe(false);
    expect(mergeIsFull(settings.SNAPSHOT_INLINE_BYTES_MAX / 2 + 1, settings)).toBe(true);
  });
});
