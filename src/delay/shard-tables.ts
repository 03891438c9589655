/**
 * The tables of a delay shard, and what an entry of its log changes in them. Nothing here reads a clock or draws lots: the
 * time of an entry comes with it.
 */
import type { CallHost, TimerPlan } from "../lua/contract.js";
import { dueTimeMs, takeUp } from "../object/due-time.js";
import { EMIT } from "../object/kernel-methods.js";
import { timedId } from "../object/timed-id.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainObject, PlainValue, SqlValue } from "../values.js";
import type { CommandRequest, DueCommand } from "./command.js";
import type { Changed, CommandState } from "./contract.js";
import type { Entry } from "./shard-entry.js";

export const SHARD_MIGRATIONS = [
  `CREATE TABLE command (
    id TEXT PRIMARY KEY, app TEXT NOT NULL, class TEXT NOT NULL, key TEXT NOT NULL, method TEXT NOT NULL,
    args BLOB, args_hash TEXT, caller BLOB NOT NULL, plan BLOB NOT NULL, outcome BLOB,
    state TEXT NOT NULL, due_ms INTEGER NOT NULL, look_ms INTEGER, next_ms INTEGER, expires_ms INTEGER,
    run INTEGER NOT NULL, attempts INTEGER NOT NULL, tries INTEGER NOT NULL, began_ms INTEGER,
    call_id TEXT, call_id_ms INTEGER, doubtful INTEGER NOT NULL, error BLOB,
    created_ms INTEGER NOT NULL, last_ms INTEGER, ended_ms INTEGER);
  CREATE INDEX command_look ON command (look_ms) WHERE look_ms IS NOT NULL;
  CREATE INDEX command_ended ON command (ended_ms) WHERE ended_ms IS NOT NULL;
  CREATE INDEX command_delivering ON command (id) WHERE state = 'delivering';
  CREATE TABLE run (
    command TEXT NOT NULL, run INTEGER NOT NULL, due_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, outcome TEXT NOT NULL,
    tries INTEGER NOT NULL, error BLOB, PRIMARY KEY (command, run)) WITHOUT ROWID;
  CREATE TABLE wake (
    object TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, look_ms INTEGER NOT NULL,
    failures INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX wake_look ON wake (look_ms);
  CREATE TABLE argument (hash TEXT PRIMARY KEY, refs INTEGER NOT NULL, since_ms INTEGER NOT NULL,
    deleting INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE entry (n INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    body BLOB NOT NULL);
  CREATE TABLE position (id INTEGER PRIMARY KEY CHECK (id = 1), applied INTEGER NOT NULL);
  CREATE TABLE tally (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID`,
];

/** Runs of one command that are remembered. */
const RUNS_KEPT = 20;
/** Rows that one entry may forget. */
const TRIM_ROWS_MAX = 1_000;

export type ShardDatabase = Pick<CallHost, "sqlExec" | "sqlAll" | "sqlOne">;

type Row = Readonly<Record<string, SqlValue>>;

/** Applies one entry. @returns what it came to, for whoever asked */
export function applyEntry(database: ShardDatabase, entry: Entry, atMs: number): PlainValue {
  const shard = new ShardTables(database, atMs);
  switch (entry.kind) {
    case "schedule":
      return shard.schedule(entry.command);
    case "cancel":
      return shard.cancel(entry.id);
    case "move":
      return shard.move(entry.id, entry.plan);
    case "begin":
      return shard.begin(entry.id, entry.lateMs);
    case "ended":
      return shard.ended(entry);
    case "resume":
      return shard.resume();
    case "retry":
      return shard.retry(entry.id);
    case "wake":
      return shard.wake(entry);
    case "defer":
      return shard.defer(entry.object, entry.untilMs);
    case "trim":
      return shard.trim(entry);
    case "reserve":
      return shard.reserve(entry.hash);
    case "sweep":
      return shard.sweep(entry.unusedSinceMs);
    case "swept":
      return shard.swept(entry.hashes);
  }
}

