/** The rows of a cursor as they come, each told like a statement while SQLite looks for it: it may take as long. */
import type { RunningRecord } from "../world/watchdog/running-record.js";

export class ToldRows implements Iterator<unknown[]> {
  readonly #rows: Iterator<unknown[]>;
  readonly #sql: string;
  readonly #running: RunningRecord;

  constructor(rows: Iterator<unknown[]>, sql: string, running: RunningRecord) {
    this.#rows = rows;
    this.#sql = sql;
    this.#running = running;
  }

  next(): IteratorResult<unknown[]> {
    this.#running.statementBegins(this.#sql);
    try {
      return this.#rows.next();
    } finally {
      this.#running.statementEnds();
    }
  }

  return(): IteratorResult<unknown[]> {
    return this.#rows.return?.() ?? { done: true, value: undefined };
  }
}
