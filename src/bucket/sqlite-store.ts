/**
 * The writing half of the embedded bucket: applies a group of requests to one SQLite file in one durable transaction.
 *
 * A group lands whole or not at all, but a request in it that loses its condition only loses itself: all its conditions
 * are looked at before its first write, so there is nothing of it to undo. Any error of SQLite in the middle (full disk,
 * I/O) rolls the whole group back and fails every request of it. Several processes may share the file.
 */
import type { Database, Statement } from "better-sqlite3";
import type { FailureOutcome, Version, WriteCondition, WriteOutcome } from "./bucket.js";
import {
  type ChangeRequest,
  PART_BYTES_MAX,
  type StoreAnswer,
  type StoreFailure,
  type StoreWrite,
  type StoreWrites,
} from "./sqlite-protocol.js";
import { openBucketFile, storageFaultOf } from "./sqlite-schema.js";
import { SqliteTurns } from "./sqlite-turns.js";

/** A larger value lies in parts: above about a quarter of a page, SQLite would spill it out of the row anyway. */
const ROW_BYTES_MAX = 900;
/** Parts are numbered below this within their body: 32 GiB an object, and room for 2^48 bodies in SQLite's integers. */
const PARTS_MAX = 2 ** 15;
/** Parts freed in one step, so that dropping a large object does not hold up the groups behind it. */
const SWEEP_PARTS = 16;
/** Parts of a replaced or deleted object that are freed on the spot; a longer one waits for the sweep. */
const DROP_PARTS = 4;
/** A staged object that got no part for this long was abandoned by a process that died. */
export const STAGING_IDLE_MS_MAX = 600_000;

interface Row {
  readonly version: number;
  readonly body: number;
}

export interface SqliteStoreOptions {
  /** Writers of several processes take turns. */
  readonly isShared?: boolean;
  /** Another connection of this process copies the WAL into the file, and sweeps. */
  readonly isBeside?: boolean;
}

export class SqliteStore {
  readonly #database: Database;
  readonly #sql: ReturnType<typeof statements>;
  /** Where other processes write too. */
  readonly #turns: SqliteTurns | undefined;
  #lastNumber = 0;
  #commits = 0;
  #changes = 0;
  #garbage: boolean;
  #othersWrote = false;

  /** @throws SQLite's own errors, and one of ours for a file that is no bucket */
  constructor(file: string, busyTimeoutMs: number, { isShared = false, isBeside = false }: SqliteStoreOptions = {}) {
    this.#database = openBucketFile(file, { busyTimeoutMs, write: true });
    this.#sql = statements(this.#database);
    this.#garbage = !isBeside;
    if (isBeside) this.#database.pragma("wal_autocheckpoint = 0");
    if (!isShared) return;
    this.#turns = new SqliteTurns(busyTimeoutMs);
    this.#database.pragma("busy_timeout = 0");
  }

  /** Transactions that changed something; one in which every condition was lost costs no flush. */
  get commits(): number {
    return this.#commits;
  }

  /** Whether a sweep may find something to free. */
  get garbage(): boolean {
    return this.#garbage;
  }

  /** Whether this connection has left something to free, since it was last asked. */
  takeGarbage(): boolean {
    const garbage = this.#garbage;
    this.#garbage = false;
    return garbage;
  }

  close(): void {
    this.#database.close();
  }

