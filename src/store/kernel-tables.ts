/**
 * The kernel's own tables and indexes in an object's file: their definitions, all in this one place, and which of them exist.
 *
 * Each is made by its first write, inside that write's transaction: eight empty ones would cost every object 56 KB. What does
 * not exist reads as empty. The definitions are a stored format: change one only together with a way to read the old.
 */
import type { ObjectDatabase } from "./object-database.js";

const DEFINITIONS = {
  /** state.store. */
  _mp_store: "CREATE TABLE _mp_store (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
  /** Log of volatile writes: `text` is appended, `value` replaces; `bytes` is the sum over the key's rows so far. */
  _mp_volatile: `CREATE TABLE _mp_volatile (key TEXT NOT NULL, n INTEGER NOT NULL, bytes INTEGER NOT NULL,
    text TEXT, value BLOB, PRIMARY KEY (key, n)) WITHOUT ROWID`,
  /** Single facts about the object; values are msgpack. */
  _mp_meta: "CREATE TABLE _mp_meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
  /** Events, numbered from 1 without gaps; the oldest are deleted. */
  _mp_event: `CREATE TABLE _mp_event (n INTEGER PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL,
    at_ms INTEGER NOT NULL)`,
  /** Timers. Ids are never used twice, so that one which fired cannot be taken for a later one. */
  _mp_timer: `CREATE TABLE _mp_timer (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, due_ms INTEGER NOT NULL,
    plan BLOB NOT NULL, method TEXT NOT NULL, args BLOB NOT NULL)`,
  _mp_timer_due: "CREATE INDEX _mp_timer_due ON _mp_timer (due_ms)",
  /**
   * Of timers that have run or failed, and are still set: the due time of a run that is tried again, its tries, those that
   * count, when they began, why the last one failed, whether it was given up; how many runs there were, and when the last was.
   */
  _mp_timer_state: `CREATE TABLE _mp_timer_state (id INTEGER PRIMARY KEY, run_due_ms INTEGER, tries INTEGER NOT NULL,
    attempts INTEGER NOT NULL, began_ms INTEGER, error BLOB, dead INTEGER NOT NULL, runs INTEGER NOT NULL,
    last_ms INTEGER)`,
  /** The last runs of timers. */
  _mp_timer_run: `CREATE TABLE _mp_timer_run (n INTEGER PRIMARY KEY, timer INTEGER NOT NULL, name TEXT,
    method TEXT NOT NULL, due_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, outcome TEXT NOT NULL, error BLOB)`,
  /** Messages not yet delivered, in the order they were sent. */
  _mp_outbox: `CREATE TABLE _mp_outbox (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    class TEXT NOT NULL, key TEXT NOT NULL, method TEXT NOT NULL, args BLOB NOT NULL, due_ms INTEGER NOT NULL)`,
  /** Of those, the ones that were sent with a delay. */
  _mp_outbox_delayed: "CREATE TABLE _mp_outbox_delayed (n INTEGER PRIMARY KEY)",
  /** Of those, the ones that are not to be delivered any more from a time on, wall clock. */
  _mp_outbox_expiry: "CREATE TABLE _mp_outbox_expiry (n INTEGER PRIMARY KEY, expires_ms INTEGER NOT NULL)",
  /** Of those, the ones whose sender is to be told what became of them, and how. */
  _mp_outbox_outcome: "CREATE TABLE _mp_outbox_outcome (n INTEGER PRIMARY KEY, outcome BLOB NOT NULL)",
  /**
   * Replies of calls that carried an id, a row for those of one transaction (call-records); `n` is the number of the last of
   * them, `newest_ms` the newest time in any id through this row. The oldest rows are deleted.
   */
  _mp_reply: `CREATE TABLE _mp_reply (n INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, newest_ms INTEGER NOT NULL,
    heads BLOB NOT NULL, replies BLOB NOT NULL)`,
  /** The same as it was once: only read, and brought over (earlier-call-ids). */
  _mp_call: `CREATE TABLE _mp_call (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, method TEXT NOT NULL,
    args BLOB NOT NULL, reply BLOB NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL)`,
  /** The directory row, at most one. `row` is null as long as no derivation has succeeded. */
  _mp_row: `CREATE TABLE _mp_row (id INTEGER PRIMARY KEY CHECK (id = 1), row BLOB, seq INTEGER NOT NULL,
    stale_since_ms INTEGER, failure TEXT)`,
} as const;

export type KernelTable = keyof typeof DEFINITIONS;

export class KernelTables {
  readonly #database: ObjectDatabase;
  #known: Set<string> | undefined;

  constructor(database: ObjectDatabase) {
    this.#database = database;
    database.listen({
      rolledBack: () => {
        this.#known = undefined;
      },
      committed() {},
    });
  }

  has(table: KernelTable): boolean {
    this.#known ??= this.#read();
    return this.#known.has(table);
  }

  /** Makes the table unless it is there; in a transaction. */
  ensure(table: KernelTable): void {
    if (this.has(table)) return;
    this.#database.kernel(DEFINITIONS[table]).run();
    this.#known?.add(table);
  }

  /** In a transaction; the table is there. */
  drop(table: KernelTable): void {
    this.#database.kernel(`DROP TABLE ${table}`).run();
    this.#known?.delete(table);
  }

  #read(): Set<string> {
    const rows = this.#database
      .kernel("SELECT name FROM sqlite_schema WHERE type IN ('table', 'index') AND name LIKE '\\_mp\\_%' ESCAPE '\\'")
      .all();
    return new Set(rows.map(([name]) => String(name)));
  }
}
