/**
 * What became of calls that carried an id: id → reply, recorded in the transaction of the call's effect, so that a repeat gets
 * the first reply and nothing runs twice (W2, O2).
 *
 * Records are kept for CALL_ID_RETENTION_MS and at most CALL_ID_ROWS_MAX of them, the oldest go first. An id that carries its
 * time (UUIDv7) and is no newer than one whose record was deleted may have run: it is refused as expired rather than run again.
 *
 * **A row a transaction.** Calls share a transaction, and so do their records: they are collected in memory and written as one
 * row right before COMMIT. A record is added once its call's writes are kept, after which only the whole transaction is ever
 * rolled back; then everything in memory is dropped, and read again when it is asked for. Nothing of this table is written
 * inside a call's savepoint. So memory knows of no record that its transaction does not hold, and of every one that it does.
 *
 * **No index in the file**, which would cost every call a page of its own. An id is looked for by its print in memory
 * (record-index), where stands
 * - every record that was added since the file was opened, and
 * - of the earlier ones, the newest rows, as far back as somebody had to look.
 * Each row says the newest time in any id of it and of the rows before it. So an id newer than that of the last row not in
 * memory is in none of them, and one that is not found in memory was never recorded, or its record is deleted. An id that may
 * be in an earlier row is looked for there once: the rows that can hold it come into memory. An id without a time may be in any.
 *
 * **Lives.** When an object ends, its records go with it. So that a repeat does not run in the next life, that one is told the last
 * ids, of which it is known that they ran. Why not of all before them the newest time: it would refuse what has never run, such as
 * what one request asks of an object before and after it ended, or a delivery whose outcome was lost, which nobody would make then.
 *
 * **Clocks.** Ids carry the clocks of their makers. One from far ahead would, once deleted, make every id before it expired: a
 * deleted id counts only if it was at most CALL_ID_AHEAD_MS ahead of the node's clock, else it is like one without time.
 */
