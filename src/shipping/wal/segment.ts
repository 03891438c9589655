/**
 * A segment as bytes: what one flight carries. It names the calls it covers, the content it was made over and the content it
 * makes, so that it can be applied only where it belongs.
 *
 *     "MSEG" format:u16 pageSize:u32 epoch:u64 fromSeq:u64 toSeq:u64 finalPages:u32 identityBefore:8 identityAfter:8 count:u32
 *     in formats 2 and 3: cutMs:u64
 *     count times, by ascending page: gap to the page before:varint, size:varint, bytes
 *     crc32 of all before:u32
 *
 * Format 3 is a merged segment, which took the place of others (compaction.ts).
 * Size 0 is a whole page (pageSize bytes); size n+1 is a delta of n bytes over the page's content before the segment.
 * Numbers are little-endian.
 */
import { crc32 } from "node:zlib";
import { assert, MoonportError } from "../../errors.js";
import { ByteReader, putVarint, VARINT_BYTES_MAX } from "./byte-reader.js";
import { encodeDelta } from "./page-delta.js";
import { isPageSize, lockPage } from "./words.js";

/** Without the time of its cut, as all segments once were. */
const FORMAT_UNTIMED = 1;
const FORMAT_TIMED = 2;
const FORMAT_MERGED = 3;
const MAGIC = 0x4745534d;
const HEAD_BYTES = 58;
const CUT_BYTES = 8;
const CRC_BYTES = 4;
const scratch = new Uint8Array(256 * 1024);
const IDENTITY = /^[0-9a-f]{16}$/;

export interface SegmentHead {
  /** Under which it was written. */
  readonly epoch: number;
  /** First and last call it covers; it follows a state whose seq is `fromSeq - 1`. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** Bytes. */
  readonly pageSize: number;
  /** Size of the database after it, in pages. */
  readonly finalPages: number;
  /** Content identity of the database before and after it (page-identity). */
  readonly identityBefore: string;
  readonly identityAfter: string;
  /** Wall clock when it was cut, milliseconds: all in it was committed by then, and nothing after it. */
  readonly cutMs?: number;
  /** It took the place of segments each of whose ends was a state of the object: within it there is none. It is timed. */
  readonly isMerged?: true;
}

export type SegmentPage =
  | { readonly kind: "whole"; readonly pgno: number; readonly image: Uint8Array }
  | { readonly kind: "delta"; readonly pgno: number; readonly delta: Uint8Array };

export interface Segment extends SegmentHead {
  /** By ascending page number. */
  readonly pages: readonly SegmentPage[];
}

/** So many changed pages, whole ones all of them, make no segment of more than `segmentBytesMax`. */
export function pagesWithin(segmentBytesMax: number, pageSize: number): number {
  const around = HEAD_BYTES + CUT_BYTES + CRC_BYTES;
  return Math.max(0, Math.floor((segmentBytesMax - around) / (2 * VARINT_BYTES_MAX + pageSize)));
}

/**
 * @param images last image of each changed page
 * @param baseOf the page's content before the segment, where it is known (page-image-cache); without it the page travels whole
 */
export function encodeSegment(
  head: SegmentHead,
  images: ReadonlyMap<number, Uint8Array>,
  baseOf: (pgno: number) => Uint8Array | undefined = () => undefined,
): Uint8Array {
  const fault = headFault(head);
  assert(fault === undefined, `a segment cannot be made: ${fault}`);
  const numbers = ascending([...images.keys()]);
  const target = targetOf(HEAD_BYTES + CUT_BYTES + CRC_BYTES + numbers.length * (2 * VARINT_BYTES_MAX + head.pageSize));
  let at = putHead(target, head, numbers.length);
  let before = 0;
  for (const pgno of numbers) {
    const image = images.get(pgno) as Uint8Array;
    const base = baseOf(pgno);
    const delta = base && encodeDelta(base, image);
    at = putVarint(target, at, pgno - before);
    at = putVarint(target, at, delta === undefined ? 0 : delta.length + 1);
    const body = delta ?? image;
    target.set(body, at);
    at += body.length;
    before = pgno;
  }
  viewOf(target).setUint32(at, crc32(target.subarray(0, at)), true);
  return target.slice(0, at + CRC_BYTES);
}

/** SQLite writes the pages of one commit in their order, so mostly there is nothing to sort. */
function ascending(numbers: number[]): number[] {
  for (let at = 1; at < numbers.length; at++) {
    if ((numbers[at - 1] as number) > (numbers[at] as number)) return numbers.sort((a, b) => a - b);
  }
  return numbers;
}

/** Where a segment is put together: in the buffer that all share, unless it is large. */
function targetOf(bytesMax: number): Uint8Array {
  return bytesMax <= scratch.length ? scratch : new Uint8Array(bytesMax);
}

/**
 * The pages are views into `bytes`.
 * @param name what it is, for messages
 * @throws MoonportError `object_corrupt` saying what is wrong
 */
