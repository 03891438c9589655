import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MoonportError } from "../../../src/errors.js";
import { applyDelta } from "../../../src/shipping/wal/page-delta.js";
import { decodeSegment, encodeSegment, type SegmentHead } from "../../../src/shipping/wal/segment.js";

const HEAD: SegmentHead = {
  epoch: 3,
  fromSeq: 7,
  toSeq: 2 ** 40 + 5,
  pageSize: 512,
  finalPages: 300,
  identityBefore: "0123456789abcdef",
  identityAfter: "fedcba9876543210",
};

function page(fill: number): Uint8Array {
  return new Uint8Array(512).fill(fill);
}

function sample(): Uint8Array {
  const changed = page(5);
  changed[100] = 1;
  const images = new Map([
    [200, changed],
    [1, page(1)],
    [300, page(3)],
  ]);
  return encodeSegment(HEAD, images, (pgno) => (pgno === 200 ? page(5) : undefined));
}

function refusal(bytes: Uint8Array): MoonportError {
  try {
    decodeSegment(bytes);
  } catch (error) {
    if (error instanceof MoonportError) return error;
    throw error;
  }
  throw new Error("it was decoded");
}

/** The sample with `change` made to it and a fitting checksum: what only a fault of a writer could produce. */
function forged(change: (bytes: Buffer) => void): Uint8Array {
  const bytes = Buffer.from(sample());
  change(bytes);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, -4)), bytes.length - 4);
  return bytes;
}

describe("a segment", () => {
  test("gives back its head and its pages in order, whole or as a delta", () => {
    const { pages, ...head } = decodeSegment(sample());
    expect(head).toEqual(HEAD);
    expect(pages.map(({ kind, pgno }) => [kind, pgno])).toEqual([
      ["whole", 1],
      ["delta", 200],
      ["whole", 300],
    ]);
    const [first, second] = pages;
    if (first?.kind !== "whole" || second?.kind !== "delta") throw new Error("unexpected kinds");
    expect(first.image).toEqual(page(1));
    expect(applyDelta(page(5), second.delta)[100]).toBe(1);
  });

  test("may say when it was cut", () => {
    const cutMs = Date.UTC(2026, 0, 1);
    const { pages, ...head } = decodeSegment(encodeSegment({ ...HEAD, cutMs }, new Map([[9, page(9)]])));
    expect(head).toEqual({ ...HEAD, cutMs });
    expect(pages).toEqual([{ kind: "whole", pgno: 9, image: page(9) }]);
  });

  test("may say that it took the place of others", () => {
    const head = { ...HEAD, cutMs: 1, isMerged: true } as const;
    const { pages, ...read } = decodeSegment(encodeSegment(head, new Map([[9, page(9)]])));
    expect(read).toEqual(head);
  });

  test("tells an empty delta from a whole page", () => {
    const bytes = encodeSegment(HEAD, new Map([[9, page(9)]]), () => page(9));
    expect(decodeSegment(bytes).pages).toEqual([{ kind: "delta", pgno: 9, delta: new Uint8Array(0) }]);
  });

  test("is read from any place in memory", () => {
    const bytes = sample();
    const shifted = new Uint8Array(bytes.length + 5).subarray(5);
    shifted.set(bytes);
    expect(decodeSegment(shifted)).toEqual(decodeSegment(bytes));
  });

  test("with any one bit flipped is refused", () => {
    const bytes = sample();
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const copy = new Uint8Array(bytes);
      copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(refusal(copy).code).toBe("object_corrupt");
    }
  });

  test("cut short anywhere, or followed by a byte, is refused", () => {
    const bytes = sample();
    for (let length = 0; length < bytes.length; length++) {
      expect(refusal(bytes.subarray(0, length)).code).toBe("object_corrupt");
    }
    expect(refusal(Buffer.concat([bytes, Buffer.alloc(1)])).code).toBe("object_corrupt");
  });

  test("of random bytes with a fitting checksum is refused or decoded, never worse", () => {
    const change = fc.tuple(fc.nat(sample().length - 5), fc.nat(255));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
        const bytes = forged((copy) => {
          for (const [at, value] of changes) copy[at] = value;
        });
        try {
          const segment = decodeSegment(bytes);
          for (const entry of segment.pages) expect(entry.pgno).toBeLessThanOrEqual(segment.finalPages);
        } catch (error) {
          expect(error).toBeInstanceOf(MoonportError);
          expect((error as MoonportError).code).toBe("object_corrupt");
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test.each<[string, (bytes: Buffer) => void, RegExp]>([
    ["another format", (bytes) => bytes.writeUInt16LE(4, 4), /format 4 is not known/],
    ["an odd page size", (bytes) => bytes.writeUInt32LE(1000, 6), /page size is 1000/],
    ["a seq beyond what a number holds", (bytes) => bytes.writeUInt32LE(0xffffffff, 30), /out of range/],
    ["seqs out of order", (bytes) => bytes.writeUInt32LE(8, 22 + 8) && bytes.fill(0, 26, 34), /it covers 7 to 0/],
    ["a page beyond its size", (bytes) => bytes.writeUInt32LE(299, 34), /page 300 lies outside its 299 pages/],
    ["fewer pages than it says", (bytes) => bytes.writeUInt32LE(9, 54), /ends inside a page number/],
    ["more pages than it says", (bytes) => bytes.writeUInt32LE(2, 54), /bytes follow its last page/],
  ])("with %s says so", (_name, change, message) => {
    expect(refusal(forged(change)).message).toMatch(message);
  });

  test("with content for the lock page is refused", () => {
    const bytes = encodeSegment(
      { ...HEAD, pageSize: 65_536, finalPages: 20_000 },
      new Map([[16_385, new Uint8Array(65_536)]]),
    );
    expect(refusal(bytes).message).toMatch(/page 16385 is the lock page/);
  });

  test("with a page twice is refused", () => {
    const bytes = forged((copy) => copy.writeUInt8(0, 58));
    expect(refusal(bytes).message).toMatch(/page 0 lies outside/);
  });

  test("of another magic says so, and a name is part of the message", () => {
    const bytes = sample();
    bytes[0] = 0;
    expect(() => decodeSegment(bytes, "e3/7-9.seg")).toThrow(
      "e3/7-9.seg is damaged: it does not begin as a segment does",
    );
  });
});
