import fc from "fast-check";
import { expect, it } from "vitest";
import { FrameFormat, frameBytesOf, headBytesMax, type JournalRecord, recordOf } from "../../src/journal/records.js";

const number = fc.oneof(fc.nat(300), fc.maxSafeNat());
const text = fc.string({ unit: "grapheme", maxLength: 40 });
const record: fc.Arbitrary<JournalRecord> = fc.oneof(
  fc
    .record({
      object: text,
      epoch: number,
      base: number,
      afterSeq: fc.maxSafeNat().map((seq) => Math.floor(seq / 2)),
      seqs: fc.integer({ min: 1, max: 1_000_000 }),
      payload: fc.uint8Array({ maxLength: 300 }),
    })
    .map(({ seqs, ...rest }) => ({ kind: "entry" as const, ...rest, toSeq: rest.afterSeq + seqs })),
  fc.record({ kind: fc.constant("head" as const), object: text, promised: number, tailEpoch: number, base: number }),
  fc.record({
    kind: fc.constant("begin" as const),
    identity: text,
    number,
    previousBytes: number,
    oldest: number,
  }),
  fc.record({ kind: fc.constant("oldest" as const), oldest: number }),
);
const place = fc.nat(2 ** 31);

function framed(one: JournalRecord, at: number, beginsBatch = false): Buffer {
  const bytes = Buffer.alloc(frameBytesOf(one));
  new FrameFormat("journal-a", 7).put(bytes, 0, at, one, bytes.length, beginsBatch);
  return bytes;
}

it("a record is read back as it was written, and says whether a batch begins with it", () => {
  fc.assert(
    fc.property(record, place, fc.boolean(), (one, at, beginsBatch) => {
      const frame = new FrameFormat("journal-a", 7).frame(framed(one, at, beginsBatch), at);
      expect(frame).toMatchObject({ kind: one.kind, beginsBatch });
      if (frame === undefined) return;
      const read = recordOf(frame);
      expect(read).toEqual("payload" in read ? { ...one, payload: read.payload } : one);
      if (one.kind === "entry" && read.kind === "entry") expect([...read.payload]).toEqual([...one.payload]);
    }),
    { numRuns: 1_000 },
  );
});

it("a frame is whole only with all of its bits, in its own place, file and journal", () => {
  fc.assert(
    fc.property(record, place, place, fc.nat(), (one, at, elsewhere, bit) => {
      const bytes = framed(one, at);
      if (elsewhere !== at) expect(new FrameFormat("journal-a", 7).frame(bytes, elsewhere)).toBeUndefined();
      expect(new FrameFormat("journal-a", 8).frame(bytes, at)).toBeUndefined();
      expect(new FrameFormat("journal-b", 7).frame(bytes, at)).toBeUndefined();
      const index = (bit >> 3) % bytes.length;
      bytes[index] = (bytes[index] as number) ^ (1 << (bit & 7));
      expect(new FrameFormat("journal-a", 7).frame(bytes, at)).toBeUndefined();
    }),
    { numRuns: 1_000 },
  );
});

it("a head takes no more than what is counted for it", () => {
  fc.assert(
    fc.property(text, number, number, number, (object, promised, tailEpoch, base) => {
      const bytes = frameBytesOf({ kind: "head", object, promised, tailEpoch, base });
      expect(bytes).toBeLessThanOrEqual(headBytesMax(Buffer.byteLength(object)));
    }),
  );
});
