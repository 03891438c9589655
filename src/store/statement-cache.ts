/**
 * The prepared statements of class code on one connection: checked, prepared once, kept by their text, bounded.
 *
 * Eviction gives a used statement a second chance, so that a hit costs one map look-up and nothing else.
 */
import type { Database, Statement } from "better-sqlite3";
import { MoonportError } from "../errors.js";
import { type CheckedStatement, checkSql, type SqlKind, type SqlMode } from "./sql-guard.js";
import { type ParameterShape, shapeOf } from "./sql-values.js";

export type RawStatement = Statement<unknown[], unknown[]>;

export class PreparedSql {
  readonly kind: SqlKind;
  readonly shape: ParameterShape;
  readonly varies: boolean;
  readonly failsHalfway: boolean;
  readonly insertsInto: string | undefined;
  /** Whether the table into which it inserts has rowids; unknown until it has made a row. */
  givesId: boolean | undefined;
  /** Gives rows with plain numbers: fast, and inexact for integers beyond ±2^53. */
  readonly handle: RawStatement;
  wasUsed = false;
  readonly #connection: Database;
  #exact: RawStatement | undefined;
  #columns: readonly string[] | undefined;

  constructor(connection: Database, checked: CheckedStatement) {
    this.#connection = connection;
    this.kind = checked.kind;
    this.shape = shapeOf(checked.parameters);
    this.varies = checked.varies;
    this.failsHalfway = checked.failsHalfway;
    this.insertsInto = checked.insertsInto;
    this.handle = prepare(connection, checked);
  }

  get returnsRows(): boolean {
    return this.handle.reader;
  }

  /** The same statement, giving every integer as a bigint. It is another one because the binding fixes that per statement. */
  get exact(): RawStatement {
    this.#exact ??= this.#connection.prepare<unknown[], unknown[]>(this.handle.source).raw(true).safeIntegers(true);
    return this.#exact;
  }

  get columns(): readonly string[] {
    this.#columns ??= this.handle.columns().map((column) => column.name);
    return this.#columns;
  }
}

export class StatementCache {
  readonly #connection: Database;
  readonly #sqlBytesMax: number;
  readonly #entriesMax: number;
  readonly #entries = new Map<string, PreparedSql>();

  constructor(connection: Database, sqlBytesMax: number, entriesMax: number) {
    this.#connection = connection;
    this.#sqlBytesMax = sqlBytesMax;
    this.#entriesMax = entriesMax;
  }

  /** @throws MoonportError `sql_refused`, `read_only`, `too_large`; what SQLite throws while preparing comes as it is */
  get(sql: string, mode: Exclude<SqlMode, "migration">): PreparedSql {
    const known = this.#entries.get(sql);
    if (known !== undefined && (mode === "method" || known.kind === "select")) {
      known.wasUsed = true;
      return known;
    }
    const [checked] = checkSql(sql, mode, this.#sqlBytesMax).statements;
    if (checked === undefined) throw MoonportError.of("sql_refused", "there is no statement in the text");
    const prepared = new PreparedSql(this.#connection, checked);
    this.#entries.set(sql, prepared);
    if (this.#entries.size > this.#entriesMax) this.#evictOne();
    return prepared;
  }

  clear(): void {
    this.#entries.clear();
  }

  #evictOne(): void {
    for (const [sql, entry] of this.#entries) {
      this.#entries.delete(sql);
      if (!entry.wasUsed) return;
      entry.wasUsed = false;
      this.#entries.set(sql, entry);
    }
  }
}

/** Prepares one checked statement; SQLite has the last word on whether it only reads. */
export function prepare(connection: Database, checked: CheckedStatement): RawStatement {
  const handle: RawStatement = connection.prepare<unknown[], unknown[]>(checked.sql);
  if (checked.kind === "select" && !handle.readonly) {
    throw MoonportError.of("sql_refused", "the statement reads by its words but would write");
  }
  if (handle.reader) handle.raw(true);
  return handle;
}
