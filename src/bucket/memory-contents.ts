/**
 * What a memory bucket holds: keys, bytes and versions, changed one request at a time.
 *
 * Several memory buckets may stand on one of these, as the nodes of a fleet stand on one S3 bucket. Bytes are copied on
 * their way in and out, so nobody can change what is stored by keeping a reference.
 */
import { assert } from "../errors.js";
import type { BucketObject, BucketWrite, ListPage, Version, WriteCondition, WriteOutcome } from "./bucket.js";
import { compareUtf8 } from "./bucket-key.js";

export class MemoryContents {
  readonly #objects = new Map<string, BucketObject>();
  #lastVersion = 0;

  get(key: string): BucketObject | undefined {
    const stored = this.#objects.get(key);
    return stored && { bytes: new Uint8Array(stored.bytes), version: stored.version };
  }

  /** All of `writes`, or none when a condition does not hold. */
  apply(writes: readonly BucketWrite[]): WriteOutcome {
    const lost = writes.find((write) => !holds(write.condition, this.#objects.get(write.key)?.version));
    if (lost) return { kind: "lost", key: lost.key };
    return { kind: "landed", versions: writes.map((write) => this.#put(write.key, write.bytes)) };
  }

  delete(keys: readonly string[]): void {
    for (const key of keys) this.#objects.delete(key);
  }

  list(prefix: string, after: string | undefined, limit: number): ListPage {
    const matching = [...this.#objects.keys()]
      .filter((key) => key.startsWith(prefix) && (after === undefined || compareUtf8(key, after) > 0))
      .sort(compareUtf8);
    const keys = matching.slice(0, limit);
    const last = keys.at(-1);
    return matching.length > limit && last !== undefined ? { keys, next: last } : { keys };
  }

  /** Changes stored bytes behind everyone's back: the version stays. */
  corrupt(key: string, change: (bytes: Uint8Array) => Uint8Array): void {
    const stored = this.#objects.get(key);
    assert(stored, `there is no ${key} to corrupt`);
    this.#objects.set(key, { bytes: change(new Uint8Array(stored.bytes)), version: stored.version });
  }

  #put(key: string, bytes: Uint8Array): Version {
    const version = String(++this.#lastVersion);
    this.#objects.set(key, { bytes: new Uint8Array(bytes), version });
    return version;
  }
}

function holds(condition: WriteCondition | undefined, current: Version | undefined): boolean {
  if (condition === undefined) return true;
  return "absent" in condition ? current === undefined : current === condition.version;
}
