/** What a journal handed over beyond the bucket's copy, on its way into the bucket under the claimer's own epoch (C4). */
import type { TailChoice } from "../cluster/tail-choice.js";
import { assert, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Payload } from "../journal/contract.js";
import { type Manifest, type SegmentEntry, withSegment } from "./manifest.js";
import { encodeBundle } from "./wal/bundle.js";
import { decodeSegment } from "./wal/segment.js";

/** Segments in order; the first continues what the bucket covers. */
export type Tail = readonly Uint8Array[];

export interface WithTail {
  readonly manifest: Manifest;
  /** Bodies that must be in the bucket before the manifest names them. */
  readonly beside: readonly { readonly entry: SegmentEntry; readonly bytes: Uint8Array }[];
}

/** What the claimer chose. @throws MoonportError `object_corrupt` */
export function tailOf(object: ObjectIdentity, choice: Exclude<TailChoice<Payload>, { kind: "waiting" }>): Tail {
  switch (choice.kind) {
    case "bucket":
      return [];
    case "tail":
      return [...choice.entries].map(({ payload }) => payload);
    case "own_file":
    case "broken":
      throw MoonportError.of("object_corrupt", `the tail of ${object.id} does not continue what the bucket holds`, {
        object: object.id,
        details: { ...choice },
        hint: "the object is not served: writes are missing between the bucket and the journals",
      });
  }
}

/** @throws MoonportError `object_corrupt` when the tail does not continue the content */
export function withTail(manifest: Manifest, tail: Tail): WithTail {
  if (tail.length === 0) return { manifest, beside: [] };
  const heads = tail.map((bytes) => decodeSegment(bytes, `a journal's segment of ${manifest.object}`));
  let due = manifest.seq + 1;
  let identity = manifest.identity;
  for (const { fromSeq, toSeq, identityBefore, identityAfter } of heads) {
    if (fromSeq !== due || identityBefore !== identity) {
      throw MoonportError.of(
        "object_corrupt",
        `a journal's segment ${fromSeq}-${toSeq} does not continue seq ${due - 1}`,
        {
          object: manifest.object,
        },
      );
    }
    due = toSeq + 1;
    identity = identityAfter;
  }
  const last = heads.at(-1);
  assert(last !== undefined, "a tail that is not empty has a last segment");
  const bytes = encodeBundle(tail);
  const entry = { epoch: manifest.epoch, fromSeq: manifest.seq + 1, toSeq: last.toSeq, bytes: bytes.length };
  const position = { seq: last.toSeq, identity, pages: last.finalPages, pageSize: last.pageSize };
  return { manifest: withSegment(manifest, entry, position, manifest.rid), beside: [{ entry, bytes }] };
}
