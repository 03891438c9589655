/**
 * The mark at the end of every body in S3: 20 bytes, new and random with each write.
 *
 * S3's version of an object is its ETag, for most stores the MD5 of its bytes: the same bytes written twice would have the
 * same version. A compare-and-swap could then pass over a change and a change back (ABA), and a write that replaced equal
 * bytes could not be told from one that never happened. The mark makes every write's bytes its own, so a version changes
 * with every write and never recurs, as the bucket's contract says, and callers need not make their bytes unique. Nor can
 * two bodies that somebody made to collide in MD5: their marks differ, and were drawn after them.
 *
 * Narrowing the contract instead, to bytes that are unique by themselves, would hold for manifests, which carry a random id;
 * but a caller that forgot it would lose writes on S3 alone, and seldom. The price is 20 bytes an object.
 *
 * It stands at the end, so that offsets are the caller's own and other tools still read a snapshot as SQLite or the
 * beginning of a manifest as JSON (`head -c -20` removes it); it is text, so that it spoils no terminal. An upload in parts
 * whose answer was lost is recognised by it. An object without one was put there by something else, or is cut off: it is
 * given as it stands, for what reads histories has checksums of its own and says better what is wrong.
 */
import type { Random } from "../../world/world.js";

const LABEL = "\n#mp";
const RANDOM_BYTES = 12;
/** 4 bytes of label, 16 of base64url: 96 random bits. */
export const MARK_BYTES = 20;

export type WriteMark = Buffer;

export function newMark(random: Random): WriteMark {
  return Buffer.from(LABEL + Buffer.from(random.bytes(RANDOM_BYTES)).toString("base64url"), "latin1");
}

export function marked(bytes: Uint8Array, mark: WriteMark): Buffer {
  return Buffer.concat([bytes, mark]);
}

export async function* markedParts(parts: AsyncIterable<Uint8Array>, mark: WriteMark): AsyncGenerator<Uint8Array> {
  yield* parts;
  yield mark;
}

/** The bytes without their mark. */
export function unmarked(stored: Buffer): Buffer {
  return endsMarked(stored) ? stored.subarray(0, stored.length - MARK_BYTES) : stored;
}

/** @param tail the stored object's last bytes, at least MARK_BYTES of them if it has as many */
export function endsMarked(tail: Buffer): boolean {
  const start = tail.length - MARK_BYTES;
  return start >= 0 && tail.toString("latin1", start, start + LABEL.length) === LABEL;
}
