/**
 * Whether the timers of an object did what they are to do: once, never early by its own clock, never lost; and whether it was
 * told the truth of those that it cancelled and moved.
 */
import { type AskedEntry, type Doer, isMaking, type LedgerEntry } from "./ledger.js";

interface OneShot {
  readonly kind: "once";
  readonly dueMs: number;
}

interface Recurring {
  readonly kind: "recurring";
  readonly periodMs: number;
  /** Of its first run. */
  readonly firstMs: number;
  readonly runsAll: boolean;
  ticks: number;
  lastMs: number;
}

/** Rounding of seconds that travel as fractions. */
const EXACT_MS = 0.01;
/** In calm a run is no later than this. */
const LATE_MS = 3_000;
/** As many runs an object remembers. */
const RUNS_KEPT = 50;

/**
 * @param periodsMs of recurring timers, by token
 * @param calmMs wall clock: what was due in the storm has run soon after
 * @returns what is wrong, a sentence each
 */
export function checkTimers(
  { key, ledger, timers }: Doer,
  periodsMs: ReadonlyMap<string, number>,
  calmMs: number,
): string[] {
  const replay = new Replay(key, periodsMs, calmMs);
  for (const entry of ledger) replay.add(entry);
  return [...replay.faults, ...replay.left(), ...checkRuns(key, ledger, timers.runs, replay.offPlan)];
}

class Replay {
  readonly faults: string[] = [];
  readonly #key: string;
  readonly #periodsMs: ReadonlyMap<string, number>;
  readonly #calmMs: number;
  readonly #set = new Map<string, OneShot | Recurring>();
  readonly #recurring = new Map<string, Recurring>();

  constructor(key: string, periodsMs: ReadonlyMap<string, number>, calmMs: number) {
    this.#key = key;
    this.#periodsMs = periodsMs;
    this.#calmMs = calmMs;
  }

  add(entry: LedgerEntry): void {
    const { what, token } = entry;
    switch (what) {
      case "set":
      case "every":
      case "cron":
        if (this.#set.has(token)) this.#fault(entry, "is set already");
        this.#set.set(token, this.#timerOf(entry));
        return;
      case "cancel":
        if (entry.done !== this.#set.has(token)) this.#fault(entry, `is told ${entry.done}, and is not so`);
        this.#checkEnd(entry);
        this.#set.delete(token);
        return;
      case "move":
        if (entry.done !== this.#set.has(token)) this.#fault(entry, `is told ${entry.done}, and is not so`);
        if (entry.done === true) this.#set.set(token, { kind: "once", dueMs: entry.dueMs ?? 0 });
        return;
      case "rang":
        this.#ran(entry);
        this.#set.delete(token);
        return;
      case "ticked":
        return this.#ran(entry);
    }
  }

  /** What was to run by now and did not. */
  left(): string[] {
    return [...this.#set.keys()].map((token) => `${this.#key}: ${token} is set in calm, and never ran`);
  }

  /** Whether a run of a recurring timer is due at none of its plan's times. */
  readonly offPlan = (token: string, dueMs: number): boolean => {
    const timer = this.#recurring.get(token);
    if (timer === undefined) return false;
    const steps = (dueMs - timer.firstMs) / timer.periodMs;
    return Math.abs(steps - Math.round(steps)) * timer.periodMs > EXACT_MS;
  };

  #timerOf({ token, what, atMs, dueMs, other }: LedgerEntry): OneShot | Recurring {
    if (what === "set") return { kind: "once", dueMs: dueMs ?? 0 };
    const periodMs = this.#periodsMs.get(token) ?? Number.POSITIVE_INFINITY;
    const firstMs = dueMs ?? (Math.floor(atMs / periodMs) + 1) * periodMs;
    const timer: Recurring = { kind: "recurring", periodMs, firstMs, runsAll: other === "all", ticks: 0, lastMs: 0 };
    this.#recurring.set(token, timer);
    return timer;
  }

  #ran(entry: LedgerEntry): void {
    const timer = this.#set.get(entry.token);
    if (timer === undefined)
      return this.#fault(entry, "is not set: it ran already, or was cancelled, or is of another life");
    if (timer.kind === "once") return this.#notBefore(entry, timer.dueMs);
    // However many were missed, the n-th run is no earlier than the n-th time of the plan.
    this.#notBefore(entry, timer.firstMs + timer.ticks * timer.periodMs);
    timer.ticks++;
    timer.lastMs = entry.atMs;
  }

  /** Those that are cancelled in calm went on until then. */
  #checkEnd(entry: LedgerEntry): void {
    const timer = this.#set.get(entry.token);
    if (timer?.kind !== "recurring" || entry.atMs < this.#calmMs) return;
    const { ticks, firstMs, periodMs, lastMs, runsAll } = timer;
    const dueBy = entry.atMs - LATE_MS;
    const due = Math.floor((dueBy - firstMs) / periodMs) + 1;
    if (due > 0 && ticks === 0) return this.#fault(entry, "never ran");
    if (runsAll && ticks < due) this.#fault(entry, `ran ${ticks} times of ${due}`);
    if (!runsAll && due > 0 && lastMs < dueBy - periodMs) this.#fault(entry, `ran last at ${lastMs}`);
  }

  #notBefore(entry: LedgerEntry, dueMs: number): void {
    if (entry.atMs < dueMs - EXACT_MS) this.#fault(entry, `is early by ${dueMs - entry.atMs} ms`);
  }

  #fault({ what, token, atMs }: LedgerEntry, fault: string): void {
    this.faults.push(`${this.#key}, ${what} ${token} at ${atMs}: ${fault}`);
  }
}