export function decodeSegment(bytes: Uint8Array, name = "a segment"): Segment {
  const damaged = (why: string): MoonportError => MoonportError.of("object_corrupt", `${name} is damaged: ${why}`);
  if (bytes.length < HEAD_BYTES + CRC_BYTES) throw damaged(`it has ${bytes.length} bytes, fewer than its head`);
  const body = bytes.subarray(0, bytes.length - CRC_BYTES);
  const reader = new ByteReader(body, name);
  if (reader.uint32("its magic") !== MAGIC) throw damaged("it does not begin as a segment does");
  if (crc32(body) !== viewOf(bytes).getUint32(body.length, true)) throw damaged("its checksum does not fit its bytes");
  const format = reader.uint16("its format");
  if (![FORMAT_UNTIMED, FORMAT_TIMED, FORMAT_MERGED].includes(format)) {
    throw damaged(`format ${format} is not known to this version`);
  }
  const untimed = readHead(reader);
  const count = reader.uint32("its page count");
  const timed = format === FORMAT_UNTIMED ? untimed : { ...untimed, cutMs: reader.safeInteger("the time of its cut") };
  const head = format === FORMAT_MERGED ? { ...timed, isMerged: true as const } : timed;
  const fault = headFault(head);
  if (fault !== undefined) throw damaged(fault);
  const pages = readPages(reader, head, count);
  if (reader.remaining > 0) throw damaged(`${reader.remaining} bytes follow its last page`);
  return { ...head, pages };
}

function putHead(bytes: Uint8Array, head: SegmentHead, pageCount: number): number {
  const view = viewOf(bytes);
  view.setUint32(0, MAGIC, true);
  view.setUint16(4, formatOf(head), true);
  view.setUint32(6, head.pageSize, true);
  putInteger(view, 10, head.epoch);
  putInteger(view, 18, head.fromSeq);
  putInteger(view, 26, head.toSeq);
  view.setUint32(34, head.finalPages, true);
  putIdentity(view, 38, head.identityBefore);
  putIdentity(view, 46, head.identityAfter);
  view.setUint32(54, pageCount, true);
  if (head.cutMs === undefined) return HEAD_BYTES;
  putInteger(view, HEAD_BYTES, head.cutMs);
  return HEAD_BYTES + CUT_BYTES;
}

function formatOf({ cutMs, isMerged }: SegmentHead): number {
  if (cutMs === undefined) return FORMAT_UNTIMED;
  return isMerged ? FORMAT_MERGED : FORMAT_TIMED;
}

function putInteger(view: DataView, at: number, value: number): void {
  view.setUint32(at, value >>> 0, true);
  view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true);
}

function putIdentity(view: DataView, at: number, identity: string): void {
  view.setUint32(at, Number.parseInt(identity.slice(0, 8), 16));
  view.setUint32(at + 4, Number.parseInt(identity.slice(8), 16));
}

function readHead(reader: ByteReader): SegmentHead {
  const identity = (name: string): string => Buffer.from(reader.bytes(8, name)).toString("hex");
  const pageSize = reader.uint32("its page size");
  const epoch = reader.safeInteger("its epoch");
  const fromSeq = reader.safeInteger("its first seq");
  const toSeq = reader.safeInteger("its last seq");
  const finalPages = reader.uint32("its final size");
  const identityBefore = identity("the identity before it");
  const identityAfter = identity("the identity after it");
  return { epoch, fromSeq, toSeq, pageSize, finalPages, identityBefore, identityAfter };
}

function readPages(reader: ByteReader, head: SegmentHead, count: number): SegmentPage[] {
  const pages: SegmentPage[] = [];
  const absent = lockPage(head.pageSize);
  let pgno = 0;
  for (let index = 0; index < count; index++) {
    const gap = reader.varint("a page number");
    pgno += gap;
    if (gap === 0 || pgno > head.finalPages) reader.refuse(`page ${pgno} lies outside its ${head.finalPages} pages`);
    if (pgno === absent) reader.refuse(`page ${pgno} is the lock page, which has no content`);
    const size = reader.varint("a page's size");
    if (size > head.pageSize) reader.refuse(`the delta of page ${pgno} is larger than a page`);
    pages.push(
      size === 0
        ? { kind: "whole", pgno, image: reader.bytes(head.pageSize, `page ${pgno}`) }
        : { kind: "delta", pgno, delta: reader.bytes(size - 1, `page ${pgno}`) },
    );
  }
  return pages;
}

function headFault(head: SegmentHead): string | undefined {
  if (!isPageSize(head.pageSize)) return `its page size is ${head.pageSize}`;
  if (!(head.fromSeq >= 1 && head.toSeq >= head.fromSeq)) return `it covers ${head.fromSeq} to ${head.toSeq}`;
  if (!(Number.isSafeInteger(head.toSeq) && Number.isSafeInteger(head.epoch) && head.epoch >= 0)) {
    return `epoch ${head.epoch} or seq ${head.toSeq} is out of range`;
  }
  if (!IDENTITY.test(head.identityBefore) || !IDENTITY.test(head.identityAfter))
    return "an identity has the wrong form";
  return undefined;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
