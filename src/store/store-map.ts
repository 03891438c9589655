/**
 * `state.store`: values by key, kept beside the class's own tables.
 *
 * Values lately read or written stay in memory, bounded, and what a rolled-back call wrote leaves memory with it. What is set
 * is written right before COMMIT ({@link WaitingValues}); everything here sees it before. A volatile
 * write stores a log row instead of the value; a read folds the stored value and its log rows, so the log replays to the same
 * value after a crash, and it is folded into the stored value once it has grown.
 *
 * Values are kept by reference: whoever sets or gets one does not change it afterwards.
 */
import { MoonportError } from "../errors.js";
import { KEY_BYTES_MAX } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { ObjectDatabase } from "./object-database.js";
import { ValueCache } from "./value-cache.js";
import { decodeValue, encodeValue } from "./value-codec.js";
import { WaitingValues } from "./waiting-values.js";

export type StoreLimits = Pick<
  Settings,
  "STORE_CACHE_BYTES" | "VALUE_BYTES_MAX" | "SQL_ROWS_MAX" | "CALL_MEMORY_BYTES"
>;
export type StoreEntry = readonly [key: string, value: PlainValue];

/** A key's log is folded into its stored value beyond either. */
const LOG_ROWS_MAX = 256;
const LOG_BYTES_MAX = 256 * 1_024;

/** A value with its size: encoded, or of UTF-8 text. */
interface Sized {
  readonly value: PlainValue | undefined;
  readonly bytes: number;
}

export class StoreMap {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #limits: StoreLimits;
  readonly #cache: ValueCache;
  /** Keys changed in the open transaction: what memory holds of them goes with a rollback. */
  readonly #changed = new Set<string>();
  readonly #waiting: WaitingValues;

