import { describe, expect, it } from "vitest";
import {
  claimed,
  decodeManifest,
  encodeManifest,
  firstManifest,
  inlineBytes,
  type Manifest,
  segmentBytes,
  tombstone,
  withSegment,
  withSnapshot,
} from "../../src/shipping/manifest.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";

const position = (seq: number) => ({ seq, identity: "0123456789abcdef", pages: 8, pageSize: 1024 });

function busy(): Manifest {
  let manifest = withSnapshot(firstManifest("a/B/ü", "s1", "r1"), { epoch: 1, seq: 4, bytes: 8192 }, position(4), "r2");
  for (let seq = 5; seq < 12; seq++) {
    manifest = withSegment(
      manifest,
      { epoch: 1, fromSeq: seq, toSeq: seq, bytes: 200 + seq },
      position(seq),
      `r${seq}`,
    );
  }
  return manifest;
}

describe("a manifest", () => {
  it("comes back as it was, in every form it takes", () => {
    const merged = withSegment(busy(), { epoch: 1, fromSeq: 7, toSeq: 12, bytes: 9 }, position(12), "r12", 2);
    for (const manifest of [
      firstManifest("a/B/ü", "s1", "r1"),
      busy(),
      merged,
      claimed(busy(), "s2", "r20"),
      tombstone(busy(), 12, 7, "r21"),
      claimed(tombstone(busy(), 12, 7, "r21"), "s3", "r22"),
      claimed(tombstone(busy(), 12, 7, "r21", { throughMs: 41, ids: [] }), "s3", "r22"),
      tombstone(busy(), 12, 7, "r21", { throughMs: 0, ids: ["once", 'a "quoted" one'] }),
    ]) {
      expect(decodeManifest("a/B/ü", encodeManifest(manifest))).toEqual(manifest);
    }
  });

  it("says of earlier lives which ids were used, until there is content that says so", () => {
    const ended = claimed(tombstone(busy(), 12, 7, "r21", { throughMs: 41, ids: ["once"] }), "s3", "r22");
    expect(ended.usedIds).toEqual({ throughMs: 41, ids: ["once"] });
    const entry = { epoch: 2, fromSeq: 13, toSeq: 13, bytes: 9 };
    expect(withSegment(ended, entry, position(13), "r23").usedIds).toBeUndefined();
    expect(withSnapshot(ended, { epoch: 2, seq: 13, bytes: 9 }, position(13), "r23").usedIds).toBeUndefined();
    expect(tombstone(busy(), 12, 7, "r21").usedIds).toBeUndefined();
  });

  it("grows into different histories from one, none of which touches another", () => {
    const grown = (from: Manifest, seq: number, bytes: number): Manifest =>
      withSegment(from, { epoch: 1, fromSeq: seq, toSeq: seq, bytes }, position(seq), `r${seq}-${bytes}`);
    const kept: Manifest[] = [busy()];
    const random = new SeededRandom(7);
    for (let step = 0; step < 300; step++) {
      const from = kept[Math.floor(random.fraction() * kept.length)] as Manifest;
      kept.push(grown(from, from.seq + 1, step));
    }
    for (const manifest of kept) {
      const read = decodeManifest("a/B/ü", encodeManifest(manifest));
      expect(read).toEqual(manifest);
      expect(segmentBytes(manifest)).toBe(segmentBytes(read));
    }
  });

  it("may hold the bodies of segments, each whole or the manifest is refused", () => {
    const body = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const entry = { epoch: 1, fromSeq: 12, toSeq: 12, bytes: body.length, body };
    const inline = withSegment(busy(), entry, position(12), "r12");
    const more = withSegment(inline, { ...entry, fromSeq: 13, toSeq: 13 }, position(13), "r13");
    for (const manifest of [inline, more]) {
      const read = decodeManifest("a/B/ü", encodeManifest(manifest));
      expect(read).toEqual(manifest);
      expect(inlineBytes(read)).toBe(inlineBytes(manifest));
    }
    expect(inlineBytes(more)).toBe(512);
    expect(inlineBytes(more, busy().segments.length + 1)).toBe(256);
    const short = withSegment(busy(), { ...entry, bytes: 255 }, position(12), "r12");
    expect(() => decodeManifest("a/B/ü", encodeManifest(short))).toThrow("256 bytes instead of 255");
  });

  it("is refused with any single bit flipped, and cut anywhere", () => {
    const bytes = encodeManifest(busy());
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const flipped = new Uint8Array(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => decodeManifest("a/B/ü", flipped)).toThrow(/damaged|not JSON/);
    }
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodeManifest("a/B/ü", bytes.subarray(0, length))).toThrow(/damaged|not JSON/);
    }
  });

  it("is refused under another object's key", () => {
    expect(() => decodeManifest("a/B/other", encodeManifest(busy()))).toThrow("it belongs to a/B/ü");
  });

  it("is refused when its history has a gap", () => {
    const gap = withSegment(busy(), { epoch: 1, fromSeq: 14, toSeq: 14, bytes: 1 }, position(14), "r14");
    expect(() => decodeManifest("a/B/ü", encodeManifest(gap))).toThrow("segment 14-14 stands where 12 is due");
    expect(() => decodeManifest("a/B/ü", encodeManifest({ ...busy(), seq: 99 }))).toThrow("its history ends at 11");
  });
});
