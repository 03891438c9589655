/**
 * The timers that a burst runs: which of them are due, each as a call of its own, what is noted of how it ended, and what
 * whoever had them run is told when the transaction has.
 */
import type { MoonportError } from "../errors.js";
import type { StoredTimer } from "../store/timers.js";
import type { PlainObject } from "../values.js";
import { takeUp } from "./due-time.js";
import type { ObjectContext } from "./object-context.js";
import type { OpenObject } from "./open-object.js";
import type { FailedTimer, TimerFaults } from "./timer-faults.js";
import { afterFailure } from "./try-outcome.js";
import type { CallWork, Outcome, RunningTimer, TimersWork, Woken } from "./work.js";

/** Timers that one transaction runs at most. */
const TIMERS_MAX = 64;

export class BurstTimers {
  /** Answered when the transaction has ended, with when the next timer is due. */
  readonly wakes: TimersWork[] = [];
  readonly #context: ObjectContext;
  readonly #open: OpenObject;
  readonly #faults: TimerFaults;
  #ran = 0;
  /** What is so of the faults of timers when the transaction is kept. */
  #faultsAfter: "recorded" | "cleared" | undefined;

  constructor(context: ObjectContext, open: OpenObject, faults: TimerFaults) {
    this.#context = context;
    this.#open = open;
    this.#faults = faults;
  }

  /** One took an earlier transaction along: until it is known which, each runs in a transaction of its own. */
  get runAlone(): boolean {
    return this.#faults.isWary;
  }

  /** Somebody has the object run its timers. @returns those to run now, in their order */
  begin(work: TimersWork): readonly StoredTimer[] {
    this.wakes.push(work);
    const { unrecorded } = this.#faults;
    if (unrecorded !== undefined) {
      this.#record(unrecorded);
      return [];
    }
    const due = this.#open.tables.timers.due(this.#context.world.clock.wallMs(), this.runAlone ? 2 : TIMERS_MAX);
    if (due.length <= 1) this.#faultsAfter = "cleared";
    return this.runAlone ? due.slice(0, 1) : due;
  }

  /** The call that a due timer is now; undefined where it is not due any more, or found too late. */
  callOf(timer: StoredTimer, isFirst: boolean): CallWork | undefined {
    // One before it may have cancelled or moved it.
    const now = isFirst ? timer : this.#open.tables.timers.get(timer.id);
    const run = now && this.#dueRun(now);
    if (run === undefined) return undefined;
    this.#ran++;
    return this.#callOf(run);
  }

  ended({ timer, dueMs, nextMs }: RunningTimer): void {
    const atMs = this.#context.world.clock.wallMs();
    this.#open.tables.timers.ended({ timer, dueMs, atMs, outcome: "done", nextMs });
  }

  /** After what it did was undone: it is tried again, or given up. Also of an object that is full. */
  failed(run: RunningTimer, error: MoonportError): void {
    const { database } = this.#open;
    if (!database.doomed) database.withSpareRoom(() => this.#noteFailed(run, error));
  }

  /** For whoever had timers run. @param seq that the transaction ends at */
  woken(seq: number, ends: boolean): (PlainObject & Woken) | undefined {
    if (this.wakes.length === 0) return undefined;
    const nextMs = ends ? undefined : this.#open.tables.timers.nextDueMs();
    return {
      epoch: this.#open.claim.manifest.epoch,
      seq,
      ran: this.#ran,
      inMs: nextMs === undefined ? null : nextMs - this.#context.world.clock.wallMs(),
      dueMs: nextMs ?? null,
    };
  }

  /** The transaction is kept. */
  kept(): void {
    if (this.#faultsAfter !== undefined) this.#faults[this.#faultsAfter]();
  }

  /**
   * A timer that took the transaction along would be due again at once: it is remembered, or looked for.
   * @param ran all that ran in it
   * @returns whether more is known now, so that the rest can run
   */
  blamed(culprit: Outcome["work"] | undefined, ran: readonly Outcome["work"][], error: MoonportError): boolean {
    const run = timerOf(culprit);
    if (run !== undefined) return this.#faults.doomed({ run, error });
    return culprit === undefined && ran.some(timerOf) && this.#faults.suspected();
  }

  /** Of a timer that took its transaction along. One that was cancelled or moved since has not failed. */
  #record({ run, error }: FailedTimer): void {
    const { id, dueMs } = run.timer;
    if (this.#open.tables.timers.get(id)?.dueMs === dueMs) {
      this.#ran++;
      this.failed(run, error);
    }
    this.#faultsAfter = "recorded";
  }

  /** What is due of a timer now. One that is found too late is skipped. */
  #dueRun(timer: StoredTimer): RunningTimer | undefined {
    const { timers } = this.#open.tables;
    const nowMs = this.#context.world.clock.wallMs();
    if (timer.dueMs > nowMs) return undefined;
    const state = timers.stateOf(timer.id);
    const isFirstTry = state.runDueMs === undefined;
    const { DELAY_LATE_MS } = this.#context.settings;
    const lateMs = isFirstTry ? DELAY_LATE_MS : Number.POSITIVE_INFINITY;
    const { kind, dueMs, nextMs } = takeUp(timer.plan, state.runDueMs ?? timer.dueMs, nowMs, lateMs);
    if (kind === "run") return { timer, state, dueMs: state.runDueMs ?? dueMs, nextMs };
    this.#ran++;
    timers.ended({ timer, dueMs, atMs: nowMs, outcome: "skipped", nextMs });
    return undefined;
  }

  #callOf(run: RunningTimer): CallWork {
    const { id, name, method, args } = run.timer;
    const { world, settings } = this.#context;
    const sinceMs = world.clock.monotonicMs();
    return {
      kind: "call",
      method,
      access: "write",
      args,
      caller: { kind: "timer", id: name ?? String(id) },
      // The calls that it makes are the same when it has to be run again.
      callId: `timer-${id}-${run.dueMs}`,
      waiter: undefined,
      sinceMs,
      expiresMs: sinceMs + settings.CALL_TIMEOUT_MS,
      chain: [],
      timer: run,
      deferred: undefined,
      resolve() {},
      reject() {},
    };
  }

  #noteFailed({ timer, state, dueMs, nextMs }: RunningTimer, error: MoonportError): void {
    const { world, settings, log, counters } = this.#context;
    const { timers } = this.#open.tables;
    const nowMs = world.clock.wallMs();
    const { tries, attempts, beganMs = nowMs } = state;
    const tried = { tries, attempts, beganMs, callIdMs: nowMs, doubtful: false };
    const next = afterFailure(tried, error, nowMs, settings, world.random.fraction());
    const fields = {
      object: this.#open.object.id,
      timer: timer.name ?? timer.id,
      method: timer.method,
      code: error.code,
    };
    log.warn(fields, `a timer ${next.kind === "dead" ? "is given up" : "failed"}: ${error.message}`);
    if (next.kind === "dead") {
      counters.delay.timersDead++;
      timers.ended({ timer, dueMs, atMs: nowMs, outcome: "dead", error: next.error, nextMs });
    } else {
      counters.delay.timersFailed++;
      const { untilMs, counts } = next;
      const more = { tries: tries + 1, attempts: attempts + (counts ? 1 : 0), beganMs, error: next.error };
      timers.again(timer, { ...more, untilMs, dueMs });
    }
  }
}

function timerOf(work: Outcome["work"] | undefined): RunningTimer | undefined {
  return work?.kind === "call" ? work.timer : undefined;
}