  /** One transaction for all of `requests`; one answer each, in order. */
  applyGroup(requests: readonly ChangeRequest[]): StoreAnswer[] {
    try {
      this.#begin();
    } catch (error) {
      return failAll(requests, "refused", error);
    }
    let answers: StoreAnswer[];
    let changes: number;
    try {
      const numberBefore = this.#sql.counter.get() as number;
      this.#othersWrote = numberBefore !== this.#lastNumber;
      this.#lastNumber = numberBefore;
      answers = requests.map((request) => this.#apply(request));
      if (this.#lastNumber !== numberBefore) this.#sql.setCounter.run(this.#lastNumber);
      changes = this.#sql.changes.get() as number;
    } catch (error) {
      this.#rollBack();
      return failAll(requests, "refused", error);
    }
    return this.#commit(requests, answers, changes);
  }

  /** The answers of a group are on their way: others may have the file. */
  leaveTurn(): void {
    this.#turns?.leave(this.#othersWrote);
  }

  #begin(): void {
    const { begin } = this.#sql;
    if (this.#turns === undefined) begin.run();
    else this.#turns.take(() => void begin.run());
  }

  #commit(requests: readonly ChangeRequest[], answers: StoreAnswer[], changes: number): StoreAnswer[] {
    try {
      this.#sql.commit.run();
      if (changes !== this.#changes) this.#commits += 1;
      this.#changes = changes;
      return answers;
    } catch (error) {
      this.#rollBack();
      // Without room the WAL never got its commit frame. After any other failure it may stand there, whole, and be found by a recovery.
      return failAll(requests, storageFaultOf(error) === "full" ? "refused" : "unknown", error);
    }
  }

  #rollBack(): void {
    // An error that ended the transaction itself leaves nothing to roll back.
    if (this.#database.inTransaction) this.#sql.rollback.run();
  }

  #apply(request: ChangeRequest): StoreAnswer {
    switch (request.kind) {
      case "write_many":
        return this.#writeMany(request);
      case "delete":
        for (const key of request.keys) this.#delete(key);
        return { kind: "done" };
      case "stage":
        return this.#stage(request);
      case "publish":
        return this.#publish(request.key, request.body);
      case "abandon":
        this.#garbage = true;
        this.#sql.markGarbage.run(request.body);
        return { kind: "done" };
      case "sweep":
        return this.#sweep(request.nowMs);
    }
  }

  #write(writes: readonly StoreWrite[]): WriteOutcome {
    const rows = writes.map((write) => this.#sql.row.get(write.key) as Row | undefined);
    const lost = writes.find((write, index) => !holds(write.condition, rows[index]));
    if (lost) return { kind: "lost", key: lost.key };
    return { kind: "landed", versions: writes.map((write, index) => this.#put(write, rows[index])) };
  }

  #writeMany({ sizes, keys, bytes, versions }: StoreWrites): StoreAnswer {
    let at = 0;
    const outcomes = sizes.map((size) => {
      const writes: StoreWrite[] = [];
      for (const end = at + size; at < end; at++) {
        const key = keys[at] as string;
        writes.push({ key, bytes: bytes[at] as Uint8Array, condition: conditionOf(versions[at]) });
      }
      const answer = this.#write(writes);
      return answer.kind === "landed" ? answer.versions : answer.key;
    });
    return { kind: "outcomes", outcomes };
  }

  #put(write: StoreWrite, before: Row | undefined): Version {
    const version = this.#nextNumber();
    const inRow = write.bytes.length <= ROW_BYTES_MAX;
    if (!inRow) {
      for (let start = 0, part = 0; start < write.bytes.length; start += PART_BYTES_MAX, part += 1) {
        this.#sql.addPart.run(partId(version, part), write.bytes.subarray(start, start + PART_BYTES_MAX));
      }
    }
    this.#sql.put.run(write.key, version, inRow ? 0 : version, inRow ? write.bytes : null);
    this.#drop(before);
    return String(version);
  }

  #delete(key: string): void {
    const row = this.#sql.row.get(key) as Row | undefined;
    if (!row) return;
    this.#sql.delete.run(key);
    this.#drop(row);
  }

  #stage(request: ChangeRequest & { kind: "stage" }): StoreAnswer {
    const body = request.body === 0 ? this.#nextNumber() : request.body;
    if (request.part >= PARTS_MAX) return refusal(`an object has at most ${PARTS_MAX} parts`);
    if (request.body === 0) this.#sql.addBody.run(body, request.nowMs);
    else if (this.#sql.touchBody.run(request.nowMs, body).changes === 0) return refusal(ABANDONED);
    this.#sql.addPart.run(partId(body, request.part), request.bytes);
    return { kind: "staged", body };
  }

  #publish(key: string, body: number): StoreAnswer {
    if (this.#sql.claimBody.run(body).changes === 0) return refusal(ABANDONED);
    const before = this.#sql.row.get(key) as Row | undefined;
    const version = this.#nextNumber();
    this.#sql.put.run(key, version, body, null);
    this.#drop(before);
    return { kind: "landed", versions: [String(version)] };
  }

