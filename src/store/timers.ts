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
import type { OwingChange } from "./owing-change.js";
import { decodeValue, encodeValue } from "./value-codec.js";

export interface StoredTimer extends TimerInfo {
  readonly plan: TimerPlan;
  readonly args: readonly PlainValue[];
}

/** How the runs of a timer go. */
export interface TimerState {
  /** Due time of a run that has failed and is tried again, or was given up. */
  readonly runDueMs: number | undefined;
  readonly tries: number;
  /** Of those, how many failed by the method's own doing. */
  readonly attempts: number;
  readonly beganMs: number | undefined;
  readonly error: TimerError | undefined;
  readonly isDead: boolean;
  readonly runs: number;
  readonly lastMs: number | undefined;
}

export interface TimerError {
  readonly code: string;
  readonly message: string;
}

export interface TimerRun {
  readonly timer: number;
  readonly name?: string;
  readonly method: string;
  readonly dueMs: number;
  readonly atMs: number;
  readonly outcome: "done" | "skipped" | "dead";
  readonly error?: TimerError;
}

/** The run of a timer that ends. */
export interface EndedRun {
  readonly timer: StoredTimer;
  readonly dueMs: number;
  readonly atMs: number;
  readonly outcome: TimerRun["outcome"];
  readonly error?: TimerError;
  /** When the next is due; undefined where there is none. */
  readonly nextMs: number | undefined;
}

/** Due time of what was given up: later than any time there is. */
const NEVER_MS = 9_000_000_000_000_000;
/** Runs that an object remembers, of all its timers. */
const RUNS_KEPT = 50;
const NO_STATE: TimerState = {
  runDueMs: undefined,
  tries: 0,
  attempts: 0,
  beganMs: undefined,
  error: undefined,
  isDead: false,
  runs: 0,
  lastMs: undefined,
};

const COLUMNS = "id, name, due_ms, plan, method, args";

export class Timers {
  readonly #database: ObjectDatabase;
  readonly #tables: KernelTables;
  readonly #limits: Pick<Settings, "VALUE_BYTES_MAX">;
  readonly #change: OwingChange;
  /** When the next is due, until something here changes: it is asked right before each COMMIT and right after it. */
  #next: { readonly dueMs: number | undefined } | undefined;

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
    database.listen({ rolledBack: () => this.#forgetNext(), committed() {} });
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
    this.#changed();
    const name = request.name ?? null;
    return this.#database
      .kernel("INSERT INTO _mp_timer (name, due_ms, plan, method, args) VALUES (?, ?, ?, ?, ?)")
      .insert(name, dueMs, encodePlan(request.plan), request.method, args);
  }

  /** Whether there was one. */
  cancel(idOrName: number | string): boolean {
    const timer = this.get(idOrName);
    if (timer === undefined) return false;
    this.#forgetState(timer.id);
    return this.#remove(timer.id);
  }

  /** Gives a timer another plan and due time; its id stays. */
  move(idOrName: number | string, plan: TimerPlan, dueMs: number): boolean {
    const timer = this.get(idOrName);
    if (timer === undefined) return false;
    this.#changed();
    this.#forgetState(timer.id);
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
    this.#next ??= { dueMs: this.#readNextDueMs() };
    return this.#next.dueMs;
  }

  #readNextDueMs(): number | undefined {
    if (!this.#tables.has("_mp_timer")) return undefined;
    const [due = null] = this.#database.kernel("SELECT min(due_ms) FROM _mp_timer").get() ?? [];
    return due === null || Number(due) >= NEVER_MS ? undefined : Number(due);
  }

  #changed(): void {
    this.#change.happened = true;
    this.#forgetNext();
  }