class ShardTables {
  readonly #database: ShardDatabase;
  readonly #atMs: number;

  constructor(database: ShardDatabase, atMs: number) {
    this.#database = database;
    this.#atMs = atMs;
  }

  schedule(command: CommandRequest): PlainValue {
    const known = this.#command(command.id);
    if (known !== undefined) return isSame(known, command) ? "known" : "conflict";
    const { argsHash } = command;
    if (argsHash !== null && !this.#refer(argsHash)) return "args_missing";
    const dueMs = dueTimeMs(planOf(command.plan), this.#atMs);
    this.#insert(command, dueMs);
    return "scheduled";
  }

  cancel(id: string): Changed {
    const row = this.#command(id);
    if (row === undefined) return "unknown";
    const state = row.state as CommandState;
    if (state === "done") return "delivered";
    if (isUnderWay(row)) return "delivering";
    if (state === "pending" || state === "retrying" || state === "dead") {
      this.#end(row, "cancelled");
      this.#count("cancelled");
    }
    return "done";
  }

  move(id: string, plan: PlainObject): Changed {
    const row = this.#command(id);
    if (row === undefined) return "unknown";
    const state = row.state as CommandState;
    if (state === "done") return "delivered";
    if (isUnderWay(row)) return "delivering";
    if (state !== "pending" && state !== "retrying" && state !== "dead") return "unknown";
    const dueMs = dueTimeMs(planOf(plan), this.#atMs);
    this.#run(
      `UPDATE command SET plan = ?, due_ms = ?, look_ms = ?, next_ms = NULL, state = 'pending', attempts = 0, tries = 0,
       began_ms = NULL, call_id = NULL, call_id_ms = NULL, doubtful = 0, error = NULL, ended_ms = NULL WHERE id = ?`,
      encoded(plan),
      dueMs,
      dueMs,
      id,
    );
    return "done";
  }

  /** `null` when there is nothing to deliver: it was cancelled or moved meanwhile, or found too late. */
  begin(id: string, lateMs: number): PlainValue {
    const row = this.#command(id);
    if (row === undefined || row.look_ms === null || Number(row.look_ms) > this.#atMs) return null;
    if (row.expires_ms !== null && Number(row.expires_ms) <= this.#atMs && row.doubtful === 0) {
      return this.#passOver(row, "expired");
    }
    let begun = row;
    if (row.state === "pending") {
      const taken = takeUp(planOf(decodeValue(row.plan) as PlainObject), Number(row.due_ms), this.#atMs, lateMs);
      begun = { ...row, due_ms: taken.dueMs, next_ms: taken.nextMs ?? null, began_ms: this.#atMs };
      if (taken.kind === "skip") return this.#passOver(begun, "skipped");
    }
    const callIdMs = row.call_id === null ? this.#atMs : Number(row.call_id_ms);
    const callId = row.call_id ?? timedId(callIdMs, `command\n${id}\n${row.run}\n${row.tries}\n${row.created_ms}`);
    const { due_ms: dueMs = null, next_ms: nextMs = null, began_ms: beganMs = null } = begun;
    this.#run(
      `UPDATE command SET state = 'delivering', look_ms = NULL, due_ms = ?, next_ms = ?, began_ms = ?, call_id = ?,
       call_id_ms = ? WHERE id = ?`,
      dueMs,
      nextMs,
      beganMs,
      callId,
      callIdMs,
      id,
    );
    return dueCommandOf({ ...begun, call_id: callId, call_id_ms: callIdMs });
  }

  ended({ id, run, callId, outcome }: Extract<Entry, { kind: "ended" }>): PlainValue {
    const row = this.#command(id);
    // Somebody else has told how this try ended, or drives the shard by now and tries again.
    if (row === undefined || row.run !== run || row.call_id !== callId || row.state === "done") return false;
    if (row.state !== "delivering" && outcome.kind !== "done") return false;
    if (outcome.kind === "again") {
      this.#run(
        `UPDATE command SET state = 'retrying', look_ms = ?, tries = tries + 1, attempts = attempts + ?, doubtful = ?,
         error = ? WHERE id = ?`,
        outcome.untilMs,
        outcome.counts ? 1 : 0,
        outcome.doubtful ? 1 : 0,
        encoded(outcome.error),
        id,
      );
      if (outcome.renew) this.#run("UPDATE command SET call_id = NULL, call_id_ms = NULL WHERE id = ?", id);
      return true;
    }
    const how =
      outcome.kind === "done"
        ? { error: null, doubtful: 0 }
        : { error: encoded(outcome.error), doubtful: outcome.doubtful ? 1 : 0 };
    this.#endRun({ ...row, ...how }, outcome.kind);
    return true;
  }

  resume(): PlainValue {
    return this.#run(
      "UPDATE command SET state = 'retrying', doubtful = 1, look_ms = ? WHERE state = 'delivering'",
      this.#atMs,
    );
  }

  retry(id: string): PlainValue {
    const row = this.#command(id);
    if (row === undefined || row.state !== "dead") return false;
    // Under the id of a try whose outcome nobody knows nothing is done twice; where the receiver has forgotten it, only the
    // operator can say that it is to run.
    const keepsId = row.doubtful === 1 && errorOf(row.error)?.code !== "id_expired";
    this.#run(
      `UPDATE command SET state = 'retrying', look_ms = ?, attempts = 0, began_ms = ?, ended_ms = NULL,
       call_id = CASE WHEN ? THEN call_id END, call_id_ms = CASE WHEN ? THEN call_id_ms END WHERE id = ?`,
      this.#atMs,
      this.#atMs,
      keepsId ? 1 : 0,
      keepsId ? 1 : 0,
      id,
    );
    return true;
  }

  /** What is older than what is known of the object changes nothing. */
  wake({ object, epoch, seq, atMs }: Extract<Entry, { kind: "wake" }>): PlainValue {
    if (atMs === null) {
      return this.#run("DELETE FROM wake WHERE object = ? AND (epoch, seq) <= (?, ?)", object, epoch, seq);
    }
    return this.#run(
      `INSERT INTO wake VALUES (?, ?, ?, ?, 0) ON CONFLICT (object) DO UPDATE SET epoch = excluded.epoch,
       seq = excluded.seq, look_ms = excluded.look_ms, failures = 0
       WHERE (excluded.epoch, excluded.seq) >= (epoch, seq)`,
      object,
      epoch,
      seq,
      atMs,
    );
  }

