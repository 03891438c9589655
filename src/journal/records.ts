/**
 * What stands in a journal's files, as bytes.
 *
 *     file:   "MJNL" format:u16 0:u16, then frames; zeros, or its end, follow the last one
 *     frame:  mark:u32 crc32:u32 bodyBytes:u32 kind:u8 body           the checksum is over all that follows it
 *     entry:  object epoch base afterSeq seqs payload                 seqs: toSeq - afterSeq
 *     head:   object promised tailEpoch base
 *     begin:  identity number previousBytes oldest                    the first of each file
 *     oldest: number
 *
 * Numbers of frames are little-endian, those of bodies varints; a text is its length and its UTF-8.
 *
 * A frame's mark is made of the journal's identity, the file's number and the frame's place, so a frame is valid nowhere
 * else: not in the blocks of a deleted file that a crash brings to light, not in a value that somebody stored.
 */
import { crc32 } from "node:zlib";
import { assert } from "../errors.js";
import type { Payload } from "./contract.js";

/** Everything about an object but its entries: two of them are one that says what both say (journal-join). */
export interface Head {
  readonly promised: number;
  readonly tailEpoch: number;
  readonly base: number;
}

export interface EntryRecord {
  readonly kind: "entry";
  readonly object: string;
  readonly epoch: number;
  /** In force when it was appended: it is why the entry continues the tail, so what is lost of other records makes no hole. */
  readonly base: number;
  readonly afterSeq: number;
  readonly toSeq: number;
  readonly payload: Payload;
}

export interface HeadRecord extends Head {
  readonly kind: "head";
  readonly object: string;
}

export interface BeginRecord {
  readonly kind: "begin";
  readonly identity: string;
  readonly number: number;
  /** Where the file before it ended, synced; 0 for the first. */
  readonly previousBytes: number;
  /** Files below this number are not needed any more. */
  readonly oldest: number;
}

interface OldestRecord {
  readonly kind: "oldest";
  readonly oldest: number;
}

export type JournalRecord = EntryRecord | HeadRecord | BeginRecord | OldestRecord;

/** Where a record can be read back. */
export interface StoredPlace {
  readonly kind: "stored";
  readonly file: number;
  readonly place: number;
  readonly frameBytes: number;
}

const FORMAT = 1;
export const PREFIX = Uint8Array.of(0x4d, 0x4a, 0x4e, 0x4c, FORMAT, 0, 0, 0);
export const FRAME_HEAD_BYTES = 13;
const CRC_AT = 4;
const CHECKED_AT = 8;
const KIND_AT = 12;
const BEGINS_BATCH = 0x80;
const KINDS: readonly JournalRecord["kind"][] = ["entry", "head", "begin", "oldest"];

/** What a head takes at most. */
export function headBytesMax(objectBytes: number): number {
  return FRAME_HEAD_BYTES + 2 + objectBytes + 3 * 8;
}

export function frameBytesOf(record: JournalRecord): number {
  return FRAME_HEAD_BYTES + bodyBytesOf(record);
}

function bodyBytesOf(record: JournalRecord): number {
  switch (record.kind) {
    case "entry":
      return (
        textBytes(record.object) +
        varintBytes(record.epoch) +
        varintBytes(record.base) +
        varintBytes(record.afterSeq) +
        varintBytes(record.toSeq - record.afterSeq) +
        record.payload.length
      );
    case "head":
      return (
        textBytes(record.object) +
        varintBytes(record.promised) +
        varintBytes(record.tailEpoch) +
        varintBytes(record.base)
      );
    case "begin":
      return (
        textBytes(record.identity) +
        varintBytes(record.number) +
        varintBytes(record.previousBytes) +
        varintBytes(record.oldest)
      );
    case "oldest":
      return varintBytes(record.oldest);
  }
}

/** A frame whose checksum fits; the body is a view. */
export interface Frame {
  readonly kind: JournalRecord["kind"];
  /** All that stands before it, in this file and in older ones, was on the disk when this was written. */
  readonly beginsBatch: boolean;
  readonly frameBytes: number;
  readonly body: Buffer;
}

/** Frames of one file. */
export class FrameFormat {
  readonly #seed: number;

  constructor(identity: string, fileNumber: number) {
    this.#seed = crc32(`${identity}/${fileNumber}`);
  }

