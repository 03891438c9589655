/**
 * The floor of every write: bare better-sqlite3 running the statements that one call of `Work:write` comes down to, with no
 * Lua, no mailbox, no shipping around them.
 */
import path from "node:path";
import SqliteDatabase, { type Database, type Statement } from "better-sqlite3";

export interface BareOptions {
  readonly pageBytes: number;
}

/** Where a node checkpoints an object's WAL by default. */
const WAL_BYTES = 256 * 1024;
const VALUE = Buffer.from("\x82\xa3who\xa3ada\xa6amount\xcd\x03\xe8", "latin1");

const LOOK = "SELECT id, who, amount FROM entries ORDER BY id DESC LIMIT 1";
const SCHEMA = `
  CREATE TABLE entries (id INTEGER PRIMARY KEY, who TEXT NOT NULL, amount INTEGER NOT NULL);
  CREATE TABLE store (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE event (n INTEGER PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL, at_ms INTEGER NOT NULL);
  CREATE TABLE row (id INTEGER PRIMARY KEY CHECK (id = 1), row BLOB, seq INTEGER NOT NULL);
`;

export class BareSqlite {
  readonly #database: Database;
  readonly #sql: Record<
    "begin" | "commit" | "savepoint" | "release" | "before" | "insert" | "set" | "emit" | "row" | "look",
    Statement
  >;
  #count = 0;

  constructor(folder: string, name: string, { pageBytes }: BareOptions) {
    const database = new SqliteDatabase(path.join(folder, `${name}.db`));
    configure(database, pageBytes);
    database.exec(SCHEMA);
    this.#database = database;
    this.#sql = {
      begin: database.prepare("BEGIN IMMEDIATE"),
      commit: database.prepare("COMMIT"),
      savepoint: database.prepare("SAVEPOINT mp"),
      release: database.prepare("RELEASE mp"),
      before: database.prepare("SELECT id, amount FROM entries ORDER BY id DESC LIMIT 1").raw(true),
      insert: database.prepare("INSERT INTO entries (who, amount) VALUES (?, ?)"),
      set: database.prepare("INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"),
      emit: database.prepare("INSERT INTO event VALUES (?, ?, ?, ?)"),
      row: database.prepare("INSERT OR REPLACE INTO row VALUES (1, ?, ?)"),
      look: database.prepare(LOOK).raw(true),
    };
    this.transaction();
  }

  /** One call in a transaction of its own. */
  transaction(): void {
    this.#sql.begin.run();
    this.#call();
    this.#sql.row.run(VALUE, this.#count);
    this.#sql.commit.run();
  }

  /** Several calls in one transaction, a savepoint each and one directory row. */
  burst(calls: number): void {
    this.#sql.begin.run();
    for (let call = 0; call < calls; call++) {
      this.#sql.savepoint.run();
      this.#call();
      this.#sql.release.run();
    }
    this.#sql.row.run(VALUE, this.#count);
    this.#sql.commit.run();
  }

  /** An existing file opened anew, its newest entry read. The caller closes what it is given. */
  static reopenAndLook(folder: string, name: string): { close(): void } {
    const database = new SqliteDatabase(path.join(folder, `${name}.db`), { fileMustExist: true });
    configure(database, 1_024);
    database.prepare(LOOK).raw(true).get();
    return database;
  }

  look(): void {
    this.#sql.look.get();
  }

  close(): void {
    this.#database.close();
  }

  #call(): void {
    this.#count++;
    this.#sql.before.get();
    this.#sql.insert.run("ada", this.#count);
    this.#sql.set.run("last", VALUE);
    this.#sql.emit.run(this.#count, "written", VALUE, 1_700_000_000_000);
  }
}

/** As an object's file is configured. */
function configure(database: Database, pageBytes: number): void {
  database.pragma("locking_mode = EXCLUSIVE");
  database.pragma(`page_size = ${pageBytes}`);
  database.pragma("synchronous = OFF");
  database.pragma("journal_mode = WAL");
  database.pragma(`wal_autocheckpoint = ${WAL_BYTES / pageBytes}`);
  database.pragma("cache_size = -1024");
}