  defer(object: string, untilMs: number): PlainValue {
    return this.#run("UPDATE wake SET look_ms = ?, failures = failures + 1 WHERE object = ?", untilMs, object);
  }

  trim({ endedBeforeMs, deadBeforeMs }: Extract<Entry, { kind: "trim" }>): PlainValue {
    const gone = this.#all(
      `SELECT id, args_hash FROM command WHERE ended_ms IS NOT NULL
       AND ended_ms < CASE WHEN state = 'dead' THEN ? ELSE ? END ORDER BY ended_ms, id LIMIT ?`,
      deadBeforeMs,
      endedBeforeMs,
      TRIM_ROWS_MAX,
    );
    for (const { id = null, args_hash: hash = null } of gone) {
      this.#release(hash);
      this.#run("DELETE FROM run WHERE command = ?", id);
      this.#run("DELETE FROM command WHERE id = ?", id);
    }
    return gone.length;
  }

  reserve(hash: string): PlainValue {
    const known = this.#one("SELECT deleting FROM argument WHERE hash = ?", hash);
    if (known?.deleting === 1) return false;
    const sql =
      "INSERT INTO argument VALUES (?, 0, ?, 0) ON CONFLICT (hash) DO UPDATE SET since_ms = excluded.since_ms";
    this.#run(sql, hash, this.#atMs);
    return true;
  }

  sweep(unusedSinceMs: number): PlainValue {
    this.#run("UPDATE argument SET deleting = 1 WHERE refs = 0 AND since_ms < ?", unusedSinceMs);
    const rows = this.#all("SELECT hash FROM argument WHERE deleting = 1 ORDER BY hash LIMIT ?", TRIM_ROWS_MAX);
    return rows.map(({ hash = null }) => hash);
  }

  swept(hashes: readonly string[]): PlainValue {
    for (const hash of hashes) this.#run("DELETE FROM argument WHERE hash = ? AND deleting = 1", hash);
    return hashes.length;
  }

  /** The run ended without being tried. */
  #passOver(row: Row, outcome: "expired" | "skipped"): null {
    this.#endRun(row, outcome);
    return null;
  }

  /** @param row as it is by now; in the table it is still as it was */
  #endRun(row: Row, outcome: "done" | "dead" | "expired" | "skipped"): void {
    this.#remember(row, outcome);
    this.#count(outcome);
    this.#publish(row, outcome);
    const { id = null, next_ms: nextMs = null, error = null } = row;
    if (nextMs === null || outcome === "expired") return this.#end(row, outcome);
    this.#run(
      `UPDATE command SET state = 'pending', run = run + 1, due_ms = ?, look_ms = ?, next_ms = NULL, attempts = 0, tries = 0,
       began_ms = NULL, call_id = NULL, call_id_ms = NULL, doubtful = 0, error = ?, last_ms = ? WHERE id = ?`,
      nextMs,
      nextMs,
      error,
      this.#atMs,
      id,
    );
  }

  #end(row: Row, state: CommandState): void {
    const { id = null, args_hash: hash = null, due_ms: dueMs = null, error = null, doubtful = null } = row;
    // A dead letter may yet be wanted; of all others only what became of them is kept.
    const keepsArguments = state === "dead";
    if (!keepsArguments) this.#release(hash);
    this.#run(
      `UPDATE command SET state = ?, due_ms = ?, error = ?, doubtful = ?, look_ms = NULL, next_ms = NULL, last_ms = ?,
       ended_ms = ?, args = CASE WHEN ? THEN args END, args_hash = CASE WHEN ? THEN args_hash END WHERE id = ?`,
      state,
      dueMs,
      error,
      doubtful,
      this.#atMs,
      this.#atMs,
      keepsArguments ? 1 : 0,
      keepsArguments ? 1 : 0,
      id,
    );
  }

  #remember(row: Row, outcome: string): void {
    const tries = Number(row.tries) + (outcome === "done" || outcome === "dead" ? 1 : 0);
    const error = outcome === "dead" ? (row.error ?? null) : null;
    const { id = null, run = 0, due_ms: dueMs = 0 } = row;
    const sql = "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?)";
    this.#run(sql, id, run, dueMs, this.#atMs, outcome, tries, error);
    const forgotten = Number(run) - RUNS_KEPT;
    if (forgotten > 0) this.#run("DELETE FROM run WHERE command = ? AND run <= ?", id, forgotten);
  }

  /** Told to whom the scheduler named, by a command of this shard: its delivery is as certain as any. */
  #publish(row: Row, outcome: string): void {
    if (row.outcome === null) return;
    const target = decodeValue(row.outcome) as NonNullable<CommandRequest["outcome"]>;
    const { id = null, run = 0, app = null } = row;
    const error = outcome === "dead" ? errorOf(row.error) : undefined;
    const about = { id, object: `${row.class}/${row.key}`, method: row.method ?? null, run, outcome };
    const told = error === undefined ? about : { ...about, error };
    const message: CommandRequest = {
      id: `${id}~${run}`,
      app: String(app),
      className: target.className,
      key: target.key,
      method: "method" in target ? target.method : EMIT,
      args: encoded("method" in target ? [told] : [target.event, told]),
      argsHash: null,
      plan: { kind: "at", atMs: this.#atMs },
      expiresMs: null,
      caller: {},
      outcome: null,
      triedAs: null,
    };
    if (this.#command(message.id) === undefined) this.#insert(message, this.#atMs);
  }

  #insert(command: CommandRequest, dueMs: number): void {
    const { triedAs } = command;
    this.#run(
      "INSERT INTO command VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, 1, 0, 0, ?, ?, ?, ?, NULL, ?, NULL, NULL)",
      command.id,
      command.app,
      command.className,
      command.key,
      command.method,
      command.args,
      command.argsHash,
      encoded(command.caller),
      encoded(command.plan),
      command.outcome === null ? null : encoded(command.outcome),
      triedAs === null ? "pending" : "retrying",
      dueMs,
      triedAs === null ? dueMs : this.#atMs,
      command.expiresMs,
      triedAs === null ? null : this.#atMs,
      triedAs,
      triedAs === null ? null : this.#atMs,
      triedAs === null ? 0 : 1,
      this.#atMs,
    );
  }

  #refer(hash: string): boolean {
    return this.#run("UPDATE argument SET refs = refs + 1 WHERE hash = ? AND deleting = 0", hash) > 0;
  }

  #release(hash: SqlValue): void {
    if (hash === null) return;
    this.#run("UPDATE argument SET refs = refs - 1, since_ms = ? WHERE hash = ?", this.#atMs, hash);
  }

  #count(name: string): void {
    this.#run("INSERT INTO tally VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET count = count + 1", name);
  }

  #command(id: string): Row | undefined {
    return this.#one("SELECT * FROM command WHERE id = ?", id);
  }

  #run(sql: string, ...parameters: SqlValue[]): number {
    return this.#database.sqlExec(sql, parameters).changes;
  }

  #one(sql: string, ...parameters: SqlValue[]): Row | undefined {
    return rowsOf(this.#database.sqlOne(sql, parameters))[0];
  }

  #all(sql: string, ...parameters: SqlValue[]): Row[] {
    return rowsOf(this.#database.sqlAll(sql, parameters));
  }
}

