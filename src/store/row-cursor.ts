/**
 * The rows of one `each`, a row at a time.
 *
 * A cursor streams from SQLite for as long as nothing else uses the connection. Before any other statement runs, the rest of
 * its rows is read into memory ("parked"), so the loop sees the snapshot it began with and may write while it iterates. What
 * is parked is bounded; a loop beyond the bound fails with `too_large`, the statement that parked it does not.
 */
import { MoonportError } from "../errors.js";
import type { SqlValue } from "../values.js";
import { plainValue, sizeOfValue } from "./sql-values.js";

export interface RowBounds {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

type CursorState =
  | { readonly kind: "streaming"; readonly source: Iterator<unknown[]> }
  | { readonly kind: "parked"; readonly rows: readonly SqlValue[][]; next: number }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "done" };

const DONE: CursorState = { kind: "done" };

export class RowCursor {
  readonly columns: readonly string[];
  readonly #onDone: (cursor: RowCursor) => void;
  readonly #coded: (thrown: unknown) => MoonportError;
  #state: CursorState;

  /**
   * @param source rows with exact integers
   * @param onDone called once, when the cursor needs the connection no more
   */
  constructor(
    columns: readonly string[],
    source: Iterator<unknown[]>,
    onDone: (cursor: RowCursor) => void,
    coded: (thrown: unknown) => MoonportError,
  ) {
    this.columns = columns;
    this.#onDone = onDone;
    this.#coded = coded;
    this.#state = { kind: "streaming", source };
  }

  /** The next row, or `undefined` at the end. @throws MoonportError also for what went wrong while it was parked */
  next(): readonly SqlValue[] | undefined {
    const state = this.#state;
    switch (state.kind) {
      case "streaming":
        return this.#pull(state.source);
      case "parked":
        return state.rows[state.next++];
      case "failed":
        throw state.error;
      case "done":
        return undefined;
    }
  }

  /** Frees the connection: reads the rest into memory. Never throws; a failure waits for the next {@link next}. */
  park(bounds: RowBounds): void {
    if (this.#state.kind !== "streaming") return;
    const { source } = this.#state;
    try {
      const rows = collectRows(this.#rest(source), bounds);
      this.#state = { kind: "parked", rows, next: 0 };
    } catch (error) {
      source.return?.();
      this.#onDone(this);
      this.#state = { kind: "failed", error: error };
    }
  }

  /** Idempotent. */
  close(): void {
    if (this.#state.kind === "streaming") {
      this.#state.source.return?.();
      this.#onDone(this);
    }
    this.#state = DONE;
  }

  *#rest(source: Iterator<unknown[]>): Iterable<SqlValue[]> {
    for (let row = this.#pull(source); row !== undefined; row = this.#pull(source)) yield row;
  }

  #pull(source: Iterator<unknown[]>): SqlValue[] | undefined {
    try {
      const step = source.next();
      if (step.done === true) {
        this.#onDone(this);
        this.#state = DONE;
        return undefined;
      }
      return plainRow(step.value, this.columns);
    } catch (thrown) {
      const error = this.#coded(thrown);
      this.close();
      throw error;
    }
  }
}

/** A row of exact integers as plain values. */
export function plainRow(row: readonly unknown[], columns: readonly string[]): SqlValue[] {
  const plain: SqlValue[] = new Array(row.length);
  for (let index = 0; index < row.length; index++) plain[index] = plainValue(row[index], columns[index] ?? "a column");
  return plain;
}

/** @throws MoonportError `too_large` */
function collectRows(source: Iterable<SqlValue[]>, bounds: RowBounds): SqlValue[][] {
  const rows: SqlValue[][] = [];
  let bytes = 0;
  for (const row of source) {
    rows.push(row);
    bytes += sizeOfRow(row);
    checkBounds(rows.length, bytes, bounds);
  }
  return rows;
}

export function sizeOfRow(row: readonly unknown[]): number {
  let bytes = 16;
  for (const value of row) bytes += sizeOfValue(value);
  return bytes;
}

export function checkBounds(rows: number, bytes: number, bounds: RowBounds): void {
  if (rows <= bounds.rowsMax && bytes <= bounds.bytesMax) return;
  const what = rows > bounds.rowsMax ? `${bounds.rowsMax} rows` : `${bounds.bytesMax} bytes of rows`;
  throw MoonportError.of("too_large", `the statement returns more than ${what}`, {
    hint: "use each in a loop that runs no other statement, or read in pages: WHERE id > ? ORDER BY id LIMIT 1000",
  });
}
