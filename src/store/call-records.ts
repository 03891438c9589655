/**
 * How call ids and the records of their calls stand in an object's file.
 *
 * A row holds the records of one transaction, in the order of the calls: their heads in one blob, their replies in another, so
 * that whoever looks for an id reads no replies. What stands in both is a stored format: change it only together with a way to
 * read the old.
 *
 *     head   id: 0 and the 16 bytes of a UUID, or its length and its text
 *            method: length, text      arguments: length, bytes      seq: 6 bytes
 *            bytes of the reply: 1 byte, or 255 and 4 bytes; a reply that is null has none
 */
import { assert, MoonportError } from "../errors.js";

/** An id as a caller gave it, and what is made out of it once. */
export interface CallId {
  readonly text: string;
  /** In lower case, as its 16 bytes stand for it. */
  readonly isUuid: boolean;
  /** The time in a UUIDv7, milliseconds; 0 for an id that carries none. */
  readonly timeMs: number;
  /** 32 bits of its stored form; ids with different ones are different. */
  readonly print: number;
}

export interface CallRecord {
  readonly id: CallId;
  readonly method: string;
  /** What a repeat must match (call-arguments). */
  readonly args: Uint8Array;
  readonly seq: number;
  /** Encoded; empty for null. */
  readonly reply: Uint8Array;
}

const UUID_CHARS = 36;
const UUID_BYTES = 16;
/** A bit for each place of a dash. */
const DASHES = (1 << 8) | (1 << 13) | (1 << 18) | (1 << 23);
const DASH = 0x2d;
const VERSION_AT = 14;
const TIME_BYTES = 6;
const SEQ_BYTES = 6;
const LONG_REPLY = 255;
const TEXT_BYTES_MAX = 255;

/** @param seed of the prints, not known to callers: they must not be able to make ids of one print */
export function readCallId(text: string, seed: number): CallId {
  if (text.length === UUID_CHARS) {
    const uuid = readUuid(text, seed);
    if (uuid !== undefined) return uuid;
  }
  let print = seed;
  for (let at = 0; at < text.length; at++) print = mixed(print, text.charCodeAt(at));
  return { text, isUuid: false, timeMs: 0, print: finished(print) };
}

/** Undefined for what is no UUID in lower case. */
function readUuid(text: string, seed: number): CallId | undefined {
  let print = seed;
  let timeMs = 0;
  let bytes = 0;
  for (let at = 0; at < UUID_CHARS; ) {
    if (at < 32 && (DASHES >> at) & 1) {
      if (text.charCodeAt(at++) !== DASH) return undefined;
      continue;
    }
    const byte = (digit(text.charCodeAt(at)) << 4) | digit(text.charCodeAt(at + 1));
    if (byte < 0) return undefined;
    print = mixed(print, byte);
    if (bytes++ < TIME_BYTES) timeMs = timeMs * 256 + byte;
    at += 2;
  }
  const isTimed = text.charCodeAt(VERSION_AT) === 0x37;
  return { text, isUuid: true, timeMs: isTimed ? timeMs : 0, print: finished(print) };
}

/** Of a lower-case hexadecimal digit's character; below 0 for any other. */
function digit(char: number): number {
  if (char >= 0x30 && char <= 0x39) return char - 0x30;
  return char >= 0x61 && char <= 0x66 ? char - 0x57 : -1;
}

function mixed(print: number, byte: number): number {
  const product = Math.imul(print ^ byte, 0x2c1b3c6d);
  return product ^ (product >>> 15);
}

function finished(print: number): number {
  const product = Math.imul(print, 0x297a2d39);
  return product ^ (product >>> 16);
}

/** The heads of one row and its replies, end to end. */
export function encodeRecords(records: readonly CallRecord[]): { heads: Buffer; replies: Uint8Array } {
  let headBytes = 0;
  for (const record of records) headBytes += headBytesOf(record);
  const heads = Buffer.allocUnsafe(headBytes);
  let at = 0;
  for (const record of records) at = putHead(heads, at, record);
  assert(at === headBytes, "a head has the size that was counted");
  const [first] = records;
  const replies =
    records.length === 1 && first !== undefined ? first.reply : Buffer.concat(records.map(({ reply }) => reply));
  return { heads, replies };
}

/** About what a record takes in its row, bytes. */
export function recordBytes(record: CallRecord): number {
  return headBytesOf(record) + record.reply.length;
}

/** One record's head in the row's blob; what is not asked for is not read. */
export class RecordHead {
  readonly #replyAt: number;
  readonly #replyBytes: number;
  readonly #bytes: Buffer;
  readonly #at: number;
  readonly #idBytes: number;
  readonly #methodAt: number;
  readonly #argsAt: number;
  readonly #seqAt: number;
  /** Where the next head begins. */
  readonly end: number;

