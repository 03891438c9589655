/**
 * One object's SQLite database, as class code uses it: every statement behind the allow-list, prepared once, its parameters
 * and rows converted, its results bounded.
 */
import { MoonportError } from "../errors.js";
import type { SqlParameters, SqlRows, SqlValue } from "../values.js";
import type { Folder } from "../world/folder.js";
import { type RunningRecord, unwatched } from "../world/watchdog/running-record.js";
import { connect } from "./connect.js";
import { type DatabaseLimits, ObjectConnection } from "./object-connection.js";
import { checkBounds, plainRow, RowCursor, sizeOfRow } from "./row-cursor.js";
import { checkSql, KERNEL_PREFIX, type SqlMode } from "./sql-guard.js";
import { tokenize } from "./sql-tokens.js";
import { type Bindings, bind, mayBeRounded } from "./sql-values.js";
import { codedSqliteError } from "./sqlite-errors.js";
import { type PreparedSql, prepare, StatementCache } from "./statement-cache.js";
import { ToldRows } from "./told-rows.js";
import { varies } from "./varying-sql.js";

export { PAGE_BYTES } from "./connect.js";

/** What class code may run: a writing method everything but schema changes, the other two only reads. */
export type AccessMode = Exclude<SqlMode, "migration">;

export interface ExecResult {
  readonly changes: number;
  /**
   * The rowid of the last row an INSERT made, as text beyond ±2^53; 0 when it made none, when it may update instead, when the
   * table has no rowids, and for other statements.
   */
  readonly lastId: number | string;
}

export interface ObjectDatabaseOptions {
  readonly mustExist?: boolean;
  /** Told of each statement of class code while it runs: none can be interrupted. Default: nobody listens. */
  readonly running?: RunningRecord;
}

const STATEMENTS_MAX = 64;