  constructor(database: ObjectDatabase, tables: KernelTables, limits: StoreLimits) {
    this.#database = database;
    this.#tables = tables;
    this.#limits = limits;
    this.#cache = new ValueCache(limits.STORE_CACHE_BYTES);
    this.#waiting = new WaitingValues(database);
    database.listen({
      rolledBack: () => {
        this.#waiting.rolledBack();
        for (const key of this.#changed) this.#cache.delete(key);
        // Of a savepoint's the others stay: what was written before it is read into memory again, and may still go.
        if (!database.inTransaction) this.#changed.clear();
      },
      committing: () => {
        for (const [key, bytes] of this.#waiting.entries()) this.#write(key, bytes);
        this.#waiting.clear();
      },
      committed: () => this.#changed.clear(),
    });
  }

  get(key: string): PlainValue | undefined {
    return this.#sized(key).value;
  }

  /** @throws MoonportError `bad_key`, `too_large` */
  set(key: string, value: PlainValue): void {
    checkStoreKey(key);
    const encoded = encodeValue(value, this.#limits.VALUE_BYTES_MAX, `the value of ${key}`);
    if (!this.#waiting.set(key, encoded)) this.#write(key, encoded);
    this.#remember(key, value, encoded);
  }

  /** Whether there was one. */
  delete(key: string): boolean {
    let rows = this.#waiting.take(key) === undefined ? 0 : 1;
    if (this.#tables.has("_mp_store")) rows += this.#remove("DELETE FROM _mp_store WHERE key = ?", key, "_mp_store");
    rows += this.#dropLog(key);
    if (rows > 0) this.#rememberSized(key, undefined, 0);
    return rows > 0;
  }

  /**
   * Entries whose key begins with `prefix`, in the order of their UTF-8 bytes.
   * @throws MoonportError `too_large` beyond SQL_ROWS_MAX entries or CALL_MEMORY_BYTES, unless `limit` stops before
   */
  list(prefix: string, limit = Number.POSITIVE_INFINITY): StoreEntry[] {
    const { SQL_ROWS_MAX: rowsMax, CALL_MEMORY_BYTES: bytesMax } = this.#limits;
    const keys = this.#keys(prefix, Math.min(limit, rowsMax + 1));
    const entries: StoreEntry[] = [];
    let bytesTotal = 0;
    for (const key of keys) {
      const { value, bytes } = this.#sized(key, false);
      bytesTotal += key.length + bytes;
      if (entries.length >= rowsMax || bytesTotal > bytesMax) throw tooMany(prefix, rowsMax, bytesMax);
      if (value !== undefined) entries.push([key, value]);
    }
    return entries;
  }

  /** Replaces the value by a log row alone. */
  setVolatile(key: string, value: PlainValue): void {
    checkStoreKey(key);
    const encoded = encodeValue(value, this.#limits.VALUE_BYTES_MAX, `the value of ${key}`);
    const isLong = this.#log(key, null, encoded, encoded.byteLength);
    this.#remember(key, value, encoded);
    if (isLong) this.#fold(key);
  }

  /** Appends to a text, or begins one. @throws MoonportError `bad_value` when the value is no text; `too_large` */
  appendVolatile(key: string, text: string): void {
    checkStoreKey(key);
    if (!text.isWellFormed()) throw MoonportError.of("bad_value", "text to append must be valid Unicode");
    const { value = "", bytes } = this.#sized(key);
    if (typeof value !== "string") {
      throw MoonportError.of("bad_value", `${key} holds no text to append to`, { hint: "set it to a text first" });
    }
    const added = Buffer.byteLength(text, "utf8");
    if (bytes + added > this.#limits.VALUE_BYTES_MAX) {
      throw MoonportError.of(
        "too_large",
        `the value of ${key} would be ${bytes + added} bytes; the limit is ${this.#limits.VALUE_BYTES_MAX}`,
      );
    }
    const isLong = this.#log(key, text, null, added);
    this.#rememberSized(key, value + text, bytes + added);
    if (isLong) this.#fold(key);
  }

  /** Folds every key's log into its stored value; in a transaction. Returns how many keys had one. */
  fold(): number {
    for (const key of [...this.#waiting.keys()]) this.#writeWaiting(key);
    if (!this.#tables.has("_mp_volatile")) return 0;
    const rows = this.#database.kernel("SELECT DISTINCT key FROM _mp_volatile").all();
    for (const [key] of rows) this.#fold(String(key));
    return rows.length;
  }

  #sized(key: string, mayCache = true): Sized {
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const waiting = this.#waiting.get(key);
    const read = waiting === undefined ? this.#replay(key, this.#stored(key)) : sizedValue(waiting);
    if (mayCache) this.#cache.set(key, read.value, read.bytes);
    return read;
  }

  #stored(key: string): Sized {
    if (!this.#tables.has("_mp_store")) return { value: undefined, bytes: 0 };
    const row = this.#database.kernel("SELECT value FROM _mp_store WHERE key = ?").get(key);
    return row === undefined ? { value: undefined, bytes: 0 } : sizedValue(row[0]);
  }

  #replay(key: string, stored: Sized): Sized {
    if (!this.#tables.has("_mp_volatile")) return stored;
    const rows = this.#database.kernel("SELECT text, value FROM _mp_volatile WHERE key = ? ORDER BY n").all(key);
    let current = stored;
    for (const [text, value] of rows) {
      if (value !== null) {
        current = sizedValue(value);
      } else {
        const before = typeof current.value === "string" ? current.value : "";
        current = { value: before + String(text), bytes: current.bytes + Buffer.byteLength(String(text), "utf8") };
      }
    }
    return current;
  }

  /** A log goes on from what stands in the file. */
  #writeWaiting(key: string): void {
    const bytes = this.#waiting.take(key);
    if (bytes !== undefined) this.#write(key, bytes);
  }

  #write(key: string, bytes: Uint8Array): void {
    this.#tables.ensure("_mp_store");
    this.#database
      .kernel("INSERT INTO _mp_store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
      .run(key, bytes);
    this.#dropLog(key);
  }

  /** Adds a row to the key's log; returns whether the log is long enough to be folded. */
  #log(key: string, text: string | null, value: Uint8Array | null, bytes: number): boolean {
    this.#writeWaiting(key);
    this.#tables.ensure("_mp_volatile");
    const last = this.#database
      .kernel("SELECT n, bytes FROM _mp_volatile WHERE key = ? ORDER BY n DESC LIMIT 1")
      .get(key);
    const n = Number(last?.[0] ?? 0) + 1;
    const total = Number(last?.[1] ?? 0) + bytes;
    this.#database.kernel("INSERT INTO _mp_volatile VALUES (?, ?, ?, ?, ?)").run(key, n, total, text, value);
    return n >= LOG_ROWS_MAX || total >= LOG_BYTES_MAX;
  }

  #fold(key: string): void {
    const { value } = this.#sized(key);
    if (value !== undefined) this.#write(key, encodeValue(value, Number.POSITIVE_INFINITY, key));
  }

  #dropLog(key: string): number {
    if (!this.#tables.has("_mp_volatile")) return 0;
    return this.#remove("DELETE FROM _mp_volatile WHERE key = ?", key, "_mp_volatile");
  }

  /** A delete that finds nothing must not make the call a writing one, so it looks first. */
  #remove(sql: string, key: string, table: "_mp_store" | "_mp_volatile"): number {
    const found = this.#database.kernel(`SELECT 1 FROM ${table} WHERE key = ? LIMIT 1`).get(key);
    return found === undefined ? 0 : this.#database.kernel(sql).run(key);
  }

  #remember(key: string, value: PlainValue, encoded: Uint8Array): void {
    this.#rememberSized(key, value, sizeOf(value, encoded));
  }

  #rememberSized(key: string, value: PlainValue | undefined, bytes: number): void {
    this.#changed.add(key);
    this.#cache.set(key, value, bytes);
  }

  #keys(prefix: string, limit: number): string[] {
    const written = this.#writtenKeys(prefix, limit);
    const waiting = [...this.#waiting.keys()].filter((key) => key.startsWith(prefix));
    if (waiting.length === 0) return written;
    const keys = [...new Set([...written, ...waiting])].map((key) => Buffer.from(key, "utf8"));
    return keys
      .sort(Buffer.compare)
      .slice(0, limit)
      .map((key) => key.toString("utf8"));
  }

  /** No UTF-8 text has a byte 0xFF, so the prefix with one behind it ends the range. */
  #writtenKeys(prefix: string, limit: number): string[] {
    const sources = (["_mp_store", "_mp_volatile"] as const).filter((table) => this.#tables.has(table));
    if (sources.length === 0) return [];
    const selects = sources.map(
      (table) => `SELECT DISTINCT key FROM ${table} WHERE key >= ? AND key < ? || CAST(x'ff' AS TEXT)`,
    );
    const bounds = sources.flatMap(() => [prefix, prefix]);
    return this.#database
      .kernel(`${selects.join(" UNION ")} ORDER BY key LIMIT ?`)
      .all(...bounds, limit)
      .map(([key]) => String(key));
  }
}

function checkStoreKey(key: string): void {
  const bytes = Buffer.byteLength(key, "utf8");
  if (bytes === 0 || bytes > KEY_BYTES_MAX) {
    throw MoonportError.of("bad_key", `a key of the store is 1 to ${KEY_BYTES_MAX} bytes; this one has ${bytes}`);
  }
  if (!key.isWellFormed()) throw MoonportError.of("bad_key", "a key of the store must be valid Unicode text");
}

function sizedValue(stored: unknown): Sized {
  const value = decodeValue(stored);
  return { value, bytes: sizeOf(value, stored as Uint8Array) };
}

/** A text counts by its own bytes, so that appending to it needs no encoding to know the sum. */
function sizeOf(value: PlainValue, encoded: Uint8Array): number {
  return typeof value === "string" ? Buffer.byteLength(value, "utf8") : encoded.byteLength;
}

function tooMany(prefix: string, rowsMax: number, bytesMax: number): MoonportError {
  return MoonportError.of("too_large", `more than ${rowsMax} entries or ${bytesMax} bytes begin with "${prefix}"`, {
    hint: "list a longer prefix, or keep that many values in a table",
  });
}