import { assert } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import { argumentsToMatch, isMatch } from "./call-arguments.js";
import { type CallId, type CallRecord, encodeRecords, readCallId, readHeads, recordBytes } from "./call-records.js";
import { earlierRecords } from "./earlier-call-ids.js";
import type { KernelTables } from "./kernel-tables.js";
import type { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";
import { RecordIndex } from "./record-index.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export type CallIdLimits = Pick<Settings, "CALL_ID_RETENTION_MS" | "CALL_ID_ROWS_MAX" | "VALUE_BYTES_MAX">;

export type CallLookup =
  | { readonly kind: "hit"; readonly reply: PlainValue; readonly seq: number }
  /** The id belongs to another method, other arguments or somebody else. */
  | { readonly kind: "conflict" }
  /** Its record may have been deleted, as that of any id of this time or before. */
  /** Without a record that may have been there; or one is known to have been, in an earlier life. */
  | { readonly kind: "expired"; readonly throughMs: number; readonly hasRun: boolean }
  | { readonly kind: "unknown" };

export interface RecordedCall {
  readonly id: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
  /** Whoever asked in the end, if that is known. */
  readonly principal?: string | undefined;
  readonly reply: PlainValue;
  readonly seq: number;
}

/** An id as far ahead of the node's clock as this still counts as one that carries its time. */
export const CALL_ID_AHEAD_MS = 60_000;

/** Records are deleted about this many at a time, every so many calls. */
const PRUNE_EVERY = 64;
const PRUNE_RECORDS = 128;
/** A row ends with the record that reaches this, so that a repeat reads little beside its own. */
const ROW_BYTES = 16 * 1024;
/** Rows read in one go. */
const LOAD_ROWS = 128;
const EMPTY = new Uint8Array(0);
const UNKNOWN: CallLookup = { kind: "unknown" };

/** What memory knows of the records. */
interface Known {
  readonly index: RecordIndex;
  /** Number of the last record, of those that wait to be written too; they are numbered from 1 without gaps. */
  last: number;
  /** Number of the last record in the file. */
  written: number;
  /** Node's clock at the last row; it never falls from row to row. */
  atMs: number;
  /** No id is newer, of those that are deleted or wait to be written neither. */
  newestMs: number;
  /** Records up to this number are not in the index, and no id among them is newer than `unloadedMs`. */
  unloadedThrough: number;
  unloadedMs: number;
}

type Found = Omit<CallRecord, "id">;

/** Of the table, without the replies. */
interface Row {
  /** Number of its last record. */
  readonly n: number;
  readonly heads: unknown;
}

/** Of the lives before this one. */
export interface UsedIds {
  /** Calls under an id of this time or before may have run: their records had been deleted. */
  readonly throughMs: number;
  /** Calls that ran, the last ones. */
  readonly ids: readonly string[];
}

/** Of so many ids the next life is told. */
const USED_IDS_MAX = 32;

export class CallIds {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #meta: Meta;
  readonly #limits: CallIdLimits;
  readonly #seed: number;
  /** Undefined until somebody asks. */
  #known: Known | undefined;
  /** Records of the open transaction, not written yet. */
  #waiting: CallRecord[] = [];
  /** In the open transaction. */
  #hasWritten = false;
  #lastRead: CallId | undefined;

  /** @param seed of the prints of ids: 32 bits that callers do not know */
  constructor(database: ObjectDatabase, tables: KernelTables, meta: Meta, limits: CallIdLimits, seed: number) {
    this.#database = database;
    this.#tables = tables;
    this.#meta = meta;
    this.#limits = limits;
    this.#seed = seed;
    database.listen({
      rolledBack: () => {
        // A savepoint alone, or a transaction that nothing here came from.
        if (database.inTransaction || (this.#waiting.length === 0 && !this.#hasWritten)) return;
        this.#known = undefined;
        this.#waiting = [];
        this.#hasWritten = false;
      },
      committed: () => {
        assert(this.#waiting.length === 0, "a commit without the records of its calls");
        this.#hasWritten = false;
      },
    });
  }

  /** In a transaction, outside of any savepoint. */
  lookup(id: string, method: string, args: readonly PlainValue[], principal?: string): CallLookup {
    const callId = this.#read(id);
    if (callId.timeMs > this.#know().newestMs) return UNKNOWN;
    const found = this.#find(callId);
    if (found === undefined) {
      const { throughMs, ids } = this.used;
      const hasRun = ids.includes(id);
      const isExpired = hasRun || (callId.timeMs > 0 && callId.timeMs <= throughMs);
      return isExpired ? { kind: "expired", throughMs: Math.max(throughMs, callId.timeMs), hasRun } : UNKNOWN;
    }
    if (found.method !== method || !isMatch(found.args, args, principal)) return { kind: "conflict" };
    return { kind: "hit", reply: found.reply.length === 0 ? null : decodeValue(found.reply), seq: found.seq };
  }

  /**
   * What is to be recorded of a call, while it may still fail. With CALL_ID_ROWS_MAX 0 nothing is.
   * @throws MoonportError `too_large`
   */
  prepare(call: RecordedCall): CallRecord | undefined {
    if (this.#limits.CALL_ID_ROWS_MAX === 0) return undefined;
    const { method, seq } = call;
    const reply = call.reply === null ? EMPTY : encodeValue(call.reply, this.#limits.VALUE_BYTES_MAX, "the reply");
    return { id: this.#read(call.id), method, args: argumentsToMatch(call.args, call.principal), seq, reply };
  }

  /** After the call's savepoint was released, if it had one. */
  add(record: CallRecord): void {
    const known = this.#know();
    known.last += 1;
    known.newestMs = Math.max(known.newestMs, record.id.timeMs);
    known.index.add(record.id.print, known.last);
    this.#waiting.push(record);
  }

  /** Writes what was added; right before COMMIT, outside of any savepoint. */
  write(nowMs: number): void {
    if (this.#waiting.length === 0) return;
    const known = this.#know();
    this.#tables.ensure("_mp_reply");
    this.#hasWritten = true;
    known.atMs = Math.max(known.atMs, nowMs);
    const before = known.written;
    for (let from = 0; from < this.#waiting.length; ) {
      const end = rowEnd(this.#waiting, from);
      this.#writeRow(known, this.#waiting.slice(from, end));
      from = end;
    }
    this.#waiting = [];
    if (Math.floor(before / PRUNE_EVERY) !== Math.floor(known.written / PRUNE_EVERY)) this.prune(nowMs);
  }

  /** Records in the file. */
  get count(): number {
    if (!this.#tables.has("_mp_reply")) return 0;
    const [n, heads] = this.#database.kernel("SELECT n, heads FROM _mp_reply ORDER BY n LIMIT 1").get() ?? [];
    return n === undefined ? 0 : this.#know().written - Number(n) + readHeads(heads).length;
  }

  /** As if no call had ever carried an id; in a transaction. */
  forgetAll(): void {
    for (const table of ["_mp_reply", "_mp_call"] as const) {
      if (this.#tables.has(table)) this.#tables.drop(table);
    }
    if (this.#meta.get("call_pruned_ms") !== undefined) this.#meta.set("call_pruned_ms", 0);
    if (this.used.ids.length > 0) this.#meta.set("call_ids_used", []);
    this.#known = undefined;
  }

  /** Ids without a record here under which calls may have run; when the object has ended: all, for its next life. */
  get used(): UsedIds {
    return { throughMs: this.#meta.get("call_pruned_ms") ?? 0, ids: this.#meta.get("call_ids_used") ?? [] };
  }

  /** In the transaction that ends the object, before {@link write}; nothing is looked up any more. */
  noteEnd(): void {
    this.#noteUsed(this.#usedByNow());
  }

  /** In the first transaction of a life. */
  startAfter(used: UsedIds): void {
    this.#noteUsed(used);
    this.#known = undefined;
  }

  #noteUsed({ throughMs, ids }: UsedIds): void {
    this.#hasWritten = true;
    if (throughMs > 0) this.#meta.set("call_pruned_ms", throughMs);
    if (ids.length > 0 || this.used.ids.length > 0) this.#meta.set("call_ids_used", [...ids]);
  }

  #usedByNow(): UsedIds {
    const { throughMs, ids } = this.used;
    const last = this.#waiting.map(({ id }) => id.text).reverse();
    let row = this.#rowThrough(this.#know().written);
    for (; row !== undefined && last.length < USED_IDS_MAX; row = this.#rowThrough(row.n - 1)) {
      for (const { id } of readHeads(row.heads).reverse()) last.push(id);
    }
    return { throughMs, ids: [...last, ...ids].slice(0, USED_IDS_MAX) };
  }

  /** The last row of the records up to this one. */
  #rowThrough(number: number): Row | undefined {
    if (!this.#tables.has("_mp_reply")) return undefined;
    const row = this.#database
      .kernel("SELECT n, heads FROM _mp_reply WHERE n <= ? ORDER BY n DESC LIMIT 1")
      .get(number);
    return row && { n: Number(row[0]), heads: row[1] };
  }

  /** Deletes what is beyond the bounds, a limited number a time; in a transaction. */
  prune(nowMs: number): void {
    const prunable = this.#prunable(nowMs);
    if (prunable === undefined) return;
    this.#hasWritten = true;
    const { through, atMs, newestMs } = prunable;
    // The newest id through a row is that of all deleted ones, unless it is not to be trusted.
    const isTrusted = newestMs <= atMs + CALL_ID_AHEAD_MS;
    const deletedMs = isTrusted ? newestMs : this.#newestTrusted(through);
    this.#meta.set("call_pruned_ms", Math.max(deletedMs, this.#meta.get("call_pruned_ms") ?? 0));
    this.#database.kernel("DELETE FROM _mp_reply WHERE n <= ?").run(through);
    this.#know().index.forgetThrough(through);
  }

  /** The newest of the oldest rows that need not be kept: its number, node's clock, newest id. Times and numbers never fall. */
  #prunable(nowMs: number): { through: number; atMs: number; newestMs: number } | undefined {
    if (!this.#tables.has("_mp_reply")) return undefined;
    const { written } = this.#know();
    const keptAbove = written - this.#limits.CALL_ID_ROWS_MAX;
    const keptSinceMs = nowMs - this.#limits.CALL_ID_RETENTION_MS;
    const [first, firstMs] = this.#database.kernel("SELECT n, at_ms FROM _mp_reply ORDER BY n LIMIT 1").get() ?? [];
    // Mostly nothing is due: then one row tells.
    if (first === undefined || (Number(first) > keptAbove && Number(firstMs) >= keptSinceMs)) return undefined;
    const row = this.#database
      .kernel("SELECT n, at_ms, newest_ms FROM _mp_reply WHERE n < ? AND (n <= ? OR at_ms < ?) ORDER BY n DESC LIMIT 1")
      .get(Number(first) + PRUNE_RECORDS, keptAbove, keptSinceMs);
    return row && { through: Number(row[0]), atMs: Number(row[1]), newestMs: Number(row[2]) };
  }

  #newestTrusted(through: number): number {
    let newestMs = 0;
    for (const [atMs, heads] of this.#database.kernel("SELECT at_ms, heads FROM _mp_reply WHERE n <= ?").all(through)) {
      const trustedMs = Number(atMs) + CALL_ID_AHEAD_MS;
      for (const { timeMs } of readHeads(heads)) if (timeMs <= trustedMs) newestMs = Math.max(newestMs, timeMs);
    }
    return newestMs;
  }

  #writeRow(known: Known, records: readonly CallRecord[]): void {
    const { heads, replies } = encodeRecords(records);
    const n = known.written + records.length;
    this.#database
      .kernel("INSERT INTO _mp_reply VALUES (?, ?, ?, ?, ?)")
      .run(n, known.atMs, known.newestMs, heads, replies);
    known.written = n;
  }

  /** An id is looked up and then recorded: it is read once. */
  #read(id: string): CallId {
    if (this.#lastRead?.text !== id) this.#lastRead = readCallId(id, this.#seed);
    return this.#lastRead;
  }

  #find(id: CallId): Found | undefined {
    const known = this.#know();
    const look = (number: number): Found | undefined => this.#recordAt(known, number, id);
    const found = known.index.find(id.print, look);
    const mayBeEarlier = known.unloadedThrough > 0 && (id.timeMs === 0 || id.timeMs <= known.unloadedMs);
    if (found !== undefined || !mayBeEarlier) return found;
    this.#load(known, id.timeMs);
    return known.index.find(id.print, look);
  }

  /** The record of a number, if it is this id's. */
  #recordAt(known: Known, number: number, { text }: CallId): Found | undefined {
    if (number > known.written) {
      const record = this.#waiting[number - known.written - 1];
      return record?.id.text === text ? record : undefined;
    }
    const [n, blob, replies] =
      this.#database.kernel("SELECT n, heads, replies FROM _mp_reply WHERE n >= ? ORDER BY n LIMIT 1").get(number) ??
      [];
    const heads = readHeads(blob);
    const head = heads[number - (Number(n) - heads.length) - 1];
    if (head?.id !== text) return undefined;
    return { method: head.method, args: head.args, seq: head.seq, reply: head.replyIn(replies) };
  }

  /** Brings into memory the rows that may hold an id of this time, the newest first. */
  #load(known: Known, timeMs: number): void {
    const below = this.#database.kernel(
      "SELECT n, newest_ms, heads FROM _mp_reply WHERE n <= ? ORDER BY n DESC LIMIT ?",
    );
    for (;;) {
      const rows = below.all(known.unloadedThrough, LOAD_ROWS);
      for (const [n, newestMs, blob] of rows) {
        known.unloadedThrough = Number(n);
        known.unloadedMs = Number(newestMs);
        if (known.unloadedMs < timeMs) return;
        const heads = readHeads(blob);
        known.unloadedThrough -= heads.length;
        for (const [at, head] of heads.entries()) {
          known.index.add(head.print(this.#seed), known.unloadedThrough + 1 + at);
        }
      }
      if (rows.length < LOAD_ROWS) {
        known.unloadedThrough = 0;
        return;
      }
    }
  }

  #know(): Known {
    if (this.#known !== undefined) return this.#known;
    const row = this.#tables.has("_mp_reply")
      ? this.#database.kernel("SELECT n, at_ms, newest_ms FROM _mp_reply ORDER BY n DESC LIMIT 1").get()
      : undefined;
    const [last, atMs, rowMs] = (row ?? [0, 0, 0]).map(Number) as [number, number, number];
    const { throughMs, ids } = this.used;
    const newestMs = ids.reduce((newest, id) => Math.max(newest, this.#read(id).timeMs), Math.max(rowMs, throughMs));
    const index = new RecordIndex();
    const known = { index, last, written: last, atMs, newestMs, unloadedThrough: last, unloadedMs: newestMs };
    this.#known = known;
    if (this.#tables.has("_mp_call")) this.#takeOver();
    return known;
  }

  /** Records of the table of before become records of this one. */
  #takeOver(): void {
    this.#hasWritten = true;
    for (const { records, atMs } of earlierRecords(this.#database, this.#seed)) {
      for (const record of records) this.add(record);
      this.write(atMs);
    }
    this.#tables.drop("_mp_call");
  }
}

/** Behind the last record of the row that begins at `from`. */
function rowEnd(records: readonly CallRecord[], from: number): number {
  let bytes = 0;
  let end = from;
  while (end < records.length && bytes < ROW_BYTES) bytes += recordBytes(records[end++] as CallRecord);
  return end;
}
