/**
 * The kernel's own tables in an object's file: their definitions, all in this one place, and which of them exist.
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

  #read(): Set<string> {
    const rows = this.#database
      .kernel("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '\\_mp\\_%' ESCAPE '\\'")
      .all();
    return new Set(rows.map(([name]) => String(name)));
  }
}