/** What the object remembers of its runs is what it wrote down of them. */
function checkRuns(
  key: string,
  ledger: readonly LedgerEntry[],
  kept: Doer["timers"]["runs"],
  offPlan: (token: string, dueMs: number) => boolean,
): string[] {
  const faults: string[] = [];
  const runs = [...kept].reverse();
  const done = runs.filter(({ outcome }) => outcome === "done").map(({ name = "" }) => name);
  const ran = ledger.filter(({ what }) => what === "rang" || what === "ticked").map(({ token }) => token);
  const last = runs.length < RUNS_KEPT ? ran : ran.slice(ran.length - done.length);
  if (done.join() !== last.join()) faults.push(`${key} remembers the runs ${done}, and wrote down ${last}`);
  const lastDueMs = new Map<number, number>();
  for (const { timer, name, dueMs, atMs, outcome } of runs) {
    if (outcome === "dead") faults.push(`${key} gave ${name} up`);
    if (offPlan(name ?? "", dueMs)) faults.push(`${key} ran ${name} for ${dueMs}, which its plan does not name`);
    if (atMs < dueMs) faults.push(`${key} ran ${name} early: at ${atMs} what was due at ${dueMs}`);
    const before = lastDueMs.get(timer) ?? Number.NEGATIVE_INFINITY;
    if (dueMs <= before) faults.push(`${key} ran ${name} of ${dueMs} after that of ${before}`);
    lastDueMs.set(timer, dueMs);
  }
  return faults;
}

/** What was acknowledged stands once, what failed does not, and nothing stands twice. */
export function checkAsked(doer: Doer, asked: readonly AskedEntry[]): string[] {
  const faults: string[] = [];
  for (const { key, token, ended } of asked) {
    if (key !== doer.key) continue;
    const count = doer.ledger.filter((entry) => isMaking(entry) && entry.token === token).length;
    const isWrong = count > 1 || (ended.kind === "failed" && count > 0) || (ended.kind === "ok" && count === 0);
    const mayBeLost = doer.isEnding && count === 0;
    if (isWrong && !mayBeLost)
      faults.push(`${key}: making ${token} ended ${ended.kind}, and stands there ${count} times`);
  }
  return faults;
}
