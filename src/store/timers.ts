/**
 * An object's durable timers: rows in its own file, in the transaction that made them. What commits, fires.
 *
 * When a plan falls due is computed by the caller; a row holds the plan and the next due time.
 */
import type { TimerInfo, TimerPlan, TimerRequest } from "../lua/contract.js";
import type { Settings } from "../settings/settings.js";
import type { PlainObject, PlainValue } from "../values.js";
import type { KernelTables } from "./kernel-tables.js";
import type { ObjectDatabase } from "./object-database.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export interface StoredTimer extends TimerInfo {
  readonly plan: TimerPlan;
  readonly args: readonly PlainValue[];
}

const COLUMNS = "id, name, due_ms, plan, method, args";

export class Timers {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #limits: Pick<Settings, "VALUE_BYTES_MAX">;

  constructor(database: ObjectDatabase, tables: KernelTables, limits: Pick<Settings, "VALUE_BYTES_MAX">) {
    this.#database = database;
    this.#tables = tables;
    this.#limits = limits;
  }

  /** A timer of the same name is replaced. Returns the new one's id. @throws MoonportError `too_large` */
  set(request: TimerRequest, dueMs: number): number {
    const args = encodeValue(
      [...request.args],
      this.#limits.VALUE_BYTES_MAX,
      `the arguments of timer ${request.method}`,
    );
    this.#tables.ensure("_mp_timer");
    this.#tables.ensure("_mp_timer_due");
    if (request.name !== undefined) this.cancel(request.name);
    const name = request.name ?? null;
    this.#database
      .kernel("INSERT INTO _mp_timer (name, due_ms, plan, method, args) VALUES (?, ?, ?, ?, ?)")
      .run(name, dueMs, encodePlan(request.plan), request.method, args);
    return Number(this.#database.kernel("SELECT last_insert_rowid()").get()?.[0]);
  }

  /** Whether there was one. */
  cancel(idOrName: number | string): boolean {
    const timer = this.get(idOrName);
    if (timer === undefined) return false;
    return this.#database.kernel("DELETE FROM _mp_timer WHERE id = ?").run(timer.id) > 0;
  }

  /** Gives a timer another plan and due time; its id stays. */
  move(idOrName: number | string, plan: TimerPlan, dueMs: number): boolean {
    const timer = this.get(idOrName);
    if (timer === undefined) return false;
    const sql = "UPDATE _mp_timer SET plan = ?, due_ms = ? WHERE id = ?";
    return this.#database.kernel(sql).run(encodePlan(plan), dueMs, timer.id) > 0;
  }

  get(idOrName: number | string): StoredTimer | undefined {
    if (!this.#tables.has("_mp_timer")) return undefined;
    const column = typeof idOrName === "number" ? "id" : "name";
    const row = this.#database.kernel(`SELECT ${COLUMNS} FROM _mp_timer WHERE ${column} = ?`).get(idOrName);
    return row === undefined ? undefined : timerOf(row);
  }

  /** All of them, the next first. */
  list(): StoredTimer[] {
    if (!this.#tables.has("_mp_timer")) return [];
    return this.#database.kernel(`SELECT ${COLUMNS} FROM _mp_timer ORDER BY due_ms, id`).all().map(timerOf);
  }

  /** Those due at `nowMs`, the longest due first, at most `limit`. */
  due(nowMs: number, limit: number): StoredTimer[] {
    if (!this.#tables.has("_mp_timer")) return [];
    const sql = `SELECT ${COLUMNS} FROM _mp_timer WHERE due_ms <= ? ORDER BY due_ms, id LIMIT ?`;
    return this.#database.kernel(sql).all(nowMs, limit).map(timerOf);
  }

  nextDueMs(): number | undefined {
    if (!this.#tables.has("_mp_timer")) return undefined;
    const [due = null] = this.#database.kernel("SELECT min(due_ms) FROM _mp_timer").get() ?? [];
    return due === null ? undefined : Number(due);
  }

  get count(): number {
    if (!this.#tables.has("_mp_timer")) return 0;
    return Number(this.#database.kernel("SELECT count(*) FROM _mp_timer").get()?.[0] ?? 0);
  }

  /** Ends all timers, as destroying the object does. */
  clear(): void {
    if (this.count > 0) this.#database.kernel("DELETE FROM _mp_timer").run();
  }
}

function encodePlan(plan: TimerPlan): Uint8Array {
  const fields: PlainObject = { ...plan };
  return encodeValue(fields, Number.POSITIVE_INFINITY, "the plan");
}

function timerOf(row: readonly unknown[]): StoredTimer {
  const [id, name, dueMs, plan, method, args] = row;
  return {
    id: Number(id),
    ...(name === null ? {} : { name: String(name) }),
    method: String(method),
    dueMs: Number(dueMs),
    // Both were written by `set` and `move`, from these very types.
    plan: decodeValue(plan) as TimerPlan & PlainObject,
    args: decodeValue(args) as PlainValue[],
  };
}
