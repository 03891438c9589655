/**
 * The identity of a database's whole content: a 64-bit checksum of each page, over its number and its bytes, XORed over all
 * pages. Equal identities mean equal content, however each side came by it: read from a file, or kept up page by page from
 * what was captured. That is why a local file needs no position marker to be trusted.
 *
 * It tells faults apart, not forgers: checksums are fast, not cryptographic.
 */
import type { FileHandle } from "../../world/folder.js";
import { hexOf, lockPage, wordsOf } from "./words.js";

const STEP_BYTES = 256 * 1024;
const CAPACITY_MIN_PAGES = 4;

/** Scratch of {@link checksumPage}: the two words of the page last seen. */
const checksum = new Int32Array(2);

/** Two lanes over the same words with different multipliers and shifts, so that no difference cancels out in both. */
function checksumPage(pgno: number, words: Int32Array, from: number, to: number): void {
  let a = (pgno ^ 0x9e3779b9) | 0;
  let b = Math.imul(pgno, 0x85ebca6b) ^ 0x7f4a7c15;
  for (let at = from; at < to; at++) {
    const word = (words[at] as number) | 0;
    a = Math.imul(a ^ word, 0x2c1b3c6d);
    a ^= a >>> 15;
    b = Math.imul((b + word) | 0, 0x297a2d39);
    b ^= b >>> 13;
  }
  a = Math.imul(a ^ (b >>> 16), 0x85ebca6b);
  b = Math.imul(b ^ (a >>> 13), 0xc2b2ae35);
  checksum[0] = a ^ (a >>> 16);
  checksum[1] = b ^ (b >>> 15);
}

/** The checksum of every page of one database and, from them, its identity. Eight bytes a page. */
export class PageLedger {
  readonly pageSize: number;
  readonly #lockPage: number;
  /** Two words a page; those of absent pages are 0. */
  #checksums = new Int32Array(2 * CAPACITY_MIN_PAGES);
  #pages = 0;
  #a = 0;
  #b = 0;

  constructor(pageSize: number) {
    this.pageSize = pageSize;
    this.#lockPage = lockPage(pageSize);
  }

  /**
   * The ledger of a whole database in memory. `serialize()` of a live connection gives it only after `shrink_memory`: the page
   * cache may hold another content of free pages than the file and the WAL do, and then the file never gets this identity.
   */
  static ofBytes(database: Uint8Array, pageSize: number): PageLedger {
    const ledger = new PageLedger(pageSize);
    ledger.append(database);
    return ledger;
  }

  /**
   * The ledger of a database file, in steps of 256 KiB: the caller lets others run between steps. A file whose size is no
   * whole number of pages gives none. Not for a file that SQLite has open in this process: closing the handle drops its locks.
   */
  static *ofFile(file: FileHandle, pageSize: number): Generator<void, PageLedger | undefined> {
    const ledger = new PageLedger(pageSize);
    const sizeBytes = file.sizeBytes();
    if (sizeBytes % pageSize !== 0) return undefined;
    const step = new Uint8Array(Math.min(STEP_BYTES, sizeBytes));
    for (let position = 0; position < sizeBytes; position += step.length) {
      const got = file.read(step, 0, Math.min(step.length, sizeBytes - position), position);
      if (got !== Math.min(step.length, sizeBytes - position)) return undefined;
      ledger.append(step.subarray(0, got));
      yield;
    }
    return ledger;
  }

  /** Size of the database, in pages. */
  get pages(): number {
    return this.#pages;
  }

  /** 16 hexadecimal digits; all zero for a database without pages. */
  identity(): string {
    return hexOf(this.#a) + hexOf(this.#b);
  }

  /** Takes over the new images and the new size; a page beyond it no longer counts, a page never given counts as absent. */
  apply(images: ReadonlyMap<number, Uint8Array>, finalPages: number): void {
    this.#resize(finalPages);
    for (const [pgno, image] of images) {
      if (pgno > finalPages) continue;
      const words = wordsOf(image);
      this.#set(pgno, words, 0, words.length);
    }
  }

  /** Takes whole pages behind the last one. */
  append(bytes: Uint8Array): void {
    const words = wordsOf(bytes);
    const pageWords = this.pageSize / 4;
    const first = this.#pages + 1;
    const count = Math.floor(words.length / pageWords);
    this.#resize(this.#pages + count);
    for (let index = 0; index < count; index++) {
      this.#set(first + index, words, index * pageWords, (index + 1) * pageWords);
    }
  }

  #set(pgno: number, words: Int32Array, from: number, to: number): void {
    if (pgno === this.#lockPage) return;
    checksumPage(pgno, words, from, to);
    this.#replace(pgno, checksum[0] ?? 0, checksum[1] ?? 0);
  }

  #replace(pgno: number, a: number, b: number): void {
    const at = 2 * (pgno - 1);
    this.#a ^= (this.#checksums[at] ?? 0) ^ a;
    this.#b ^= (this.#checksums[at + 1] ?? 0) ^ b;
    this.#checksums[at] = a;
    this.#checksums[at + 1] = b;
  }

  #resize(pages: number): void {
    for (let pgno = pages + 1; pgno <= this.#pages; pgno++) this.#replace(pgno, 0, 0);
    this.#pages = pages;
    const capacity = this.#checksums.length / 2;
    if (pages <= capacity && (capacity <= CAPACITY_MIN_PAGES || pages * 4 >= capacity)) return;
    const wanted = pages <= capacity ? pages * 2 : Math.max(pages, Math.ceil(capacity * 1.5));
    const resized = new Int32Array(2 * Math.max(CAPACITY_MIN_PAGES, wanted));
    resized.set(this.#checksums.subarray(0, Math.min(this.#checksums.length, resized.length)));
    this.#checksums = resized;
  }
}
