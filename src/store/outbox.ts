/**
 * Messages an object has sent and that are not yet delivered: they leave only if the transaction that sent them commits.
 *
 * A message's id travels with it; the receiver records it with the effect (W2). The same id sent again is the same message.
 */
import type { Settings } from "../settings/settings.js";
import type { PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { ObjectDatabase } from "./object-database.js";
import type { OwingChange } from "./owing-change.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export interface OutgoingMessage {
  readonly id: string;
  readonly className: string;
  readonly key: string;
  readonly method: string;
  readonly args: readonly PlainValue[];
  /** Wall clock, milliseconds: not to be delivered before. */
  readonly dueMs: number;
  /** Sent with a delay: its target's delay shard delivers it, whatever time it is by then. */
  readonly isDelayed: boolean;
  /** Wall clock, milliseconds: from then on it is not delivered any more. */
  readonly expiresMs?: number | undefined;
  /** How its sender is told what became of it. */
  readonly outcome?: { readonly method: string } | { readonly event: string } | undefined;
}

export interface StoredMessage extends OutgoingMessage {
  /** Its place in the order of sending. */
  readonly number: number;
}

/** The row that holds the last number that was given, whatever was deleted; there is none before the first. */
const OF_OUTBOX = "WHERE name = '_mp_outbox'";

export class Outbox {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #limits: Pick<Settings, "VALUE_BYTES_MAX">;
  readonly #change: OwingChange;

  constructor(
    database: ObjectDatabase,
    tables: KernelTables,
    limits: Pick<Settings, "VALUE_BYTES_MAX">,
    change: OwingChange,
  ) {
    this.#change = change;
    this.#database = database;
    this.#tables = tables;
    this.#limits = limits;
  }

