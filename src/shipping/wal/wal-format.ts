/**
 * SQLite's WAL as bytes: the file header, the frames, and the checksum that chains them. Pure; trusts nothing it reads.
 *
 * A frame counts only if it carries its header's salts and continues the checksum that began in the header, so what is
 * left over from an earlier use of the file, or was torn, can never pass for a frame (https://sqlite.org/fileformat2.html#walformat).
 */
import { isPageSize, swapped, wordsOf } from "./words.js";

export const WAL_HEADER_BYTES = 32;
export const FRAME_HEADER_BYTES = 24;
const FRAME_HEADER_WORDS = FRAME_HEADER_BYTES / 4;
const MAGIC = 0x377f0682;
const VERSION = 3_007_000;

export interface WalHeader {
  /** Whether the checksums were computed over big-endian words: the machine that began the file decides. */
  readonly bigEndian: boolean;
  /** Bytes. */
  readonly pageSize: number;
  /** Grows by one each time the file is begun again. */
  readonly checkpointSeq: number;
  /** Grows by one each time the file is begun again; random at first. */
  readonly salt1: number;
  /** Random each time the file is begun again. */
  readonly salt2: number;
  /** Where the chain of frame checksums begins. */
  readonly checksum1: number;
  readonly checksum2: number;
}

/** `undefined` when the first 32 bytes are no intact header of a version that SQLite 3 writes. */
export function readWalHeader(bytes: Uint8Array): WalHeader | undefined {
  if (bytes.length < WAL_HEADER_BYTES) return undefined;
  const words = wordsOf(bytes.subarray(0, WAL_HEADER_BYTES));
  const field = (index: number): number => swapped(words[index] ?? 0) >>> 0;
  const magic = field(0);
  if ((magic & ~1) >>> 0 !== MAGIC || field(1) !== VERSION || !isPageSize(field(2))) return undefined;
  const bigEndian = (magic & 1) === 1;
  const checksum = new WalChecksum(bigEndian, 0, 0);
  checksum.add(words, 0, 6);
  const header: WalHeader = {
    bigEndian,
    pageSize: field(2),
    checkpointSeq: field(3),
    salt1: field(4),
    salt2: field(5),
    checksum1: field(6),
    checksum2: field(7),
  };
  return checksum.equals(header.checksum1 | 0, header.checksum2 | 0) ? header : undefined;
}

/** The running checksum. Two signed words; `|0` on every operand keeps the sums in integer registers (0.4 against 4 µs a page). */
export class WalChecksum {
  readonly #bigEndian: boolean;
  s1: number;
  s2: number;

  constructor(bigEndian: boolean, s1: number, s2: number) {
    this.#bigEndian = bigEndian;
    this.s1 = s1 | 0;
    this.s2 = s2 | 0;
  }

  /** Adds `words[from..to)`, an even number of them. */
  add(words: Int32Array, from: number, to: number): void {
    let s1 = this.s1 | 0;
    let s2 = this.s2 | 0;
    if (this.#bigEndian) {
      for (let at = from; at < to; at += 2) {
        s1 = (s1 + ((swapped((words[at] as number) | 0) | 0) + s2)) | 0;
        s2 = (s2 + ((swapped((words[at + 1] as number) | 0) | 0) + s1)) | 0;
      }
    } else {
      for (let at = from; at < to; at += 2) {
        s1 = (((s1 + ((words[at] as number) | 0)) | 0) + s2) | 0;
        s2 = (((s2 + ((words[at + 1] as number) | 0)) | 0) + s1) | 0;
      }
    }
    this.s1 = s1;
    this.s2 = s2;
  }

  equals(s1: number, s2: number): boolean {
    return this.s1 === (s1 | 0) && this.s2 === (s2 | 0);
  }
}

/** Walks frames in file order. After the first frame that is refused the walk is over: the chain is broken there. */
export class FrameWalk {
  readonly #checksum: WalChecksum;
  readonly #salt1: number;
  readonly #salt2: number;
  readonly #frameWords: number;
  /** Of the frame last accepted. */
  pgno = 0;
  /** Of the frame last accepted: pages in the database after its commit, 0 if it ends no transaction. */
  pagesAfterCommit = 0;

  /** @param from the checksum after the last frame accepted before, when the walk continues inside the file */
  constructor(header: WalHeader, from: { readonly checksum1: number; readonly checksum2: number } = header) {
    this.#checksum = new WalChecksum(header.bigEndian, from.checksum1, from.checksum2);
    this.#salt1 = swapped(header.salt1) | 0;
    this.#salt2 = swapped(header.salt2) | 0;
    this.#frameWords = (FRAME_HEADER_BYTES + header.pageSize) / 4;
  }

  get checksum1(): number {
    return this.#checksum.s1;
  }

  get checksum2(): number {
    return this.#checksum.s2;
  }

  /** Whether the frame that begins at word `at` is the next one of the chain. */
  accept(words: Int32Array, at: number): boolean {
    if (words[at + 2] !== this.#salt1 || words[at + 3] !== this.#salt2 || words[at] === 0) return false;
    const checksum = this.#checksum;
    checksum.add(words, at, at + 2);
    checksum.add(words, at + FRAME_HEADER_WORDS, at + this.#frameWords);
    if (!checksum.equals(swapped(words[at + 4] ?? 0), swapped(words[at + 5] ?? 0))) return false;
    this.pgno = swapped(words[at] ?? 0) >>> 0;
    this.pagesAfterCommit = swapped(words[at + 1] ?? 0) >>> 0;
    return true;
  }
}
