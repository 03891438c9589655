/**
 * One try of a manifest's compare-and-swap, resolved as far as it can be.
 *
 * A store that answers "the condition failed" may be answering to our own earlier write whose answer was lost, and a
 * request that failed may have landed: both are settled by reading back and looking for our random id. The old version
 * still standing proves nothing, for the write may yet land (O5): then the try fails, and the caller repeats the *same*
 * write until the version moves.
 */
import { type Bucket, type BucketObject, type BucketWrite, mayHaveLanded, type Version } from "../bucket/bucket.js";

export type CasResult =
  | { readonly kind: "landed"; readonly version: Version }
  /** Somebody else's write stands there. */
  | { readonly kind: "lost"; readonly current: BucketObject | undefined };

export interface CasWrite {
  readonly key: string;
  readonly bytes: Uint8Array;
  /** The version it replaces; undefined: the key must be absent. */
  readonly replaces: Version | undefined;
  /** Whether bytes found at the key are this write's. */
  readonly isOurs: (bytes: Uint8Array) => boolean;
  /** Written in the same transaction; only for an atomic bucket. */
  readonly beside?: readonly BucketWrite[];
}

/** Rejects when the write failed or is in doubt; the same write may then be tried again. */
export async function tryCas(bucket: Bucket, write: CasWrite): Promise<CasResult> {
  const condition = write.replaces === undefined ? { absent: true as const } : { version: write.replaces };
  const writes = [...(write.beside ?? []), { key: write.key, bytes: write.bytes, condition }];
  let doubt: unknown;
  try {
    const outcome = await bucket.write(writes);
    if (outcome.kind === "landed") return { kind: "landed", version: outcome.versions.at(-1) as Version };
  } catch (error) {
    if (!mayHaveLanded(error)) throw error;
    doubt = error;
  }
  const current = await bucket.get(write.key);
  if (current !== undefined && write.isOurs(current.bytes)) return { kind: "landed", version: current.version };
  if (doubt !== undefined && current?.version === write.replaces) throw doubt;
  return { kind: "lost", current };
}
