/**
 * Bytes seen as 32-bit words, which is what makes checksums and comparisons cheap: a page is walked in a quarter of the
 * steps and without a bounds check for each byte.
 */
import { endianness } from "node:os";
import { assert } from "../../errors.js";

// Checksums in segments and manifests are defined over little-endian words and travel between machines.
assert(endianness() === "LE", "page checksums need a little-endian machine");

/** The whole words of `bytes`: a view where its alignment allows, else of a copy. */
export function wordsOf(bytes: Uint8Array): Int32Array {
  const aligned = (bytes.byteOffset & 3) === 0 ? bytes : new Uint8Array(bytes);
  return new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >>> 2);
}

/** Reverses the four bytes of a word. */
export function swapped(word: number): number {
  return (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24);
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Eight hexadecimal digits. By the byte: `toString(16)` of a number this large goes through floating point. */
export function hexOf(word: number): string {
  const byte = (shift: number): string => HEX[(word >>> shift) & 0xff] as string;
  return byte(24) + byte(16) + byte(8) + byte(0);
}

/** SQLite's page sizes: powers of two from 512 to 65536. */
export function isPageSize(bytes: number): boolean {
  return bytes >= 512 && bytes <= 65_536 && (bytes & (bytes - 1)) === 0;
}

/** The page that holds byte 2^30, where SQLite places its file locks: never written, so it belongs to no state. */
export function lockPage(pageSize: number): number {
  return 0x40000000 / pageSize + 1;
}
