/**
 * The events an object emitted: numbered from 1 without gaps, kept for a while for those who resume by number.
 *
 * A number is never given twice, whatever was deleted: the last one is remembered beyond the row that carried it.
 *
 * Those of a transaction are written together, right before COMMIT: a statement of many rows costs a third of as many statements.
 * So wait some; the events of a transaction beyond those are written one by one, in the time of the call that emits them. They
 * follow all that wait, and are rolled back before any of those.
 */
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { Meta } from "./meta.js";
import type { ObjectDatabase } from "./object-database.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export type EventLimits = Pick<Settings, "EVENT_ROWS_MAX" | "EVENT_RETENTION_MS" | "VALUE_BYTES_MAX">;

export interface EventRow {
  readonly number: number;
  readonly name: string;
  readonly data: PlainValue;
  /** Wall clock of the call's start, milliseconds. */
  readonly atMs: number;
}

/** Events are deleted this many at a time, every this many events. */
const PRUNE_EVERY = 64;
const PRUNE_ROWS = 128;
/** One read stops after the event that reaches this. */
const READ_BYTES = 1024 * 1024;
/** Rows that one statement writes; what is left of them goes one by one. */
const ROWS_TOGETHER = 16;
const ROW = "(?, ?, ?, ?)";
const INSERT_ONE = `INSERT INTO _mp_event VALUES ${ROW}`;
const INSERT_MANY = `INSERT INTO _mp_event VALUES ${Array(ROWS_TOGETHER).fill(ROW).join(", ")}`;

/** What waits for COMMIT: beyond either, events are written at once. */
const WAITING_ROWS_MAX = 256;
const WAITING_BYTES_MAX = 256 * 1024;

/** An event of the open transaction, not written yet. */
interface WaitingEvent {
  readonly row: readonly [number: number, name: string, data: Uint8Array, atMs: number];
  /** {@link ObjectDatabase.writeMark} right after it: rolled back to a mark below, it was never there. */
  readonly mark: number;
}

export class Events {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #meta: Meta;
  readonly #limits: EventLimits;
  #last: number | undefined;
  #waiting: WaitingEvent[] = [];
  #waitingBytes = 0;
  /** Of the event that was appended last, whatever became of it. */
  #lastAtMs = 0;

  constructor(database: ObjectDatabase, tables: KernelTables, meta: Meta, limits: EventLimits) {
    this.#database = database;
    this.#tables = tables;
    this.#meta = meta;
    this.#limits = limits;
    database.listen({
      rolledBack: () => {
        this.#last = undefined;
        this.#dropRolledBack();
      },
      committing: () => this.#write(),
      committed() {},
    });
  }

  /** Returns the event's number. @throws MoonportError `too_large` */
  append(name: string, data: PlainValue, atMs: number): number {
    const bytes = encodeValue(data, this.#limits.VALUE_BYTES_MAX, `the data of event ${name}`);
    const number = this.last + 1;
    const row = [number, name, bytes, atMs] as const;
    if (this.#isFull) {
      this.#tables.ensure("_mp_event");
      this.#database.kernel(INSERT_ONE).run(...row);
    } else {
      this.#waiting.push({ row, mark: this.#database.willWrite() });
      this.#waitingBytes += bytes.length;
    }
    this.#last = number;
    this.#lastAtMs = atMs;
    return number;
  }

  /** Number of the last event ever, 0 before the first. */
  get last(): number {
    this.#last ??= this.#lastWaiting() ?? Math.max(this.#numberAt("max"), this.#meta.get("event_last") ?? 0);
    return this.#last;
  }

  #lastWaiting(): number | undefined {
    const last = this.#waiting.at(-1)?.row[0];
    // Behind those that fill what may wait, others may be written.
    return this.#isFull && last !== undefined ? Math.max(last, this.#numberAt("max")) : last;
  }