  /** Returns false when a message of this id is waiting already. @throws MoonportError `too_large` */
  add(message: OutgoingMessage): boolean {
    const what = `the arguments of ${message.className}.${message.method}`;
    const args = encodeValue([...message.args], this.#limits.VALUE_BYTES_MAX, what);
    this.#tables.ensure("_mp_outbox");
    if (this.#database.kernel("SELECT 1 FROM _mp_outbox WHERE id = ?").get(message.id) !== undefined) return false;
    this.#change.happened = true;
    this.#database
      .kernel("INSERT INTO _mp_outbox (id, class, key, method, args, due_ms) VALUES (?, ?, ?, ?, ?, ?)")
      .run(message.id, message.className, message.key, message.method, args, message.dueMs);
    if (message.isDelayed) {
      this.#tables.ensure("_mp_outbox_delayed");
      this.#database.kernel("INSERT INTO _mp_outbox_delayed VALUES (last_insert_rowid())").run();
    }
    if (message.expiresMs !== undefined) this.#addExpiry(message.id, message.expiresMs);
    if (message.outcome !== undefined) this.#addOutcome(message.id, message.outcome);
    return true;
  }

  /** Messages with a number above `after`, in the order of sending, at most `limit`. */
  read(after: number, limit: number): StoredMessage[] {
    if (!this.#tables.has("_mp_outbox")) return [];
    return this.#database
      .kernel("SELECT n, id, class, key, method, args, due_ms FROM _mp_outbox WHERE n > ? ORDER BY n LIMIT ?")
      .all(after, limit)
      .map((row) => {
        const number = Number(row[0]);
        return messageOf(row, this.#isDelayed(number), this.#expiryOf(number), this.#outcomeOf(number));
      });
  }

  #addExpiry(id: string, expiresMs: number): void {
    this.#tables.ensure("_mp_outbox_expiry");
    const sql = "INSERT INTO _mp_outbox_expiry SELECT n, ? FROM _mp_outbox WHERE id = ?";
    this.#database.kernel(sql).run(expiresMs, id);
  }

  #expiryOf(number: number): number | undefined {
    if (!this.#tables.has("_mp_outbox_expiry")) return undefined;
    const row = this.#database.kernel("SELECT expires_ms FROM _mp_outbox_expiry WHERE n = ?").get(number);
    return row && Number(row[0]);
  }

  #addOutcome(id: string, outcome: NonNullable<OutgoingMessage["outcome"]>): void {
    this.#tables.ensure("_mp_outbox_outcome");
    const encoded = encodeValue({ ...outcome }, this.#limits.VALUE_BYTES_MAX, "an outcome");
    this.#database.kernel("INSERT INTO _mp_outbox_outcome SELECT n, ? FROM _mp_outbox WHERE id = ?").run(encoded, id);
  }

  #outcomeOf(number: number): OutgoingMessage["outcome"] {
    if (!this.#tables.has("_mp_outbox_outcome")) return undefined;
    const row = this.#database.kernel("SELECT outcome FROM _mp_outbox_outcome WHERE n = ?").get(number);
    // Written by `add`.
    return row && (decodeValue(row[0]) as OutgoingMessage["outcome"]);
  }

  /** Whether it was there. */
  remove(number: number): boolean {
    if (!this.#tables.has("_mp_outbox")) return false;
    this.#change.happened = true;
    if (this.#tables.has("_mp_outbox_delayed")) {
      this.#database.kernel("DELETE FROM _mp_outbox_delayed WHERE n = ?").run(number);
    }
    if (this.#tables.has("_mp_outbox_expiry")) {
      this.#database.kernel("DELETE FROM _mp_outbox_expiry WHERE n = ?").run(number);
    }
    if (this.#tables.has("_mp_outbox_outcome")) {
      this.#database.kernel("DELETE FROM _mp_outbox_outcome WHERE n = ?").run(number);
    }
    return this.#database.kernel("DELETE FROM _mp_outbox WHERE n = ?").run(number) > 0;
  }

  #isDelayed(number: number): boolean {
    if (!this.#tables.has("_mp_outbox_delayed")) return false;
    return this.#database.kernel("SELECT 1 FROM _mp_outbox_delayed WHERE n = ?").get(number) !== undefined;
  }

  /** Number of the last one that waits; 0 when none does. */
  get last(): number {
    if (!this.#tables.has("_mp_outbox")) return 0;
    return Number(this.#database.kernel("SELECT max(n) FROM _mp_outbox").get()?.[0] ?? 0);
  }

  /** Number of the last one that was ever sent; 0 when none was. */
  get lastEver(): number {
    if (!this.#tables.has("_mp_outbox")) return 0;
    return Number(this.#database.kernel(`SELECT seq FROM sqlite_sequence ${OF_OUTBOX}`).get()?.[0] ?? 0);
  }

  /** Numbers go on after this one, at least. In a transaction. */
  startAfter(number: number): void {
    if (number <= this.lastEver) return;
    this.#tables.ensure("_mp_outbox");
    this.#database.kernel(`DELETE FROM sqlite_sequence ${OF_OUTBOX}`).run();
    this.#database.kernel("INSERT INTO sqlite_sequence VALUES ('_mp_outbox', ?)").run(number);
  }

  /** In a transaction. */
  clear(): void {
    for (const table of ["_mp_outbox", "_mp_outbox_delayed", "_mp_outbox_expiry", "_mp_outbox_outcome"] as const) {
      if (this.#tables.has(table)) this.#database.kernel(`DELETE FROM ${table}`).run();
    }
  }

  get count(): number {
    if (!this.#tables.has("_mp_outbox")) return 0;
    return Number(this.#database.kernel("SELECT count(*) FROM _mp_outbox").get()?.[0] ?? 0);
  }
}

function messageOf(
  row: readonly unknown[],
  isDelayed: boolean,
  expiresMs: number | undefined,
  outcome: OutgoingMessage["outcome"],
): StoredMessage {
  const [n, id, className, key, method, args, dueMs] = row;
  return {
    number: Number(n),
    id: String(id),
    className: String(className),
    key: String(key),
    method: String(method),
    // Written by `add`, from an array.
    args: decodeValue(args) as PlainValue[],
    dueMs: Number(dueMs),
    isDelayed,
    expiresMs,
    outcome,
  };
}
