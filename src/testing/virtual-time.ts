/**
 * Time that passes only when a test says so. Timers of any number of worlds stand on one line, in order of their due time
 * and, among equals, of their making; nothing depends on how fast the machine is.
 */
import type { Timer } from "../world/world.js";

interface Due {
  readonly dueMs: number;
  readonly order: number;
  readonly run: () => void;
}

/** Turns that `settle` may take before it concludes that the program never comes to rest. */
const TURNS_MAX = 1_000_000;

export class VirtualTime {
  #nowMs = 0;
  #order = 0;
  /** Kept sorted by (dueMs, order). */
  readonly #timers: Due[] = [];
  #ready: (Due | undefined)[] = [];
  #steps = 0;
  /** By the number of the step before which they run. */
  readonly #atSteps = new Map<number, (() => void)[]>();

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Timers that have not run yet: what a program leaves behind when it has stopped. */
  get pendingTimers(): number {
    return this.#timers.length;
  }

  after(delayMs: number, run: () => void): Timer {
    const due: Due = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, run };
    this.#timers.splice(this.#position(due), 0, due);
    return {
      cancel: () => {
        const index = this.#timers.indexOf(due);
        if (index >= 0) this.#timers.splice(index, 1);
      },
    };
  }

  soon(run: () => void): Timer {
    const due: Due = { dueMs: this.#nowMs, order: this.#order++, run };
    this.#ready.push(due);
    return {
      cancel: () => {
        const index = this.#ready.indexOf(due);
        if (index >= 0) this.#ready[index] = undefined;
      },
    };
  }

  /** Runs `run` between two callbacks, after `count` more of them: as a crash comes, at any point. */
  afterSteps(count: number, run: () => void): void {
    const step = this.#steps + count + 1;
    const others = this.#atSteps.get(step);
    if (others === undefined) this.#atSteps.set(step, [run]);
    else others.push(run);
  }

  #step(): void {
    const due = this.#atSteps.get(++this.#steps);
    if (due === undefined) return;
    this.#atSteps.delete(this.#steps);
    for (const run of due) run();
  }

  /** Runs whatever is ready now, and what that makes ready, until only timers are left. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      await drainMicrotasks();
      if (this.#ready.length === 0) return;
      const ready = this.#ready;
      this.#ready = [];
      // One at a time: what an earlier callback cancels or resolves must be seen by a later one.
      for (const [index, due] of ready.entries()) {
        if (ready[index] === undefined) continue;
        this.#step();
        due?.run();
        await drainMicrotasks();
      }
    }
    throw new Error(`still busy after ${TURNS_MAX} turns without time passing`);
  }

  /** Time that code under test takes to run: timers that fall due meanwhile run at the next chance. */
  pass(durationMs: number): void {
    this.#nowMs += durationMs;
  }

  /** Runs what is ready now, and not what that makes ready: one turn of the loop. */
  async settleOnce(): Promise<void> {
    await drainMicrotasks();
    const ready = this.#ready;
    this.#ready = [];
    for (const due of ready) {
      due?.run();
      await drainMicrotasks();
    }
  }

  /** Lets `durationMs` pass, running every timer in its turn. */
  advance(durationMs: number): Promise<void> {
    return this.#advanceTo(this.#nowMs + durationMs);
  }

  async #advanceTo(targetMs: number): Promise<void> {
    await this.settle();
    for (let next = this.#timers[0]; next !== undefined && next.dueMs <= targetMs; next = this.#timers[0]) {
      this.#timers.shift();
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      this.#step();
      next.run();
      await this.settle();
    }
    this.#nowMs = Math.max(this.#nowMs, targetMs);
  }

  /** Lets time pass until `promise` settles; fails when that takes longer than `limitMs` of virtual time. */
  async until<T>(promise: Promise<T>, limitMs = 3_600_000): Promise<T> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    const limit = this.#nowMs + limitMs;
    await this.settle();
    while (!settled) {
      const next = this.#timers[0];
      if (next === undefined || next.dueMs > limit) throw new Error(`nothing settled it within ${limitMs} virtual ms`);
      // To the very moment: a difference added up again may miss it by a hair, for ever.
      await this.#advanceTo(Math.max(next.dueMs, this.#nowMs));
    }
    return promise;
  }

  #position(due: Due): number {
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#timers[middle] as Due;
      if (other.dueMs < due.dueMs || (other.dueMs === due.dueMs && other.order < due.order)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A real turn of the event loop: every microtask, however deep its chain, has run afterwards. */
function drainMicrotasks(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