export class ObjectDatabase extends ObjectConnection {
  readonly #running: RunningRecord;
  readonly #sqlBytesMax: number;
  readonly #statements: StatementCache;
  /** Whether the schema has triggers, or constraints that keep what a failing statement did; unknown until it matters. */
  #hidesChanges: boolean | undefined;
  /** Whether the schema has a view that may give something else on the same database; unknown until it matters. */
  #hasVaryingViews: boolean | undefined;
  #variedReads = 0;
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
    options: ObjectDatabaseOptions = {},
  ): ObjectDatabase {
    return new ObjectDatabase(folder, path, limits, options);
  }

  private constructor(folder: Folder, path: string, limits: DatabaseLimits, options: ObjectDatabaseOptions) {
    super(folder, path, connect(folder, path, limits, options.mustExist ?? false), limits);
    this.#running = options.running ?? unwatched;
    this.#sqlBytesMax = limits.SQL_BYTES_MAX;
    this.#statements = new StatementCache(this.connection, limits.SQL_BYTES_MAX, STATEMENTS_MAX);
    this.listen({
      rolledBack: () => {
        if (this.#changedSchema) this.#forgetSchema();
      },
      committed: () => {
        this.#changedSchema = false;
      },
    });
  }

  /** @throws MoonportError `sql_refused`, `sql_error`, `read_only`, `bad_value`, `call_doomed`, `object_full`, `storage_*` */
  exec(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): ExecResult {
    const statement = this.#prepared(sql, mode);
    assertWriting(statement);
    this.assertOpen();
    const bindings = bind(statement.shape, parameters);
    if (statement.returnsRows) {
      this.#returningRows(statement, bindings);
      return this.#changesOf(statement);
    }
    const result = this.#noting(statement, () =>
      this.#runStatement(statement, () => statement.handle.run(...bindings)),
    );
    return this.#changesOf(statement, result.changes, result.lastInsertRowid);
  }

  /** At most one row: the first. */
  one(sql: string, parameters: SqlParameters, mode: AccessMode = "method"): SqlRows {
    const statement = this.#preparedWithRows(sql, mode);
    const bindings = bind(statement.shape, parameters);
    if (statement.kind === "write") {
      return { columns: statement.columns, rows: this.#returningRows(statement, bindings).slice(0, 1) };
    }
    const { handle, columns } = statement;
    const row = this.#runStatement(statement, () => handle.get(...bindings));
    if (row === undefined) return { columns, rows: [] };
    if (takeRow(row)) return { columns, rows: [row] };
    const exact = this.#runStatement(statement, () => statement.exact.get(...bindings));
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
    const rows = this.run(undefined, () => statement.exact.iterate(...bindings));
    const source = new ToldRows(rows, statement.handle.source, this.#running);
    const cursor = new RowCursor(
      columns,
      source,
      (done) => this.cursors.delete(done),
      (thrown) => this.failed(thrown),
    );
    this.cursors.add(cursor);
    return cursor;
  }

  /**
   * Whether a statement could run here by this call, without running it.
   * @throws MoonportError `sql_refused`, `sql_error`, `read_only`
   */
  check(sql: string, call: "exec" | "one" | "all" | "each", mode: AccessMode = "method"): void {
    const statement = this.#prepared(sql, mode);
    if (call === "exec") assertWriting(statement);
    else assertRows(statement);
  }

  /** How many statements with rows ran so far that may give something else on the same database. */
  get variedReads(): number {
    return this.#variedReads;
  }

  /** Whether a statement may be such a one without a word of it. */
  hasVaryingViews(): boolean {
    // To look would have the cursors of others read all their rows.
    if (this.#hasVaryingViews === undefined && this.cursors.size > 0) return true;
    this.#hasVaryingViews ??= this.kernel("SELECT sql FROM sqlite_schema WHERE type = 'view'")
      .all()
      .some(([sql]) => varies(tokenize(String(sql))));
    return this.#hasVaryingViews;
  }

  /** Runs the statements of one migration in the open transaction. */
  migrate(sql: string): void {
    this.assertOpen();
    const { statements } = checkSql(sql, "migration", this.#sqlBytesMax);
    this.noteWrite();
    this.#changedSchema = true;
    this.#forgetSchema();
    for (const checked of statements) {
      this.#runSql(checked.sql, () => {
        const handle = prepare(this.connection, checked);
        if (handle.reader) handle.all();
        else handle.run();
      });
    }
  }

  override shrinkMemory(): void {
    this.#statements.clear();
    super.shrinkMemory();
  }

  #prepared(sql: string, mode: AccessMode): PreparedSql {
    this.ready();
    try {
      return this.#statements.get(sql, mode);
    } catch (thrown) {
      throw this.failed(thrown);
    }
  }

  #preparedWithRows(sql: string, mode: AccessMode): PreparedSql {
    const statement = this.#prepared(sql, mode);
    if (statement.kind === "write") this.assertOpen();
    assertRows(statement);
    if (statement.varies) this.#variedReads += 1;
    return statement;
  }

  #selectRows(statement: PreparedSql, bindings: Bindings): SqlValue[][] {
    const { handle } = statement;
    const rows: SqlValue[][] = [];
    let bytes = 0;
    let rounded = false;
    this.#runStatement(statement, () => {
      for (const row of handle.iterate(...bindings)) {
        bytes += sizeOfRow(row);
        if (takeRow(row)) rows.push(row);
        else rounded = true;
        if (rounded) break;
        checkBounds(rows.length, bytes, this.bounds);
      }
    });
    return rounded ? this.#exactRows(statement, bindings) : rows;
  }

  #exactRows(statement: PreparedSql, bindings: Bindings): SqlValue[][] {
    const { exact, columns } = statement;
    const rows: SqlValue[][] = [];
    let bytes = 0;
    this.#runStatement(statement, () => {
      for (const raw of exact.iterate(...bindings)) {
        const row = plainRow(raw, columns);
        bytes += sizeOfRow(row);
        rows.push(row);
        checkBounds(rows.length, bytes, this.bounds);
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
      const { raw } = this.#noting(statement, () => {
        const raw = this.#runStatement(statement, () => statement.exact.all(...bindings));
        return { raw, changes: this.#changes() };
      });
      rows = raw.map((row) => plainRow(row, columns));
      checkBounds(
        rows.length,
        rows.reduce((sum, row) => sum + sizeOfRow(row), 0),
        this.bounds,
      );
    } catch (error) {
      this.rollbackTo();
      throw error;
    }
    this.release();
    return rows;
  }

  #runStatement<T>(statement: PreparedSql, action: () => T): T {
    return this.#runSql(statement.handle.source, action);
  }

  #runSql<T>(sql: string, action: () => T): T {
    return this.run(undefined, () => {
      this.#running.statementBegins(sql);
      try {
        return action();
      } finally {
        this.#running.statementEnds();
      }
    });
  }

  #changes(): number {
    return Number(this.kernel("SELECT changes()").get()?.[0] ?? 0);
  }

  #changesOf(statement: PreparedSql, changes = this.#changes(), lastId?: number | bigint): ExecResult {
    if (changes === 0 || !this.#givesId(statement)) return { changes, lastId: 0 };
    const id = lastId ?? Number(this.kernel("SELECT last_insert_rowid()").get()?.[0] ?? 0);
    if (!mayBeRounded(id)) return { changes, lastId: Number(id) };
    // The row is there: to fail now would leave it to whoever catches that.
    return { changes, lastId: String(this.kernel("SELECT CAST(last_insert_rowid() AS TEXT)").get()?.[0]) };
  }

  /** Else SQLite would name the row that some INSERT before it has made. */
  #givesId(statement: PreparedSql): boolean {
    if (statement.insertsInto === undefined) return false;
    statement.givesId ??=
      this.kernel("SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE AND wr").get(
        statement.insertsInto,
      ) === undefined;
    return statement.givesId;
  }

  /**
   * Runs a writing statement; the call counts as writing if it changed anything. Its own count is not all of that: triggers
   * change rows for which it counts none, and what fails may keep the rows before. An INSERT that makes no row may use up an id
   * of AUTOINCREMENT all the same: nobody has it, and whether it is given again or not is one.
   */
  #noting<T extends { readonly changes: number }>(statement: PreparedSql, run: () => T): T {
    const mayHide = statement.failsHalfway || this.#hidesChanges === true;
    const before = mayHide ? this.#totalChanges() : undefined;
    let changes = 0;
    try {
      const result = run();
      changes = result.changes;
      return result;
    } finally {
      if (changes > 0 || (!this.doomed && this.#hasChanged(before))) this.noteWrite();
    }
  }

  /** @param before undefined of a statement whose count tells all, unless the schema hides something: then it may have */
  #hasChanged(before: number | undefined): boolean {
    return before === undefined ? this.#hidesSomething() : this.#totalChanges() !== before;
  }

  #totalChanges(): number {
    return Number(this.kernel("SELECT total_changes()").get()?.[0]);
  }

  #hidesSomething(): boolean {
    this.#hidesChanges ??=
      this.kernel(
        `SELECT 1 FROM sqlite_schema
         WHERE type = 'trigger' OR (sql LIKE '%fail%' AND name NOT LIKE '\\${KERNEL_PREFIX}%' ESCAPE '\\') LIMIT 1`,
      ).get() !== undefined;
    return this.#hidesChanges;
  }

  #forgetSchema(): void {
    this.#hidesChanges = undefined;
    this.#hasVaryingViews = undefined;
    this.#statements.clear();
  }
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

function assertWriting(statement: PreparedSql): void {
  if (statement.kind !== "select") return;
  throw MoonportError.of("sql_error", "the statement only reads; exec would drop its rows", {
    hint: "use one, all or each",
  });
}

function assertRows(statement: PreparedSql): void {
  if (statement.returnsRows) return;
  throw MoonportError.of("sql_error", "the statement returns no rows", { hint: "use exec, or add RETURNING" });
}