  /** What a frame at this place begins with. */
  mark(place: number): number {
    return (this.#seed ^ Math.imul(place + 1, 0x9e3779b1)) >>> 0;
  }

  /**
   * @param at where in `target`
   * @param place where in the file
   * @param frameBytes {@link frameBytesOf} the record
   */
  put(
    target: Buffer,
    at: number,
    place: number,
    record: JournalRecord,
    frameBytes: number,
    beginsBatch: boolean,
  ): void {
    target.writeUInt32LE(this.mark(place), at);
    target.writeUInt32LE(frameBytes - FRAME_HEAD_BYTES, at + CHECKED_AT);
    target[at + KIND_AT] = KINDS.indexOf(record.kind) + 1 + (beginsBatch ? BEGINS_BATCH : 0);
    const end = putBody(target, at + FRAME_HEAD_BYTES, record);
    assert(end === at + frameBytes, "a record takes the bytes that were counted for it");
    target.writeUInt32LE(crc32(target.subarray(at + CHECKED_AT, end)), at + CRC_AT);
  }

  /** How many bytes the frame would have whose first ones these are; undefined when none begins here. */
  frameBytes(head: Buffer, place: number): number | undefined {
    if (head.length < FRAME_HEAD_BYTES || head.readUInt32LE(0) !== this.mark(place)) return undefined;
    return FRAME_HEAD_BYTES + head.readUInt32LE(CHECKED_AT);
  }

  /** @param bytes as many as {@link frameBytes} says; undefined unless they are whole */
  frame(bytes: Buffer, place: number): Frame | undefined {
    if (this.frameBytes(bytes, place) !== bytes.length) return undefined;
    if (crc32(bytes.subarray(CHECKED_AT)) !== bytes.readUInt32LE(CRC_AT)) return undefined;
    const code = bytes[KIND_AT] as number;
    const kind = KINDS[(code & ~BEGINS_BATCH) - 1];
    if (kind === undefined) return undefined;
    return {
      kind,
      beginsBatch: (code & BEGINS_BATCH) !== 0,
      frameBytes: bytes.length,
      body: bytes.subarray(FRAME_HEAD_BYTES),
    };
  }
}

/** The payload is a view. */
export function recordOf({ kind, body }: Pick<Frame, "kind" | "body">): JournalRecord {
  const reader = new BodyReader(body);
  switch (kind) {
    case "entry": {
      const object = reader.text();
      const [epoch, base, afterSeq] = [reader.varint(), reader.varint(), reader.varint()];
      return { kind, object, epoch, base, afterSeq, toSeq: afterSeq + reader.varint(), payload: reader.rest() };
    }
    case "head":
      return {
        kind,
        object: reader.text(),
        promised: reader.varint(),
        tailEpoch: reader.varint(),
        base: reader.varint(),
      };
    case "begin":
      return {
        kind,
        identity: reader.text(),
        number: reader.varint(),
        previousBytes: reader.varint(),
        oldest: reader.varint(),
      };
    case "oldest":
      return { kind, oldest: reader.varint() };
  }
}

/** Written by us and whole by its checksum: what does not fit is our own mistake. */
class BodyReader {
  readonly #body: Buffer;
  #at = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#body[this.#at++];
      assert(byte !== undefined, "a journal's record holds all of its numbers");
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  }

  text(): string {
    const bytes = this.varint();
    assert(this.#at + bytes <= this.#body.length, "a journal's record holds all of its text");
    this.#at += bytes;
    return this.#body.toString("utf8", this.#at - bytes, this.#at);
  }

  rest(): Payload {
    return this.#body.subarray(this.#at);
  }
}

function putBody(target: Buffer, start: number, record: JournalRecord): number {
  let at = start;
  switch (record.kind) {
    case "entry":
      at = putText(target, at, record.object);
      at = putVarint(target, at, record.epoch);
      at = putVarint(target, at, record.base);
      at = putVarint(target, at, record.afterSeq);
      at = putVarint(target, at, record.toSeq - record.afterSeq);
      target.set(record.payload, at);
      return at + record.payload.length;
    case "head":
      at = putText(target, at, record.object);
      at = putVarint(target, at, record.promised);
      at = putVarint(target, at, record.tailEpoch);
      return putVarint(target, at, record.base);
    case "begin":
      at = putText(target, at, record.identity);
      at = putVarint(target, at, record.number);
      at = putVarint(target, at, record.previousBytes);
      return putVarint(target, at, record.oldest);
    case "oldest":
      return putVarint(target, at, record.oldest);
  }
}

function textBytes(text: string): number {
  const bytes = Buffer.byteLength(text);
  return varintBytes(bytes) + bytes;
}

function putText(target: Buffer, at: number, text: string): number {
  const place = putVarint(target, at, Buffer.byteLength(text));
  return place + target.write(text, place);
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++;
  return bytes;
}

function putVarint(target: Buffer, at: number, value: number): number {
  let place = at;
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) target[place++] = (rest & 0x7f) | 0x80;
  target[place++] = rest;
  return place;
}
