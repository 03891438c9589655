/**
 * The stalls of each method of each object, kept in the bucket: a record outlives the process that stalled, and its disk.
 *
 * A record changes only by compare-and-swap, and every stall has an id, so taking note of one twice counts once.
 */
import type { Bucket, Version } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { POISON_PREFIX, poisonKey } from "../shipping/layout.js";
import type { Stall } from "../world/watchdog/stall.js";

export interface PoisonRecord {
  /** `app/Class/key` */
  readonly object: string;
  /** The method, or `on_create`, `on_wake`, `directory.row`, `migrations`. */
  readonly method: string;
  /** The last ones, the oldest first. */
  readonly stalls: readonly RecordedStall[];
}

export type RecordedStall = Pick<Stall, "id" | "atMs" | "silentMs" | "statement">;

/** More than QUARANTINE_STALLS can ask for. */
const STALLS_KEPT = 20;
const ATTEMPTS_MAX = 20;

export class PoisonRecords {
  readonly #bucket: Bucket;

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  /** @throws MoonportError `bucket_failed` */
  async all(): Promise<PoisonRecord[]> {
    const records: PoisonRecord[] = [];
    let after: string | undefined;
    do {
      const page = await this.#bucket.list(POISON_PREFIX, after === undefined ? {} : { after });
      for (const key of page.keys) {
        const found = await this.#read(key);
        if (found !== undefined) records.push(found.record);
      }
      after = page.next;
    } while (after !== undefined);
    return records;
  }

  /** Durable when it resolves. @throws MoonportError `bucket_failed` */
  async note(object: ObjectIdentity, method: string, stall: Stall): Promise<void> {
    const key = poisonKey(object, method);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const found = await this.#read(key);
      const before = found?.record.stalls ?? [];
      if (before.some(({ id }) => id === stall.id)) return;
      const record: PoisonRecord = {
        object: object.id,
        method,
        stalls: [...before, recorded(stall)].slice(-STALLS_KEPT),
      };
      const condition = found === undefined ? { absent: true as const } : { version: found.version };
      const outcome = await this.#bucket.write([{ key, bytes: Buffer.from(JSON.stringify(record)), condition }]);
      if (outcome.kind === "landed") return;
    }
    throw MoonportError.of("bucket_failed", `${key} changes faster than a stall can be noted in it`);
  }

  /** @returns whether there was a record @throws MoonportError `bucket_failed` */
  async forget(object: ObjectIdentity, method: string): Promise<boolean> {
    const key = poisonKey(object, method);
    const found = await this.#bucket.get(key);
    await this.#bucket.delete([key]);
    return found !== undefined;
  }

  async #read(key: string): Promise<{ readonly record: PoisonRecord; readonly version: Version } | undefined> {
    const found = await this.#bucket.get(key);
    if (found === undefined) return undefined;
    const record = JSON.parse(Buffer.from(found.bytes).toString("utf8")) as PoisonRecord;
    return { record, version: found.version };
  }
}

function recorded({ id, atMs, silentMs, statement }: Stall): RecordedStall {
  return { id, atMs, silentMs, ...(statement !== undefined && { statement }) };
}