  /**
   * @param replyAt where its reply begins in the row's blob of replies
   * @throws MoonportError `object_corrupt`
   */
  constructor(bytes: Buffer, at: number, replyAt: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#idBytes = bytes[at] === 0 ? UUID_BYTES : (bytes[at] ?? 0);
    this.#methodAt = at + 1 + this.#idBytes;
    this.#argsAt = this.#methodAt + 1 + (bytes[this.#methodAt] ?? 0);
    this.#seqAt = this.#argsAt + 1 + (bytes[this.#argsAt] ?? 0);
    const sizeAt = this.#seqAt + SEQ_BYTES;
    const isLong = bytes[sizeAt] === LONG_REPLY;
    this.end = sizeAt + (isLong ? 5 : 1);
    if (this.end > bytes.length) throw MoonportError.of("object_corrupt", "a record of calls ends inside a head");
    this.#replyAt = replyAt;
    this.#replyBytes = isLong ? bytes.readUInt32BE(sizeAt + 1) : (bytes[sizeAt] as number);
  }

  /** Where the next reply begins. */
  get repliesEnd(): number {
    return this.#replyAt + this.#replyBytes;
  }

  print(seed: number): number {
    return printOf(this.#bytes, this.#at + 1, this.#methodAt, seed);
  }

  /** As {@link CallId.timeMs}. */
  get timeMs(): number {
    return this.#isUuid ? uuidTime(this.#bytes, this.#at + 1) : 0;
  }

  get id(): string {
    if (!this.#isUuid) return this.#bytes.toString("latin1", this.#at + 1, this.#methodAt);
    const digits = this.#bytes.toString("hex", this.#at + 1, this.#methodAt);
    const parts = [0, 8, 12, 16, 20, 32].map((from, index, all) => digits.slice(from, all[index + 1]));
    return parts.slice(0, 5).join("-");
  }

  get method(): string {
    return this.#bytes.toString("latin1", this.#methodAt + 1, this.#argsAt);
  }

  get args(): Uint8Array {
    return this.#bytes.subarray(this.#argsAt + 1, this.#seqAt);
  }

  get seq(): number {
    return this.#bytes.readUIntBE(this.#seqAt, SEQ_BYTES);
  }

  /** Its reply, in the row's blob of replies. @throws MoonportError `object_corrupt` */
  replyIn(replies: unknown): Uint8Array {
    const isThere = replies instanceof Uint8Array && this.repliesEnd <= replies.length;
    if (isThere) return replies.subarray(this.#replyAt, this.repliesEnd);
    throw MoonportError.of("object_corrupt", "the reply of a recorded call is not there");
  }

  get #isUuid(): boolean {
    return this.#bytes[this.#at] === 0;
  }
}

/** The heads of a row, in the order of the calls. @throws MoonportError `object_corrupt` */
export function readHeads(blob: unknown): RecordHead[] {
  if (!Buffer.isBuffer(blob)) throw MoonportError.of("object_corrupt", "records of calls are not a blob");
  const heads: RecordHead[] = [];
  let replyAt = 0;
  for (let at = 0; at < blob.length; ) {
    const head = new RecordHead(blob, at, replyAt);
    heads.push(head);
    at = head.end;
    replyAt = head.repliesEnd;
  }
  return heads;
}

function headBytesOf({ id, method, args, reply }: CallRecord): number {
  const idBytes = id.isUuid ? UUID_BYTES : id.text.length;
  return 1 + idBytes + 1 + method.length + 1 + args.length + SEQ_BYTES + (reply.length < LONG_REPLY ? 1 : 5);
}

function putHead(target: Buffer, from: number, { id, method, args, seq, reply }: CallRecord): number {
  let at = id.isUuid ? putUuid(target, from, id.text) : putText(target, from, id.text);
  at = putText(target, at, method);
  target[at++] = args.length;
  for (const byte of args) target[at++] = byte;
  at = target.writeUIntBE(seq, at, SEQ_BYTES);
  if (reply.length < LONG_REPLY) {
    target[at] = reply.length;
    return at + 1;
  }
  target[at] = LONG_REPLY;
  return target.writeUInt32BE(reply.length, at + 1);
}

function putUuid(target: Buffer, from: number, text: string): number {
  target[from] = 0;
  let to = from + 1;
  for (let at = 0; at < UUID_CHARS; at += 2) {
    if (text.charCodeAt(at) === DASH) at++;
    target[to++] = (digit(text.charCodeAt(at)) << 4) | digit(text.charCodeAt(at + 1));
  }
  return to;
}

/** Ids and names of methods are short and of ASCII (wire/call-id, identity). */
function putText(target: Buffer, from: number, text: string): number {
  assert(text.length > 0 && text.length <= TEXT_BYTES_MAX, "an id or a name is 1 to 255 characters");
  target[from] = text.length;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    assert(char < 128, "an id or a name is ASCII");
    target[from + 1 + at] = char;
  }
  return from + 1 + text.length;
}

function printOf(bytes: Uint8Array, from: number, to: number, seed: number): number {
  let print = seed;
  for (let at = from; at < to; at++) print = mixed(print, bytes[at] as number);
  return finished(print);
}

function uuidTime(bytes: Uint8Array, at: number): number {
  if ((bytes[at + TIME_BYTES] as number) >> 4 !== 7) return 0;
  let time = 0;
  for (let index = 0; index < TIME_BYTES; index++) time = time * 256 + (bytes[at + index] as number);
  return time;
}