  #forgetNext(): void {
    this.#next = undefined;
  }

  stateOf(id: number): TimerState {
    if (!this.#tables.has("_mp_timer_state")) return NO_STATE;
    const row = this.#database
      .kernel(
        "SELECT run_due_ms, tries, attempts, began_ms, error, dead, runs, last_ms FROM _mp_timer_state WHERE id = ?",
      )
      .get(id);
    if (row === undefined) return NO_STATE;
    const [runDueMs, tries, attempts, beganMs, error, dead, runs, lastMs] = row;
    return {
      runDueMs: numberOr(runDueMs),
      tries: Number(tries),
      attempts: Number(attempts),
      beganMs: numberOr(beganMs),
      error: error === null ? undefined : errorOf(error),
      isDead: dead === 1,
      runs: Number(runs),
      lastMs: numberOr(lastMs),
    };
  }

  /** A run has ended; the timer is set for the next one, or is gone. What its method made of the timer itself stays. */
  ended({ timer, dueMs, atMs, outcome, error, nextMs }: EndedRun): void {
    this.#changed();
    this.#remember({
      timer: timer.id,
      method: timer.method,
      dueMs,
      atMs,
      outcome,
      ...named(timer),
      ...withError(error),
    });
    // One that its own method has cancelled, or moved, is not this one any more.
    const same = "WHERE id = ? AND due_ms = ?";
    if (nextMs === undefined && outcome !== "dead") {
      const isGone = this.#database.kernel(`DELETE FROM _mp_timer ${same}`).run(timer.id, timer.dueMs) > 0;
      if (isGone) this.#forgetState(timer.id);
      return;
    }
    const set = this.#database.kernel(`UPDATE _mp_timer SET due_ms = ? ${same}`);
    if (set.run(nextMs ?? NEVER_MS, timer.id, timer.dueMs) === 0) return;
    const { runs } = this.stateOf(timer.id);
    const isDead = nextMs === undefined;
    this.#saveState(timer.id, {
      ...NO_STATE,
      runDueMs: isDead ? dueMs : undefined,
      error,
      isDead,
      runs: runs + 1,
      lastMs: atMs,
    });
  }

  /** A run has failed and is tried again. */
  again(
    timer: StoredTimer,
    {
      untilMs,
      ...state
    }: { untilMs: number; dueMs: number; tries: number; attempts: number; beganMs: number; error: TimerError },
  ): void {
    this.#changed();
    const { runs, lastMs } = this.stateOf(timer.id);
    this.#database.kernel("UPDATE _mp_timer SET due_ms = ? WHERE id = ?").run(untilMs, timer.id);
    this.#saveState(timer.id, { ...state, runDueMs: state.dueMs, isDead: false, runs, lastMs });
  }

  /** The last runs, the latest first. */
  runs(limit: number): TimerRun[] {
    if (!this.#tables.has("_mp_timer_run")) return [];
    return this.#database
      .kernel("SELECT timer, name, method, due_ms, at_ms, outcome, error FROM _mp_timer_run ORDER BY n DESC LIMIT ?")
      .all(limit)
      .map(([timer, name, method, dueMs, atMs, outcome, error]) => ({
        timer: Number(timer),
        ...(name !== null && { name: String(name) }),
        method: String(method),
        dueMs: Number(dueMs),
        atMs: Number(atMs),
        outcome: outcome as TimerRun["outcome"],
        ...(error !== null && { error: errorOf(error) }),
      }));
  }

  #remember({
    timer,
    name = null,
    method,
    dueMs,
    atMs,
    outcome,
    error,
  }: Omit<TimerRun, "name"> & { name?: string | null }): void {
    this.#tables.ensure("_mp_timer_run");
    const number = this.#database
      .kernel(
        "INSERT INTO _mp_timer_run (timer, name, method, due_ms, at_ms, outcome, error) VALUES (?, ?, ?, ?, ?, ?, ?)",
      )
      .insert(timer, name, method, dueMs, atMs, outcome, error === undefined ? null : encodeError(error));
    if (number > RUNS_KEPT) this.#database.kernel("DELETE FROM _mp_timer_run WHERE n <= ?").run(number - RUNS_KEPT);
  }

  #saveState(id: number, state: TimerState): void {
    this.#tables.ensure("_mp_timer_state");
    this.#database
      .kernel("INSERT OR REPLACE INTO _mp_timer_state VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .run(
        id,
        state.runDueMs ?? null,
        state.tries,
        state.attempts,
        state.beganMs ?? null,
        state.error === undefined ? null : encodeError(state.error),
        state.isDead ? 1 : 0,
        state.runs,
        state.lastMs ?? null,
      );
  }

  #forgetState(id: number): void {
    if (!this.#tables.has("_mp_timer_state")) return;
    this.#database.kernel("DELETE FROM _mp_timer_state WHERE id = ?").run(id);
  }

  #remove(id: number): boolean {
    this.#changed();
    return this.#database.kernel("DELETE FROM _mp_timer WHERE id = ?").run(id) > 0;
  }

  get count(): number {
    if (!this.#tables.has("_mp_timer")) return 0;
    return Number(this.#database.kernel("SELECT count(*) FROM _mp_timer").get()?.[0] ?? 0);
  }

  /** Ends all timers, as destroying the object does. */
  clear(): void {
    if (this.count === 0) return;
    this.#forgetNext();
    this.#database.kernel("DELETE FROM _mp_timer").run();
  }
}

function numberOr(value: unknown): number | undefined {
  return value === null ? undefined : Number(value);
}

function named({ name }: StoredTimer): { name?: string } {
  return name === undefined ? {} : { name };
}

function withError(error: TimerError | undefined): { error?: TimerError } {
  return error === undefined ? {} : { error };
}

function encodeError({ code, message }: TimerError): Uint8Array {
  return encodeValue({ code, message }, Number.POSITIVE_INFINITY, "an error");
}

function errorOf(stored: unknown): TimerError {
  return decodeValue(stored) as PlainObject & TimerError;
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
