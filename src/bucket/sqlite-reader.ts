/**
 * The reading half of the embedded bucket, on a connection of its own: in WAL mode a reader sees every landed write and
 * waits for none that is under way.
 */
import type { Database, Statement } from "better-sqlite3";
import type { BucketObject, Version } from "./bucket.js";
import { compareUtf8 } from "./bucket-key.js";
import type { ReadRequest, StoreAnswer } from "./sqlite-protocol.js";
import { openBucketFile } from "./sqlite-schema.js";
import { failureOf, partId } from "./sqlite-store.js";

/** Answers beyond this hold no more, so that many large objects never stand in memory at once. */
const MANY_BYTES = 8 * 1024 * 1024;

interface StoredRow {
  readonly version: number;
  readonly body: number;
  readonly bytes: Uint8Array | null;
}

interface StoredPart {
  readonly bytes: Uint8Array;
  readonly last: 0 | 1;
}

export class SqliteReader {
  readonly #database: Database;
  readonly #row: Statement;
  readonly #part: Statement;
  readonly #parts: Statement;
  readonly #keysFrom: Statement;
  readonly #keysAfter: Statement;
  readonly #wholeObject: (key: string) => StoreAnswer;
  readonly #objects: (keys: readonly string[]) => StoreAnswer;

  constructor(file: string, busyTimeoutMs: number) {
    this.#database = openBucketFile(file, { busyTimeoutMs, write: false });
    this.#row = this.#database.prepare("SELECT version, body, bytes FROM objects WHERE key = ?");
    // One statement, so one snapshot: a part that is the last only because the others are gone would end the stream early.
    this.#part = this.#database.prepare(
      "SELECT bytes, NOT EXISTS (SELECT 1 FROM parts WHERE id = ?) AS last FROM parts WHERE id = ?",
    );
    this.#parts = this.#database.prepare("SELECT bytes FROM parts WHERE id >= ? AND id < ? ORDER BY id").pluck();
    this.#keysFrom = this.#database.prepare("SELECT key FROM objects WHERE key >= ? ORDER BY key").pluck();
    this.#keysAfter = this.#database.prepare("SELECT key FROM objects WHERE key > ? ORDER BY key").pluck();
    // Row and parts from one snapshot, or a replacement between the two would leave a row without its parts.
    this.#wholeObject = this.#database.transaction((key: string): StoreAnswer => {
      const found = this.#get(key);
      return found === undefined ? { kind: "absent" } : { kind: "object", ...found };
    });
    this.#objects = this.#database.transaction((keys: readonly string[]) => this.#getMany(keys));
  }

  close(): void {
    this.#database.close();
  }

  answer(request: ReadRequest): StoreAnswer {
    try {
      return this.#answer(request);
    } catch (error) {
      return failureOf("refused", error);
    }
  }

  #answer(request: ReadRequest): StoreAnswer {
    switch (request.kind) {
      case "get":
        return this.#wholeObject(request.key);
      case "get_many":
        return this.#objects(request.keys);
      case "open":
        return this.#open(request.key);
      case "part":
        return this.#onePart(request.body, request.part);
      case "list":
        return this.#list(request.prefix, request.after, request.limit);
    }
  }

  #getMany(keys: readonly string[]): StoreAnswer {
    const versions: (Version | undefined)[] = [];
    const bytes: Uint8Array[] = [];
    let sizeBytes = 0;
    for (const key of keys) {
      const found = this.#get(key);
      versions.push(found?.version);
      if (found === undefined) continue;
      bytes.push(found.bytes);
      sizeBytes += found.bytes.length;
      if (sizeBytes > MANY_BYTES) break;
    }
    return { kind: "objects", versions, bytes };
  }

  #get(key: string): BucketObject | undefined {
    const row = this.#row.get(key) as StoredRow | undefined;
    if (!row) return undefined;
    if (row.body === 0) return objectOf(row);
    const parts = this.#parts.all(partId(row.body, 0), partId(row.body + 1, 0)) as Uint8Array[];
    const [first] = parts;
    const bytes = parts.length === 1 && first ? first : Buffer.concat(parts);
    return { bytes, version: String(row.version) };
  }

  #open(key: string): StoreAnswer {
    const row = this.#row.get(key) as StoredRow | undefined;
    if (!row) return { kind: "absent" };
    return row.body === 0 ? { kind: "object", ...objectOf(row) } : { kind: "body", body: row.body };
  }

  #onePart(body: number, part: number): StoreAnswer {
    const found = this.#part.get(partId(body, part + 1), partId(body, part)) as StoredPart | undefined;
    if (found) return { kind: "part", bytes: found.bytes, last: found.last === 1 };
    return {
      kind: "failed",
      outcome: "refused",
      message: "the object was replaced or deleted while it was being read",
      storage: undefined,
    };
  }

  #list(prefix: string, after: string | undefined, limit: number): StoreAnswer {
    const continues = after !== undefined && compareUtf8(after, prefix) >= 0;
    const rows = continues ? this.#keysAfter.iterate(after) : this.#keysFrom.iterate(prefix);
    const keys: string[] = [];
    for (const key of rows as IterableIterator<string>) {
      if (!key.startsWith(prefix)) break;
      if (keys.length === limit) return { kind: "keys", keys, more: true };
      keys.push(key);
    }
    return { kind: "keys", keys, more: false };
  }
}

function objectOf(row: StoredRow): BucketObject {
  return { bytes: row.bytes ?? new Uint8Array(0), version: String(row.version) };
}