export function rowsOf({ columns, rows }: ReturnType<ShardDatabase["sqlAll"]>): Row[] {
  return rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index] ?? null])));
}

export function errorOf(stored: SqlValue | undefined): { code: string; message: string } | undefined {
  if (!(stored instanceof Uint8Array)) return undefined;
  return decodeValue(stored) as { code: string; message: string };
}

/** Plans are checked where they are made; what stands in a log was one. */
export function planOf(fields: PlainObject): TimerPlan {
  return fields as PlainObject & TimerPlan;
}

/** Its outcome is not known: it may be happening, or may have happened. */
function isUnderWay(row: Row): boolean {
  return row.state === "delivering" || (row.state === "retrying" && row.doubtful === 1);
}

/**
 * Whether a command is one that is known already. Its arguments are forgotten when it has ended. Ids are the senders' to choose,
 * and nobody may take the place of another's command, or share what becomes of it, by choosing the same one. What is known of
 * nobody is everybody's.
 */
function isSame(row: Row, command: CommandRequest): boolean {
  const { id: sender } = decodeValue(row.caller) as PlainObject;
  if (sender !== undefined && sender !== command.caller.id) return false;
  const { app, className, key, method } = command;
  if (row.app !== app || row.class !== className || row.key !== key || row.method !== method) return false;
  if (row.args instanceof Uint8Array && command.args !== null) return Buffer.from(row.args).equals(command.args);
  return row.args_hash === null || row.args_hash === command.argsHash;
}

function dueCommandOf(row: Row): DueCommand {
  return {
    id: String(row.id),
    app: String(row.app),
    className: String(row.class),
    key: String(row.key),
    method: String(row.method),
    args: row.args instanceof Uint8Array ? row.args : null,
    argsHash: row.args_hash === null ? null : String(row.args_hash),
    caller: decodeValue(row.caller) as PlainObject,
    run: Number(row.run),
    dueMs: Number(row.due_ms),
    attempts: Number(row.attempts),
    tries: Number(row.tries),
    beganMs: Number(row.began_ms),
    callId: String(row.call_id),
    callIdMs: Number(row.call_id_ms),
    doubtful: row.doubtful === 1,
  };
}

function encoded(value: PlainValue): Uint8Array {
  return encodeValue(value, Number.POSITIVE_INFINITY, "what a shard keeps");
}
