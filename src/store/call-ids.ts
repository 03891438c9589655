/**
 * What became of calls that carried an id: id → reply, recorded in the call's own transaction, so that a repeat gets the first
 * reply and nothing runs twice.
 *
 * Records are kept for CALL_ID_RETENTION_MS and at most CALL_ID_ROWS_MAX of them. An id that carries its time (UUIDv7) and is
 * no newer than one whose record was deleted may have run: it is refused as expired rather than run again.
 */
import { createHash } from "node:crypto";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export type CallIdLimits = Pick<Settings, "CALL_ID_RETENTION_MS" | "CALL_ID_ROWS_MAX" | "VALUE_BYTES_MAX">;

export type CallLookup =
  | { readonly kind: "hit"; readonly reply: PlainValue; readonly seq: number }
  /** The id belongs to another method or other arguments. */
  | { readonly kind: "conflict" }
  /** Its record may have been deleted. */
  | { readonly kind: "expired" }
  | { readonly kind: "unknown" };

export interface CallRecord {
  readonly id: string;
  readonly method: string;
  readonly argsHash: Uint8Array;
  readonly reply: PlainValue;
  readonly seq: number;
  /** Wall clock, milliseconds. */
  readonly atMs: number;
}

/** Records are deleted this many at a time, every this many calls. */
const PRUNE_EVERY = 64;
const PRUNE_ROWS = 128;
const HASH_BYTES = 16;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export class CallIds {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #meta: Meta;
  readonly #limits: CallIdLimits;
  #last: number | undefined;
  #lastStored: { readonly id: string; readonly stored: string | Uint8Array } | undefined;

  constructor(database: ObjectDatabase, tables: KernelTables, meta: Meta, limits: CallIdLimits) {
    this.#database = database;
    this.#tables = tables;
    this.#meta = meta;
    this.#limits = limits;
    database.listen({
      rolledBack: () => {
        this.#last = undefined;
      },
      committed() {},
    });
  }

  lookup(id: string, method: string, argsHash: Uint8Array): CallLookup {
    const row = this.#tables.has("_mp_call")
      ? this.#database.kernel("SELECT method, args, reply, seq FROM _mp_call WHERE id = ?").get(this.#stored(id))
      : undefined;
    if (row === undefined) return this.#isExpired(id) ? { kind: "expired" } : { kind: "unknown" };
    const [recordedMethod, recordedHash, reply, seq] = row;
    const isSame = recordedMethod === method && Buffer.from(argsHash).equals(recordedHash as Uint8Array);
    return isSame ? { kind: "hit", reply: decodeValue(reply), seq: Number(seq) } : { kind: "conflict" };
  }

  /** With CALL_ID_ROWS_MAX 0 nothing is recorded. @throws MoonportError `too_large` */
  record(call: CallRecord): void {
    if (this.#limits.CALL_ID_ROWS_MAX === 0) return;
    const reply = encodeValue(call.reply, this.#limits.VALUE_BYTES_MAX, "the reply");
    this.#tables.ensure("_mp_call");
    const number = this.#lastNumber() + 1;
    this.#database
      .kernel("INSERT INTO _mp_call VALUES (?, ?, ?, ?, ?, ?, ?)")
      .run(number, this.#stored(call.id), call.method, call.argsHash, reply, call.seq, call.atMs);
    this.#last = number;
    if (number % PRUNE_EVERY === 0) this.prune(call.atMs);
  }

  get count(): number {
    if (!this.#tables.has("_mp_call")) return 0;
    return Number(this.#database.kernel("SELECT count(*) FROM _mp_call").get()?.[0] ?? 0);
  }

  /** Deletes what is beyond the bounds, a limited number a time; in a transaction. Returns how many. */
  prune(nowMs: number): number {
    if (!this.#tables.has("_mp_call")) return 0;
    const keptAbove = this.#lastNumber() - this.#limits.CALL_ID_ROWS_MAX;
    const keptSinceMs = nowMs - this.#limits.CALL_ID_RETENTION_MS;
    const oldest = this.#database.kernel("SELECT n, at_ms, id FROM _mp_call ORDER BY n LIMIT ?");
    // Mostly nothing is due: then one row tells.
    const [first, firstMs] = oldest.get(1) ?? [];
    if (first === undefined || (Number(first) > keptAbove && Number(firstMs) >= keptSinceMs)) return 0;
    let through = 0;
    let prunedMs = this.#meta.get("call_pruned_ms") ?? 0;
    for (const [n, atMs, id] of oldest.all(PRUNE_ROWS)) {
      const isKept = Number(n) > keptAbove && Number(atMs) >= keptSinceMs;
      // The newest record stays, for its number: numbers are never used twice.
      if (isKept || Number(n) === this.#lastNumber()) break;
      through = Number(n);
      prunedMs = Math.max(prunedMs, timeOfStoredId(id));
    }
    if (through === 0) return 0;
    this.#meta.set("call_pruned_ms", prunedMs);
    return this.#database.kernel("DELETE FROM _mp_call WHERE n <= ?").run(through);
  }

  /** An id is looked up and then recorded: the second time its stored form is known. */
  #stored(id: string): string | Uint8Array {
    if (this.#lastStored?.id !== id) this.#lastStored = { id, stored: storedId(id) };
    return this.#lastStored.stored;
  }

  #isExpired(id: string): boolean {
    const prunedMs = this.#meta.get("call_pruned_ms") ?? 0;
    const timeMs = timeOfStoredId(this.#stored(id));
    return timeMs > 0 && timeMs <= prunedMs;
  }

  #lastNumber(): number {
    this.#last ??= Number(this.#database.kernel("SELECT max(n) FROM _mp_call").get()?.[0] ?? 0);
    return this.#last;
  }
}

/**
 * What a repeat of a call must match besides its method: the encoded arguments themselves where they are short, else their
 * hash; the first byte tells which. Maps count as equal whatever the order of their keys.
 */
export function hashArguments(args: readonly PlainValue[]): Uint8Array {
  const bytes = encodeValue(
    args.some(isTable) ? args.map(inKeyOrder) : [...args],
    Number.POSITIVE_INFINITY,
    "the arguments",
  );
  const isShort = bytes.length <= HASH_BYTES;
  const body = isShort ? bytes : createHash("sha256").update(bytes).digest().subarray(0, HASH_BYTES);
  const marked = new Uint8Array(1 + body.length);
  marked[0] = isShort ? 0 : 1;
  marked.set(body, 1);
  return marked;
}

function isTable(value: PlainValue): boolean {
  return typeof value === "object" && value !== null && !(value instanceof Uint8Array);
}

function inKeyOrder(value: PlainValue): PlainValue {
  if (value === null || typeof value !== "object" || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map(inKeyOrder);
  const sorted: PlainObject = Object.create(null);
  for (const key of Object.keys(value).sort()) sorted[key] = inKeyOrder(value[key] as PlainValue);
  return sorted;
}

/** A UUID as its 16 bytes, which halves the index; anything else as text. */
function storedId(id: string): string | Uint8Array {
  if (!UUID.test(id)) return id;
  const digits = id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
  return Buffer.from(digits, "hex");
}

/** The time in a UUIDv7, milliseconds; 0 for an id that carries none. */
function timeOfStoredId(id: unknown): number {
  if (!(id instanceof Uint8Array) || id.length !== 16 || (id[6] as number) >> 4 !== 7) return 0;
  return Buffer.from(id.buffer, id.byteOffset, 6).readUIntBE(0, 6);
}
