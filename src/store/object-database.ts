/**
 * One object's SQLite file and the one connection to it.
 *
 * It owns the transaction of a burst with a savepoint for each call, runs the statements of class code behind the allow-list,
 * and gives the kernel's tables their statements. Everything is synchronous. Once a transaction has ended under a call (a full
 * disk, an I/O error), the database is doomed: nothing runs on it any more and its owner closes it.
 *
 * `synchronous=OFF` throughout: a local file is only trusted after its whole content was checked against the manifest in the
 * bucket, so no fsync of this file is ever what makes a write durable. The owner alone checkpoints (S2).
 */
import type { Database } from "better-sqlite3";
import { assert, MoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { SqlParameters, SqlRows, SqlValue } from "../values.js";
import type { Folder } from "../world/folder.js";
import { checkBounds, plainRow, type RowBounds, RowCursor, sizeOfRow } from "./row-cursor.js";
import { checkSql, KERNEL_PREFIX, type SqlMode } from "./sql-guard.js";
import { type Bindings, bind, mayBeRounded } from "./sql-values.js";
import { codedSqliteError, sqliteCode } from "./sqlite-errors.js";
import { type PreparedSql, prepare, type RawStatement, StatementCache } from "./statement-cache.js";

/** What class code may run: a writing method everything but schema changes, the other two only reads. */
export type AccessMode = Exclude<SqlMode, "migration">;

export interface ExecResult {
  readonly changes: number;
  /** The rowid of the last row an INSERT made; 0 when it made none, when it may update instead, and for other statements. */
  readonly lastId: number;
}

/** Told when what the current transaction changed is gone or kept, so that nothing in memory outlives a rollback. */
export interface TransactionListener {
  /** A savepoint or the whole transaction was rolled back: forget whatever was learnt since the last commit. */
  rolledBack(): void;
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

/** Page size of every object database: the least bytes for small objects, measured. */
export const PAGE_BYTES = 1_024;
const CACHE_KIB = 1_024;
const STATEMENTS_MAX = 64;
/** Enough that a disk which just refused a page refuses it too. */
const PROBE_BYTES = 64 * 1_024;
/** After one of these no later statement of the transaction may be trusted, whether SQLite ended it or not. */
const DOOMING_CODES = new Set(["storage_full", "object_full", "storage_readonly", "storage_failed", "object_corrupt"]);

export class ObjectDatabase {
  readonly path: string;
  readonly #folder: Folder;
  readonly #connection: Database;
  readonly #bounds: RowBounds;
  readonly #sqlBytesMax: number;
  readonly #statements: StatementCache;
  readonly #kernelStatements = new Map<string, KernelStatement>();
  readonly #cursors = new Set<RowCursor>();
  readonly #listeners: TransactionListener[] = [];
  readonly #savepointMarks: number[] = [];
  #state: TransactionState = IDLE;
  #writes = 0;
  #hidesChanges: boolean | undefined;
  /** Whether the open transaction changed the schema, which a rollback then changes back. */
  #changedSchema = false;

  /**
   * Opens the file, or makes it; its WAL is `<path>-wal`.
   * @param path relative to the folder, whose directory exists
   * @throws MoonportError `object_corrupt`, `storage_full`, `storage_readonly`, `storage_failed`
   */
  static open(
    folder: Folder,
    path: string,
    limits: DatabaseLimits,
    options: { readonly mustExist?: boolean } = {},
  ): ObjectDatabase {
    let connection: Database | undefined;
    try {
      connection = folder.openDatabase(path, { mustExist: options.mustExist ?? false });
      configure(connection, limits);
      return new ObjectDatabase(folder, path, connection, limits);
    } catch (thrown) {
      connection?.close();
      throw codedSqliteError(thrown, `open ${path}`);
    }
  }

  private constructor(folder: Folder, path: string, connection: Database, limits: DatabaseLimits) {
    this.path = path;
    this.#folder = folder;
    this.#connection = connection;
    this.#bounds = { rowsMax: limits.SQL_ROWS_MAX, bytesMax: limits.CALL_MEMORY_BYTES };
    this.#sqlBytesMax = limits.SQL_BYTES_MAX;
    this.#statements = new StatementCache(connection, limits.SQL_BYTES_MAX, STATEMENTS_MAX);
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
    this.#run("begin", () => this.#kernel("BEGIN IMMEDIATE").run());
    this.#state = OPEN;
  }

  /** @throws MoonportError coded; the database is doomed then, and nothing of the transaction is kept */
  commit(): void {
    this.#assertOpen();
    assert(this.#savepointMarks.length === 0, "a commit inside a savepoint");
    this.#parkCursors();
    try {
      this.#kernel("COMMIT").run();
    } catch (thrown) {
      const error = codedSqliteError(thrown, "commit");
      this.#doom(error);
      throw error;
    }
    this.#state = IDLE;
    this.#changedSchema = false;
    for (const listener of this.#listeners) listener.committed();
  }

  /** Ends the transaction and keeps nothing of it. On a doomed database it only tidies up. */
  rollback(): void {
    if (this.#state.kind !== "open") return;
    this.#savepointMarks.length = 0;
    this.#parkCursors();
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

  savepoint(): void {
    this.#assertOpen();
    this.#run(undefined, () => this.#kernel("SAVEPOINT mp").run());
    this.#savepointMarks.push(this.#writes);
  }

  /** Keeps what was done since the innermost savepoint, as part of what encloses it. */
  release(): void {
    this.#assertOpen();
    assert(this.#savepointMarks.pop() !== undefined, "a release without a savepoint");
    this.#run(undefined, () => this.#kernel("RELEASE mp").run());
  }

  /** Undoes what was done since the innermost savepoint and ends it. On a doomed database it does nothing. */
  rollbackTo(): void {
    if (this.#state.kind === "doomed") return;
    this.#assertOpen();
    const mark = this.#savepointMarks.pop();
    assert(mark !== undefined, "a rollback without a savepoint");
    this.#run(undefined, () => {
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

  listen(listener: TransactionListener): void {
    this.#listeners.push(listener);
  }

  // Statements of class code

  /** @throws MoonportError `sql_refused`, `sql_error`, `read_only`, `bad_value`, `call_doomed`, `object_full`, `storage_*` */
  exec(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): ExecResult {
    const statement = this.#prepared(sql, mode);
    if (statement.kind === "select") {
      throw MoonportError.of("sql_error", "the statement only reads; exec would drop its rows", {
        hint: "use one, all or each",
      });
    }
    this.#assertOpen();
    const bindings = bind(statement.shape, parameters);
    if (statement.returnsRows) {
      this.#returningRows(statement, bindings);
      return this.#changesOf(statement);
    }
    const result = this.#run(undefined, () => statement.handle.run(...bindings));
    this.#noteChanges(result.changes);
    return statement.verb === "insert" && result.changes > 0
      ? this.#changesOf(statement, result.changes, result.lastInsertRowid)
      : { changes: result.changes, lastId: 0 };
  }

  /** At most one row: the first. */
  one(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): SqlRows {
    const statement = this.#preparedWithRows(sql, mode);
    const bindings = bind(statement.shape, parameters);
    if (statement.kind === "write") {
      return { columns: statement.columns, rows: this.#returningRows(statement, bindings).slice(0, 1) };
    }
    const { handle, columns } = statement;
    const row = this.#run(undefined, () => handle.get(...bindings));
    if (row === undefined) return { columns, rows: [] };
    if (takeRow(row)) return { columns, rows: [row] };
    const exact = this.#run(undefined, () => statement.exact.get(...bindings));
    return { columns, rows: exact === undefined ? [] : [plainRow(exact, columns)] };
  }

  /** @throws MoonportError also `too_large` beyond SQL_ROWS_MAX rows or CALL_MEMORY_BYTES */
  all(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): SqlRows {
    const statement = this.#preparedWithRows(sql, mode);
    const bindings = bind(statement.shape, parameters);
    if (statement.kind === "write") {
      return { columns: statement.columns, rows: this.#returningRows(statement, bindings) };
    }
    return { columns: statement.columns, rows: this.#selectRows(statement, bindings) };
  }

  /** The rows one at a time, as they were when it was called; see {@link RowCursor} for what that costs. */
  each(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): RowCursor {
    const statement = this.#preparedWithRows(sql, mode);
    const { columns } = statement;
    const bindings = bind(statement.shape, parameters);
    if (statement.kind === "write") {
      const rows = this.#returningRows(statement, bindings);
      return new RowCursor(columns, rows[Symbol.iterator](), () => {}, codedSqliteError);
    }
    const source = this.#run(undefined, () => statement.exact.iterate(...bindings));
    const cursor = new RowCursor(
      columns,
      source,
      (done) => this.#cursors.delete(done),
      (thrown) => this.#failed(thrown),
    );
    this.#cursors.add(cursor);
    return cursor;
  }

  /** Runs the statements of one migration in the open transaction. */
  migrate(sql: string): void {
    this.#assertOpen();
    const { statements } = checkSql(sql, "migration", this.#sqlBytesMax);
    for (const checked of statements) {
      this.#run(undefined, () => {
        const handle = prepare(this.#connection, checked);
        if (handle.reader) handle.all();
        else handle.run();
      });
    }
    this.#writes += 1;
    this.#changedSchema = true;
    this.#forgetSchema();
  }

  /** The tables and views of class code, in order of their names. */
  tableNames(): string[] {
    const sql = `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
      AND name NOT LIKE '\\${KERNEL_PREFIX}%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`;
    return this.kernel(sql)
      .all()
      .map(([name]) => String(name));
  }

  // Statements of the kernel

  /** A statement of the kernel's own, prepared once; the texts are few and fixed. */
  kernel(sql: string): KernelStatement {
    const known = this.#kernelStatements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#run(undefined, () => new KernelStatement(this.#connection.prepare(sql), this.#runKernel));
    this.#kernelStatements.set(sql, statement);
    return statement;
  }

  // The file

  /** Pages of the database, uncommitted ones included. */
  pageCount(): number {
    return Number(this.kernel("PRAGMA page_count").get()?.[0] ?? 0);
  }

  sizeBytes(): number {
    return this.pageCount() * Number(this.kernel("PRAGMA page_size").get()?.[0] ?? PAGE_BYTES);
  }

  /**
   * Moves the WAL into the file and empties it. Only after everything in it was captured (S2).
   * @returns false, with nothing done, inside a transaction or under an open cursor
   */
  checkpointTruncate(): boolean {
    if (this.#state.kind !== "idle" || this.#cursors.size > 0) return false;
    const [busy] = this.kernel("PRAGMA wal_checkpoint(TRUNCATE)").get() ?? [1];
    return busy === 0;
  }

  /** The whole database as the bytes of its file, WAL included. Only between transactions. */
  serialize(): Uint8Array {
    assert(this.#state.kind === "idle", "serialize inside a transaction");
    return this.#run("serialize", () => this.#connection.serialize());
  }

  /** Reads every page. @throws MoonportError `object_corrupt` with what SQLite found first */
  verify(): void {
    const [first] = this.kernel("PRAGMA quick_check(1)").get() ?? [];
    if (first === "ok") return;
    throw MoonportError.of("object_corrupt", `the object's file is damaged: ${String(first)}`);
  }

  /** Gives back what memory it can: prepared statements and clean pages. */
  shrinkMemory(): void {
    this.#ready();
    this.#statements.clear();
    this.#kernelStatements.clear();
    this.#connection.pragma("shrink_memory");
  }

  /**
   * Closes the connection; an open transaction is rolled back. SQLite then moves the WAL into the file and deletes it, so
   * whoever needs the WAL captures it before. Idempotent.
   */
  close(): void {
    if (this.#state.kind === "closed") return;
    for (const cursor of this.#cursors) cursor.close();
    this.#state = CLOSED;
    this.#connection.close();
  }

  // Inside

  /** Transaction control goes around {@link kernel}, whose statements run only in a state that allows them. */
  #kernel(sql: string): RawStatement {
    return this.kernel(sql).handle;
  }

  readonly #runKernel = <T>(isWrite: boolean, action: () => T): T => {
    if (isWrite) {
      this.#assertOpen();
      this.#writes += 1;
    }
    return this.#run(undefined, action);
  };

  #prepared(sql: string, mode: AccessMode): PreparedSql {
    this.#ready();
    try {
      return this.#statements.get(sql, mode);
    } catch (thrown) {
      throw this.#failed(thrown);
    }
  }

  #preparedWithRows(sql: string, mode: AccessMode): PreparedSql {
    const statement = this.#prepared(sql, mode);
    if (statement.kind === "write") this.#assertOpen();
    if (!statement.returnsRows) {
      throw MoonportError.of("sql_error", "the statement returns no rows", {
        hint: "use exec, or add RETURNING",
      });
    }
    return statement;
  }

  #selectRows(statement: PreparedSql, bindings: Bindings): SqlValue[][] {
    const { handle } = statement;
    const rows: SqlValue[][] = [];
    let bytes = 0;
    let rounded = false;
    this.#run(undefined, () => {
      for (const row of handle.iterate(...bindings)) {
        bytes += sizeOfRow(row);
        if (takeRow(row)) rows.push(row);
        else rounded = true;
        if (rounded) break;
        checkBounds(rows.length, bytes, this.#bounds);
      }
    });
    return rounded ? this.#exactRows(statement, bindings) : rows;
  }

  #exactRows(statement: PreparedSql, bindings: Bindings): SqlValue[][] {
    const { exact, columns } = statement;
    const rows: SqlValue[][] = [];
    let bytes = 0;
    this.#run(undefined, () => {
      for (const raw of exact.iterate(...bindings)) {
        const row = plainRow(raw, columns);
        bytes += sizeOfRow(row);
        rows.push(row);
        checkBounds(rows.length, bytes, this.#bounds);
      }
    });
    return rows;
  }

  /** Runs a writing statement with RETURNING whole; a result that cannot be handed out undoes it. */
  #returningRows(statement: PreparedSql, bindings: Bindings): SqlValue[][] {
    const { columns } = statement;
    let rows: SqlValue[][];
    this.savepoint();
    try {
      const raw = this.#run(undefined, () => statement.exact.all(...bindings));
      this.#noteChanges(this.#changes());
      rows = raw.map((row) => plainRow(row, columns));
      checkBounds(
        rows.length,
        rows.reduce((sum, row) => sum + sizeOfRow(row), 0),
        this.#bounds,
      );
    } catch (error) {
      this.rollbackTo();
      throw error;
    }
    this.release();
    return rows;
  }

  #changes(): number {
    return Number(this.kernel("SELECT changes()").get()?.[0] ?? 0);
  }

  #changesOf(statement: PreparedSql, changes = this.#changes(), lastId?: number | bigint): ExecResult {
    if (statement.verb !== "insert" || changes === 0) return { changes, lastId: 0 };
    const id = lastId ?? Number(this.kernel("SELECT last_insert_rowid()").get()?.[0] ?? 0);
    if (mayBeRounded(id)) {
      throw MoonportError.of("sql_error", "the new row's id is beyond ±2^53: it cannot be read exactly", {
        hint: "give the row a smaller id, or use RETURNING CAST(id AS TEXT)",
      });
    }
    return { changes, lastId: Number(id) };
  }

  /** Changes that an INSTEAD OF trigger makes are not in the statement's count, so with such triggers any write counts. */
  #noteChanges(changes: number): void {
    if (changes > 0 || this.#hasInsteadOfTriggers()) this.#writes += 1;
  }

  #hasInsteadOfTriggers(): boolean {
    this.#hidesChanges ??=
      this.kernel(
        `SELECT 1 FROM sqlite_schema WHERE type = 'trigger'
         AND tbl_name IN (SELECT name FROM sqlite_schema WHERE type = 'view') LIMIT 1`,
      ).get() !== undefined;
    return this.#hidesChanges;
  }

  #run<T>(operation: string | undefined, action: () => T): T {
    this.#ready();
    try {
      return action();
    } catch (thrown) {
      throw this.#failed(thrown, operation);
    } finally {
      if (this.#state.kind === "open" && !this.#connection.inTransaction) {
        this.#doom(MoonportError.of("call_doomed", "a statement ended the transaction"));
      }
    }
  }

  /** Nothing may run on a closed or doomed database, and no cursor may hold the connection. */
  #ready(): void {
    const state = this.#state;
    assert(state.kind !== "closed", `${this.path} is closed`);
    if (state.kind === "doomed") {
      throw MoonportError.of("call_doomed", `the call's transaction has ended: ${state.cause.message}`, {
        hint: "nothing of this call is kept; the object starts afresh with the next call",
        cause: state.cause,
      });
    }
    this.#parkCursors();
  }

  #assertOpen(): void {
    if (this.#state.kind === "open") return;
    this.#ready();
    assert(false, "a write outside a transaction");
  }

  #parkCursors(): void {
    if (this.#cursors.size === 0) return;
    for (const cursor of this.#cursors) cursor.park(this.#bounds);
  }

  #failed(thrown: unknown, operation?: string): MoonportError {
    let error = codedSqliteError(thrown, operation);
    if (sqliteCode(thrown) === "SQLITE_FULL" && !this.#diskIsFull()) {
      error = MoonportError.of("object_full", "the object's database has reached OBJECT_BYTES_MAX", { cause: thrown });
    }
    if (this.#state.kind === "open" && DOOMING_CODES.has(error.code)) this.#doom(error);
    return error;
  }

  /** SQLite has one code for a full disk and for its own limit of pages; a small file beside tells which. */
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
    if (this.#changedSchema) this.#forgetSchema();
    for (const listener of this.#listeners) listener.rolledBack();
  }

  #forgetSchema(): void {
    this.#hidesChanges = undefined;
    this.#statements.clear();
  }
}

/** A statement of the kernel. Numbers are bound as REAL: the columns they meet have INTEGER affinity. */
export class KernelStatement {
  readonly handle: RawStatement;
  readonly #around: <T>(isWrite: boolean, action: () => T) => T;

  constructor(handle: RawStatement, around: <T>(isWrite: boolean, action: () => T) => T) {
    this.handle = handle;
    this.#around = around;
    if (handle.reader) handle.raw(true);
  }

  /** Runs a write in the open transaction, which then counts as writing; returns how many rows changed. */
  run(...parameters: readonly SqlValue[]): number {
    return this.#around(true, () => this.handle.run(parameters)).changes;
  }

  get(...parameters: readonly SqlValue[]): readonly unknown[] | undefined {
    return this.#around(false, () => this.handle.get(parameters));
  }

  all(...parameters: readonly SqlValue[]): readonly (readonly unknown[])[] {
    return this.#around(false, () => this.handle.all(parameters));
  }
}

function configure(connection: Database, limits: DatabaseLimits): void {
  // Before anything that may touch the WAL, so that its index lives in memory and there is no -shm file.
  connection.pragma("locking_mode = EXCLUSIVE");
  connection.pragma(`page_size = ${PAGE_BYTES}`);
  connection.pragma("synchronous = OFF");
  connection.pragma("journal_mode = WAL");
  connection.pragma("wal_autocheckpoint = 0");
  connection.pragma(`cache_size = -${CACHE_KIB}`);
  connection.pragma("temp_store = MEMORY");
  connection.pragma(`max_page_count = ${Math.floor(limits.OBJECT_BYTES_MAX / PAGE_BYTES)}`);
}

/** Makes a row read with plain numbers ready to be handed out; false when a number in it may have been rounded. */
function takeRow(row: unknown[]): row is SqlValue[] {
  for (let index = 0; index < row.length; index++) {
    const value = row[index];
    if (mayBeRounded(value)) return false;
    if (value instanceof Uint8Array) row[index] = new Uint8Array(value);
  }
  return true;
}
