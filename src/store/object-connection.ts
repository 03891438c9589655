/**
 * The one connection to an object's file: its transaction, the statements of the kernel, the file itself.
 *
 * It owns the transaction of a burst with a savepoint for each call. Once a transaction has ended under its calls (a full disk,
 * an I/O error), the connection is doomed: nothing runs on it any more and its owner closes it.
 *
 * `synchronous=OFF` throughout: a local file is only trusted after its whole content was checked against the manifest in the
 * bucket, so no fsync of this file is ever what makes a write durable. The owner alone checkpoints (S2).
 */
import type { Database } from "better-sqlite3";
import { asMoonportError, assert, type ErrorCode, isOwn, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { Folder } from "../world/folder.js";
import { PAGE_BYTES, pagesMax } from "./connect.js";
import { KernelStatement } from "./kernel-statement.js";
import type { RowBounds, RowCursor } from "./row-cursor.js";
import { KERNEL_PREFIX } from "./sql-guard.js";
import { codedSqliteError, sqliteCode } from "./sqlite-errors.js";
import type { RawStatement } from "./statement-cache.js";
import { withSteadyKernelLimits } from "./steady-limit.js";
import { hasUsedUpIds, idsUsedUp } from "./used-up-ids.js";

/** Told when what the current transaction changed is gone or kept, so that nothing in memory outlives a rollback. */
export interface TransactionListener {
  /** A savepoint or the whole transaction was rolled back: forget whatever was learnt since the last commit. */
  rolledBack(): void;
  /** Right before COMMIT, outside of any savepoint: what waits in memory is written. @throws MoonportError as COMMIT itself */
  committing?(): void;
  committed(): void;
}

export type DatabaseLimits = Pick<
  Settings,
  "OBJECT_BYTES_MAX" | "SQL_ROWS_MAX" | "SQL_BYTES_MAX" | "CALL_MEMORY_BYTES"
>;

type TransactionState =
  | { readonly kind: "idle" }
  | { readonly kind: "open" }
  | { readonly kind: "doomed"; readonly cause: MoonportError }
  | { readonly kind: "closed" };

const IDLE: TransactionState = { kind: "idle" };
const OPEN: TransactionState = { kind: "open" };
const CLOSED: TransactionState = { kind: "closed" };

/** Beyond OBJECT_BYTES_MAX, once for each object: some 2,000 timers that failed. */
const SPARE_PAGES = 256;
/** Enough that a disk which just refused a page refuses it too. */
const PROBE_BYTES = 64 * 1_024;
/** After one of these no later statement of the transaction may be trusted, whether SQLite ended it or not. */
const DOOMING_CODES: readonly ErrorCode[] = [
  "storage_full",
  "object_full",
  "storage_readonly",
  "storage_failed",
  "object_corrupt",
];

export abstract class ObjectConnection {
  readonly path: string;
  protected readonly connection: Database;
  /** What one statement may keep in memory. */
  protected readonly bounds: RowBounds;
  /** Cursors that hold the connection. */
  protected readonly cursors = new Set<RowCursor>();
  readonly #folder: Folder;
  readonly #pagesMax: number;
  readonly #kernelStatements = new Map<string, KernelStatement>();
  readonly #listeners: TransactionListener[] = [];
  readonly #savepointMarks: number[] = [];
  #state: TransactionState = IDLE;
  #writes = 0;
  /** Where the transaction's writes begin. */
  #beginMark = 0;

  protected constructor(folder: Folder, path: string, connection: Database, limits: DatabaseLimits) {
    this.path = path;
    this.connection = connection;
    this.bounds = { rowsMax: limits.SQL_ROWS_MAX, bytesMax: limits.CALL_MEMORY_BYTES };
    this.#folder = folder;
    this.#pagesMax = pagesMax(limits);
  }

  // Transaction of a burst, savepoint of a call

  get inTransaction(): boolean {
    return this.#state.kind === "open";
  }

  /** Whether the transaction ended under its calls. Everything fails with `call_doomed` from then on; close the database. */
  get doomed(): boolean {
    return this.#state.kind === "doomed";
  }

  begin(): void {
    assert(this.#state.kind !== "open", "a transaction inside a transaction");
    this.run("begin", () => this.#kernel("BEGIN IMMEDIATE").run());
    this.#state = OPEN;
    this.#beginMark = this.#writes;
  }

  /**
   * An index of words writes only here what it has gathered: what a statement may meet, COMMIT may meet too.
   * @throws MoonportError coded; the database is doomed then, and nothing of the transaction is kept
   */
  commit(): void {
    this.parkCursors();
    this.assertOpen();
    assert(this.#savepointMarks.length === 0, "a commit inside a savepoint");
    this.#writeWhatWaits();
    try {
      this.#kernel("COMMIT").run();
    } catch (thrown) {
      const error = this.failed(thrown, "commit");
      this.#doom(error);
      throw error;
    }
    this.#state = IDLE;
    for (const listener of this.#listeners) listener.committed();
  }

  #writeWhatWaits(): void {
    try {
      for (const listener of this.#listeners) listener.committing?.();
    } catch (thrown) {
      const error = asMoonportError(thrown);
      this.#doom(error);
      throw error;
    }
  }

  /** Ends the transaction and keeps nothing of it. On a doomed database it only tidies up. */
  rollback(): void {
    this.parkCursors();
    if (this.#state.kind !== "open") return;
    this.#savepointMarks.length = 0;
    try {
      this.#kernel("ROLLBACK").run();
    } catch (thrown) {
      const error = codedSqliteError(thrown, "rollback");
      this.#doom(error);
      throw error;
    }
    this.#state = IDLE;
    this.#forget();
  }

  /** Undoes all that the transaction did, which stays open: a savepoint's work, before anything is kept. As {@link rollbackTo} on a doomed database. */
  startOver(): void {
    this.rollback();
    if (this.#state.kind === "doomed") return;
    this.#writes = this.#beginMark;
    this.begin();
  }

  savepoint(): void {
    this.assertOpen();
    this.run(undefined, () => this.#kernel("SAVEPOINT mp").run());
    this.#savepointMarks.push(this.#writes);
  }

  /** Keeps what was done since the innermost savepoint, as part of what encloses it. */
  release(): void {
    this.assertOpen();
    assert(this.#savepointMarks.pop() !== undefined, "a release without a savepoint");
    this.run(undefined, () => this.#kernel("RELEASE mp").run());
  }

  /** Undoes what was done since the innermost savepoint and ends it. On a doomed database it does nothing. */
  rollbackTo(): void {
    this.parkCursors();
    if (this.#state.kind === "doomed") return;
    this.assertOpen();
    const mark = this.#savepointMarks.pop();
    assert(mark !== undefined, "a rollback without a savepoint");
    this.run(undefined, () => {
      this.#kernel("ROLLBACK TO mp").run();
      this.#kernel("RELEASE mp").run();
    });
    this.#writes = mark;
    this.#forget();
  }

  /** A mark for {@link wroteSince}. */
  get writeMark(): number {
    return this.#writes;
  }

  /** Whether anything was changed since `mark`, what was rolled back not counted. */
  wroteSince(mark: number): boolean {
    return this.#writes > mark;
  }

  /** Something is changed that is written only right before COMMIT: the call is a writing one from now on. @returns the mark after it */
  willWrite(): number {
    this.assertOpen();
    this.#writes += 1;
    return this.#writes;
  }

  listen(listener: TransactionListener): void {
    this.#listeners.push(listener);
  }

  // Statements of the kernel

  /** A statement of the kernel's own, prepared once; the texts are few and fixed. */
  kernel(sql: string): KernelStatement {
    const known = this.#kernelStatements.get(sql);
    if (known !== undefined) return known;
    const statement = this.run(
      undefined,
      () => new KernelStatement(this.connection.prepare(withSteadyKernelLimits(sql)), this.#runKernel),
    );
    this.#kernelStatements.set(sql, statement);
    return statement;
  }

  /**
   * Runs `action` with some room beyond OBJECT_BYTES_MAX: for what the kernel notes of what failed, or was restored, though the object
   * is full. What has used it stays; an object never gets more than that.
   */
  withSpareRoom<T>(action: () => T): T {
    this.#boundPages(this.#pagesMax + SPARE_PAGES);
    try {
      return action();
    } finally {
      if (this.#state.kind === "open") this.#boundPages(this.#pagesMax);
    }
  }

  /** What the database has already is no less than its bound. */
  #boundPages(pages: number): void {
    this.kernel(`PRAGMA max_page_count = ${pages}`).get();
  }

  // The file

  /** The tables and views of class code, in order of their names. */
  tableNames(): string[] {
    const sql = `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
      AND name NOT LIKE '\\${KERNEL_PREFIX}%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`;
    return this.kernel(sql)
      .all()
      .map(([name]) => String(name));
  }

  /** Pages of the database, uncommitted ones included. */
  pageCount(): number {
    return Number(this.kernel("PRAGMA page_count").get()?.[0] ?? 0);
  }

  sizeBytes(): number {
    return this.pageCount() * Number(this.kernel("PRAGMA page_size").get()?.[0] ?? PAGE_BYTES);
  }

  /**
   * No cursor holds the connection any more. What one meets when the rest of its rows is read may doom the transaction: whoever
   * parks looks at its state afterwards.
   */
  parkCursors(): void {
    if (this.cursors.size === 0) return;
    for (const cursor of this.cursors) cursor.park(this.bounds);
  }

  /**
   * Moves the WAL into the file and empties it. Only after everything in it was captured (S2).
   * @returns false, with nothing done, inside a transaction or under an open cursor
   */
  checkpointTruncate(): boolean {
    if (this.#state.kind !== "idle" || this.cursors.size > 0) return false;
    const [busy] = this.kernel("PRAGMA wal_checkpoint(TRUNCATE)").get() ?? [1];
    return busy === 0;
  }

  /** The whole database as the bytes of its file, WAL included. Only between transactions. */
  serialize(): Uint8Array {
    assert(this.#state.kind === "idle", "serialize inside a transaction");
    return this.run("serialize", () => {
      // After savepoint rollbacks the page cache may hold other bytes for free pages than the file and WAL do.
      this.connection.pragma("shrink_memory");
      return this.connection.serialize();
    });
  }

  /** Reads every page. @throws MoonportError `object_corrupt` with what SQLite found first */
  verify(): void {
    const [first] = this.kernel("PRAGMA quick_check(1)").get() ?? [];
    if (first === "ok") return;
    throw MoonportError.of("object_corrupt", `the object's file is damaged: ${String(first)}`);
  }

  /** Gives back what memory it can: prepared statements and clean pages. */
  shrinkMemory(): void {
    this.ready();
    this.#kernelStatements.clear();
    this.connection.pragma("shrink_memory");
  }

  /**
   * Closes the connection; an open transaction is rolled back. SQLite then moves the WAL into the file and deletes it, so
   * whoever needs the WAL captures it before. Idempotent.
   */
  close(): void {
    if (this.#state.kind === "closed") return;
    for (const cursor of this.cursors) cursor.close();
    this.#state = CLOSED;
    this.connection.close();
  }

  // For the statements of class code

  /** Makes the running call a writing one. */
  protected noteWrite(): void {
    this.#writes += 1;
  }

  protected run<T>(operation: string | undefined, action: () => T): T {
    this.ready();
    try {
      return action();
    } catch (thrown) {
      throw this.failed(thrown, operation);
    } finally {
      if (this.#state.kind === "open" && !this.connection.inTransaction) {
        this.#doom(MoonportError.of("call_doomed", "a statement ended the transaction"));
      }
    }
  }

  /** Nothing may run on a closed or doomed database, and no cursor may hold the connection. */
  protected ready(): void {
    this.parkCursors();
    const state = this.#state;
    assert(state.kind !== "closed", `${this.path} is closed`);
    if (state.kind === "doomed") {
      throw MoonportError.of("call_doomed", `the call's transaction has ended: ${state.cause.message}`, {
        hint: "nothing of this call is kept; the object starts afresh with the next call",
        cause: state.cause,
      });
    }
  }

  protected assertOpen(): void {
    if (this.#state.kind === "open") return;
    this.ready();
    assert(false, "a write outside a transaction");
  }

  protected failed(thrown: unknown, operation?: string): MoonportError {
    let error = codedSqliteError(thrown, operation);
    if (sqliteCode(thrown) === "SQLITE_FULL" && !this.#diskIsFull()) {
      error = hasUsedUpIds(this.connection) ? idsUsedUp(thrown) : objectFull(thrown);
    }
    if (this.#state.kind === "open" && isOwn(error, ...DOOMING_CODES)) this.#doom(error);
    return error;
  }

  /**
   * SQLite has one code for a full disk, for its own limit of pages, and for a table without another id to give. A small file
   * beside tells the first.
   */
  #diskIsFull(): boolean {
    const probe = `${this.path}-probe`;
    try {
      this.#folder.replaceFile(probe, new Uint8Array(PROBE_BYTES));
      return false;
    } catch {
      return true;
    } finally {
      this.#removeProbe(probe);
    }
  }

  #removeProbe(probe: string): void {
    for (const file of [probe, `${probe}.new`]) {
      try {
        this.#folder.remove(file);
      } catch {
        // On a disk that is full or read-only the probe was never there.
      }
    }
  }

  #doom(cause: MoonportError): void {
    if (this.#state.kind !== "open") return;
    this.#state = { kind: "doomed", cause };
    this.#savepointMarks.length = 0;
    this.#forget();
  }

  #forget(): void {
    for (const listener of this.#listeners) listener.rolledBack();
  }

  /** Transaction control goes around {@link KernelStatement}, whose writes count and run only inside a transaction. */
  #kernel(sql: string): RawStatement {
    return this.kernel(sql).handle;
  }

  readonly #runKernel = <T>(isWrite: boolean, action: () => T): T => {
    if (isWrite) {
      this.assertOpen();
      this.#writes += 1;
    }
    return this.run(undefined, action);
  };
}

function objectFull(cause: unknown): MoonportError {
  return MoonportError.of("object_full", "the object's database has reached OBJECT_BYTES_MAX", { cause });
}
