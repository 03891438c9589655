/**
 * Several segments in a row as one body: what journals held one by one goes into the bucket together.
 *
 *     "MBUN" count:u32, count times: size:u32, then the segments' bytes
 *
 * One segment alone stands for itself. Each segment carries its own checksum; sizes that do not add up are refused. Numbers
 * are little-endian.
 */
import { assert, MoonportError } from "../../errors.js";

const MAGIC = 0x4e55424d;
const HEAD_BYTES = 8;
const SIZE_BYTES = 4;

export function encodeBundle(segments: readonly Uint8Array[]): Uint8Array {
  assert(segments.length > 0, "a bundle holds at least one segment");
  if (segments.length === 1) return segments[0] as Uint8Array;
  let at = HEAD_BYTES + SIZE_BYTES * segments.length;
  const bytes = Buffer.allocUnsafe(segments.reduce((sum, segment) => sum + segment.length, at));
  bytes.writeUInt32LE(MAGIC, 0);
  bytes.writeUInt32LE(segments.length, 4);
  for (const [index, segment] of segments.entries()) {
    bytes.writeUInt32LE(segment.length, HEAD_BYTES + SIZE_BYTES * index);
    bytes.set(segment, at);
    at += segment.length;
  }
  return bytes;
}

/** The segments of a body, in order; the body itself when it is one. @throws MoonportError `object_corrupt` */
export function segmentsOf(body: Uint8Array): readonly Uint8Array[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  if (body.length < HEAD_BYTES || view.getUint32(0, true) !== MAGIC) return [body];
  const count = view.getUint32(4, true);
  let at = HEAD_BYTES + SIZE_BYTES * count;
  if (count < 1 || at > body.length) throw damaged(`it cannot hold ${count} segments`);
  const segments: Uint8Array[] = [];
  for (let index = 0; index < count; index++) {
    const size = view.getUint32(HEAD_BYTES + SIZE_BYTES * index, true);
    segments.push(body.subarray(at, at + size));
    at += size;
  }
  if (at !== body.length) throw damaged(`its segments end at byte ${at} of ${body.length}`);
  return segments;
}

function damaged(why: string): MoonportError {
  return MoonportError.of("object_corrupt", `a bundle of segments is damaged: ${why}`);
}