  /** Frees the parts of a row that was replaced or deleted, at once or, when there are many, by leaving them to the sweep. */
  #drop(row: Row | undefined): void {
    if (!row || row.body === 0) return;
    this.#sql.removeParts.run(partId(row.body, 0), partId(row.body, DROP_PARTS));
    if (this.#sql.anyPart.get(partId(row.body, 0), partId(row.body + 1, 0)) === undefined) return;
    this.#garbage = true;
    this.#sql.addBody.run(row.body, null);
  }

  #sweep(nowMs: number): StoreAnswer {
    // Either side of now: after a clock was set back, a dead process's staging would otherwise wait for that time to come again.
    this.#sql.markIdle.run(nowMs - STAGING_IDLE_MS_MAX, nowMs + STAGING_IDLE_MS_MAX);
    const body = this.#sql.anyGarbage.get() as number | undefined;
    this.#garbage = body !== undefined;
    if (body === undefined) return { kind: "swept", more: false };
    const [first, end] = [partId(body, 0), partId(body + 1, 0)];
    if (this.#sql.sweepParts.run(first, end, SWEEP_PARTS).changes < SWEEP_PARTS) this.#sql.removeBody.run(body);
    return { kind: "swept", more: true };
  }

  /** Versions and bodies share one counter that never goes back, so neither ever recurs. */
  #nextNumber(): number {
    this.#lastNumber += 1;
    return this.#lastNumber;
  }
}

const ABANDONED = "the large object's parts were removed as abandoned";

/** A bigint: beyond 2^53 a number would round, and name somebody else's part. */
export function partId(body: number, part: number): bigint {
  return BigInt(body) * BigInt(PARTS_MAX) + BigInt(part);
}

function holds(condition: WriteCondition | undefined, row: Row | undefined): boolean {
  if (condition === undefined) return true;
  return "absent" in condition ? row === undefined : row !== undefined && String(row.version) === condition.version;
}

function conditionOf(version: Version | null | undefined): WriteCondition | undefined {
  if (version === undefined) return undefined;
  return version === null ? { absent: true } : { version };
}

function refusal(message: string): StoreFailure {
  return { kind: "failed", outcome: "refused", message, storage: undefined };
}

export function failureOf(outcome: FailureOutcome, error: unknown): StoreFailure {
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "failed", outcome, message, storage: storageFaultOf(error) };
}

function failAll(requests: readonly unknown[], outcome: FailureOutcome, error: unknown): StoreAnswer[] {
  const failure = failureOf(outcome, error);
  return requests.map(() => failure);
}

function statements(database: Database) {
  const sql = (text: string): Statement => database.prepare(text);
  return {
    begin: sql("BEGIN IMMEDIATE"),
    commit: sql("COMMIT"),
    rollback: sql("ROLLBACK"),
    counter: sql("SELECT last FROM counter WHERE id = 1").pluck(),
    changes: sql("SELECT total_changes()").pluck(),
    setCounter: sql("UPDATE counter SET last = ? WHERE id = 1"),
    row: sql("SELECT version, body FROM objects WHERE key = ?"),
    put: sql("INSERT OR REPLACE INTO objects (key, version, body, bytes) VALUES (?, ?, ?, ?)"),
    delete: sql("DELETE FROM objects WHERE key = ?"),
    addPart: sql("INSERT INTO parts (id, bytes) VALUES (?, ?)"),
    removeParts: sql("DELETE FROM parts WHERE id >= ? AND id < ?"),
    anyPart: sql("SELECT 1 FROM parts WHERE id >= ? AND id < ? LIMIT 1").pluck(),
    sweepParts: sql("DELETE FROM parts WHERE id IN (SELECT id FROM parts WHERE id >= ? AND id < ? LIMIT ?)"),
    addBody: sql("INSERT INTO bodies (body, touched_ms) VALUES (?, ?)"),
    touchBody: sql("UPDATE bodies SET touched_ms = ? WHERE body = ? AND touched_ms IS NOT NULL"),
    claimBody: sql("DELETE FROM bodies WHERE body = ? AND touched_ms IS NOT NULL"),
    markGarbage: sql("UPDATE bodies SET touched_ms = NULL WHERE body = ?"),
    markIdle: sql("UPDATE bodies SET touched_ms = NULL WHERE touched_ms < ? OR touched_ms > ?"),
    anyGarbage: sql("SELECT body FROM bodies WHERE touched_ms IS NULL LIMIT 1").pluck(),
    removeBody: sql("DELETE FROM bodies WHERE body = ?"),
  };
}