  get #isFull(): boolean {
    return this.#waiting.length >= WAITING_ROWS_MAX || this.#waitingBytes >= WAITING_BYTES_MAX;
  }

  /** Deletes all there are; numbers go on after this one. In a transaction, before the first event. */
  startAfter(number: number): void {
    if (this.#tables.has("_mp_event")) this.#database.kernel("DELETE FROM _mp_event").run();
    this.#meta.set("event_last", number);
    this.#last = undefined;
  }

  /** Number of the oldest event still kept; `last + 1` when none is. */
  get first(): number {
    const written = this.#numberAt("min") || Number.POSITIVE_INFINITY;
    return Math.min(written, this.#waiting[0]?.row[0] ?? this.last + 1);
  }

  /**
   * Events with a number above `after`, in order, at most `limit`, and fewer where their data grows large; at least one. Not to
   * be asked while a transaction has written: its own would be among them, and nobody may be told of them yet (G1).
   */
  read(after: number, limit: number): EventRow[] {
    if (!this.#tables.has("_mp_event")) return [];
    return this.#database
      .kernel("SELECT n, name, data, at_ms FROM _mp_event WHERE n > ? ORDER BY n LIMIT ?")
      .all(after, this.#rowsWithin(after, limit))
      .map(([n, name, data, atMs]) => ({
        number: Number(n),
        name: String(name),
        data: decodeValue(data),
        atMs: Number(atMs),
      }));
  }

  #write(): void {
    const waiting = this.#waiting;
    const first = waiting[0];
    if (first === undefined) return;
    const { last } = this;
    this.#dropWaiting();
    this.#tables.ensure("_mp_event");
    let from = 0;
    for (; from + ROWS_TOGETHER <= waiting.length; from += ROWS_TOGETHER) {
      const rows = waiting.slice(from, from + ROWS_TOGETHER);
      this.#database.kernel(INSERT_MANY).run(...rows.flatMap(({ row }) => row));
    }
    for (const { row } of waiting.slice(from)) this.#database.kernel(INSERT_ONE).run(...row);
    const due = Math.floor(last / PRUNE_EVERY) - Math.floor((first.row[0] - 1) / PRUNE_EVERY);
    for (let times = 0; times < due && this.prune(this.#lastAtMs) > 0; times++);
  }

  #dropRolledBack(): void {
    if (!this.#database.inTransaction) this.#dropWaiting();
    for (let event = this.#waiting.at(-1); event !== undefined; event = this.#waiting.at(-1)) {
      if (event.mark <= this.#database.writeMark) return;
      this.#waiting.pop();
      this.#waitingBytes -= event.row[2].length;
    }
  }

  #dropWaiting(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
  }

  #rowsWithin(after: number, limit: number): number {
    const sizes = this.#database
      .kernel("SELECT length(data) FROM _mp_event WHERE n > ? ORDER BY n LIMIT ?")
      .all(after, limit);
    let bytes = 0;
    let rows = 0;
    while (rows < sizes.length && bytes < READ_BYTES) bytes += Number(sizes[rows++]?.[0]);
    return rows;
  }

  get count(): number {
    return this.last + 1 - this.first;
  }

  /** Deletes what is beyond EVENT_ROWS_MAX or EVENT_RETENTION_MS, a bounded number a time; right before COMMIT. Returns how many. */
  prune(nowMs: number): number {
    const through = this.#prunableThrough(nowMs);
    if (through === 0) return 0;
    if (through === this.last) this.#meta.set("event_last", through);
    return this.#database.kernel("DELETE FROM _mp_event WHERE n <= ?").run(through);
  }

  /** The last of the oldest events that need not be kept; 0 for none. */
  #prunableThrough(nowMs: number): number {
    if (!this.#tables.has("_mp_event")) return 0;
    const byCount = this.last - this.#limits.EVENT_ROWS_MAX;
    const keptSinceMs = nowMs - this.#limits.EVENT_RETENTION_MS;
    const [first, firstMs] = this.#database.kernel("SELECT n, at_ms FROM _mp_event ORDER BY n LIMIT 1").get() ?? [];
    // Mostly nothing is due: then one row tells.
    if (first === undefined || (Number(first) > byCount && Number(firstMs) >= keptSinceMs)) return 0;
    const end = Math.min(Number(first) + PRUNE_ROWS - 1, this.last);
    const [kept] =
      this.#database
        .kernel("SELECT n FROM _mp_event WHERE n > ? AND n <= ? AND at_ms >= ? ORDER BY n LIMIT 1")
        .get(byCount, end, keptSinceMs) ?? [];
    return kept === undefined ? end : Number(kept) - 1;
  }

  #numberAt(end: "min" | "max"): number {
    if (!this.#tables.has("_mp_event")) return 0;
    return Number(this.#database.kernel(`SELECT ${end}(n) FROM _mp_event`).get()?.[0] ?? 0);
  }
}
