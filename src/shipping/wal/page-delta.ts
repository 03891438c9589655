/**
 * A page as what changed against its last shipped image: ranges of new bytes, each as (bytes to skip, bytes that follow).
 *
 * A delta means something only over the very base it was made from, so it may travel only in an unbroken chain of segments
 * from a snapshot that holds that base; a wrong base shows in the identity that every segment carries.
 */
import { assert } from "../../errors.js";
import { ByteReader, putVarint } from "./byte-reader.js";
import { wordsOf } from "./words.js";

/** Two varints of at most three bytes: a page has at most 65,536 bytes. */
const RANGE_HEAD_BYTES_MAX = 6;
const scratch = new Uint8Array(65_536);

/**
 * `undefined` when the whole page is not larger. Both are pages of one size. The delta is a view of a buffer that the next
 * call uses again: copy it.
 */
export function encodeDelta(base: Uint8Array, image: Uint8Array): Uint8Array | undefined {
  assert(base.length === image.length, "a delta's base has the size of its page");
  const before = wordsOf(base);
  const words = wordsOf(image);
  const count = words.length;
  let used = 0;
  let end = 0;
  for (let at = 0; at < count; at++) {
    if (before[at] === words[at]) continue;
    let from = at * 4;
    do at++;
    while (at < count && before[at] !== words[at]);
    let to = at * 4;
    while (base[from] === image[from]) from++;
    while (base[to - 1] === image[to - 1]) to--;
    if (used + RANGE_HEAD_BYTES_MAX + to - from >= image.length) return undefined;
    used = putVarint(scratch, used, from - end);
    used = putVarint(scratch, used, to - from);
    while (from < to) scratch[used++] = image[from++] as number;
    end = to;
  }
  return scratch.subarray(0, used);
}

/** The page that `delta` was made from, as a new array. @throws MoonportError `object_corrupt` */
export function applyDelta(base: Uint8Array, delta: Uint8Array): Uint8Array {
  const reader = new ByteReader(delta, "a page delta");
  const image = new Uint8Array(base);
  let at = 0;
  while (reader.remaining > 0) {
    at += reader.varint("a range's place");
    const length = reader.varint("a range's length");
    if (length === 0 || at + length > image.length) reader.refuse("a range lies outside its page");
    image.set(reader.bytes(length, "a range"), at);
    at += length;
  }
  return image;
}
