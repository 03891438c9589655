/** What may stand in an object's mailbox, and what comes of it. */
import { MoonportError } from "../errors.js";
import { type Caller, principalOf } from "../lua/contract.js";
import type { CallWaiter } from "../node-api.js";
import type { FleetView } from "../shipping/fleet-view.js";
import { argumentsToMatch, isMatch } from "../store/call-arguments.js";
import type { StoredTimer, TimerState } from "../store/timers.js";
import type { PlainValue } from "../values.js";
import { deferred } from "../world/deferred.js";
import type { OpenObject } from "./open-object.js";

/** A method call: one writing method, or a reading one that could not skip the mailbox. */
export interface CallWork {
  readonly kind: "call";
  readonly method: string;
  readonly access: "write" | "read";
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  readonly callId: string | undefined;
  /** Undefined where nobody could tell whether its caller has gone. */
  readonly waiter: CallWaiter | undefined;
  /** Monotonic; since when it waits for its turn. */
  readonly sinceMs: number;
  /** Monotonic; when its turn has not come by then it does not run. */
  readonly expiresMs: number;
  /** Objects that wait for this call, the outermost first: `app/Class/key`. */
  readonly chain: readonly string[];
  /** Set where it is a timer of the object that runs. */
  readonly timer: RunningTimer | undefined;
  /** The outcome is told right after COMMIT, with its ticket unsettled: for units, which settle all their tickets at once. */
  readonly deferred: ((outcome: DeferredOutcome) => void) | undefined;
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** A run of a timer. */
export interface RunningTimer {
  readonly timer: StoredTimer;
  readonly state: TimerState;
  /** Of this run. */
  readonly dueMs: number;
  readonly nextMs: number | undefined;
}

/** How a deferred call ended. Nothing of it may leave the request before `settled` resolves (G1). */
export interface DeferredOutcome {
  readonly result:
    | { readonly kind: "returned"; readonly value: PlainValue }
    | { readonly kind: "failed"; readonly error: MoonportError };
  /** Rejects with `outcome_unknown` or `not_durable_yet`. */
  readonly settled: Promise<void>;
}

/** The operator ends the object. */
export interface DestroyWork {
  readonly kind: "destroy";
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** The directory row is derived once more: by itself after a failure, or because somebody wants it told again. */
export interface RowWork {
  readonly kind: "row";
  /** When it is durable. */
  resolve(): void;
  reject(error: MoonportError): void;
}

/** The object's due timers run, each in a savepoint of its own. */
export interface TimersWork {
  readonly kind: "timers";
  readonly teller: WakeTeller;
  /** Monotonic. */
  readonly expiresMs: number;
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** Who sees to it that the delay shard hears of the object's next due time: whoever asks, from the answer, or the object's owner. */
export type WakeTeller = "asker" | "owner";

/** What came of it, and when the object wants to be woken next. */
export interface Woken {
  /** Of the owner's epoch and the last seq known to it: the newest says when the next timer is due. 0: it has no place. */
  readonly epoch: number;
  readonly seq: number;
  /** Timers that ran, or failed. */
  readonly ran: number;
  /** From now by the clock of the object's node; null when no timer is set. */
  readonly inMs: number | null;
  /** Wall clock of that node at which it is due; null when no timer is set. */
  readonly dueMs: number | null;
}

/** Messages have reached whom they were for: they leave the outbox. */
export interface SentWork {
  readonly kind: "sent";
  readonly numbers: readonly number[];
  resolve(reply: Reply): void;
  reject(error: MoonportError): void;
}

/** The operator gives the object other content. It runs alone, between bursts. */
export interface ReplaceWork {
  readonly kind: "replace";
  /**
   * @param open the file, everything in it landed; absent when it cannot be opened because its history is damaged. It is closed
   *   and worth nothing after `replaced` was called
   */
  run(open: OpenObject | undefined, replacing: Replacing): Promise<void>;
  reject(error: MoonportError): void;
}

export interface Replacing {
  /** From now on nothing of the file is needed, and another may stand in its place. */
  begin(): void;
  /** Aborted when the node gives up. */
  readonly signal: AbortSignal;
}

export type Work = CallWork | DestroyWork | RowWork | TimersWork | SentWork | ReplaceWork;

export function isReplace(work: Work): work is ReplaceWork {
  return work.kind === "replace";
}

export function isForBurst(work: Work): work is Exclude<Work, ReplaceWork> {
  return work.kind !== "replace";
}

/** What a burst takes that runs no timers. */
export function isNoTimers(work: Work): work is Exclude<Work, ReplaceWork | TimersWork> {
  return isForBurst(work) && work.kind !== "timers";
}

/** Why a call is not to wait any longer, and never runs. */
export function waitedInVain(object: string, work: Work, nowMs: number): MoonportError | undefined {
  if (work.kind !== "call" && work.kind !== "timers") return undefined;
  const what = work.kind === "call" ? work.method : "the timers";
  if (work.kind === "call" && work.waiter?.isGone())
    return MoonportError.of("caller_gone", `the caller of ${what} has gone`, { object });
  if (nowMs <= work.expiresMs) return undefined;
  return MoonportError.of("deadline_exceeded", `the deadline of ${what} passed in the mailbox`, { object });
}

export interface Reply {
  readonly value: PlainValue;
  /** Of a write. */
  readonly seq?: number;
}

/** Work that somebody waits for. */
type AnsweredWork = Exclude<Work, RowWork | ReplaceWork>;

/**
 * Whether `repeat` is the call that runs, asked for once more: under the same id, of the same method, with the same arguments, by
 * the same principal where that is known.
 */
export function isRepeatOf(running: CallWork, repeat: CallWork): boolean {
  if (repeat.callId === undefined || repeat.callId !== running.callId || running.access !== "write") return false;
  // A timer's run has an id that others might have made; units settle what they asked for themselves.
  if (running.timer !== undefined || running.deferred !== undefined || repeat.deferred !== undefined) return false;
  if (running.method !== repeat.method) return false;
  const kept = argumentsToMatch(running.args, principalOf(running.caller));
  return isMatch(kept, repeat.args, principalOf(repeat.caller));
}

/** Repeats of calls that run, by the call. */
const attached = new WeakMap<CallWork, CallWork[]>();

/** From now on `repeat` hears what `running` does, through the same gate. @returns false when `max` others do already */
export function attach(running: CallWork, repeat: CallWork, max: number): boolean {
  const repeats = repeatsOf(running);
  return repeats.length < max && repeats.push(repeat) > 0;
}

/** From now on whatever `work` fails with is told, to its repeats as well, as what `told` makes of it. */
export function failsAs(work: CallWork, told: (error: MoonportError) => MoonportError): void {
  // Before, or those who attach later would hear what it was made of.
  repeatsOf(work);
  const { reject } = work;
  work.reject = (error) => reject(told(error));
}

/** Whoever is added to them hears what it comes to. */
function repeatsOf(running: CallWork): CallWork[] {
  const known = attached.get(running);
  if (known !== undefined) return known;
  const repeats: CallWork[] = [];
  attached.set(running, repeats);
  const { resolve, reject } = running;
  running.resolve = (reply) => {
    resolve(reply);
    for (const one of repeats) one.resolve(reply);
  };
  running.reject = (error) => {
    reject(error);
    for (const one of repeats) one.reject(error);
  };
  return repeats;
}

/** How a call ended inside its transaction; it is told to the caller after COMMIT and the gate. */
export type Outcome =
  | { readonly kind: "wrote"; readonly work: AnsweredWork; readonly value: PlainValue; readonly seq: number }
  | { readonly kind: "read"; readonly work: AnsweredWork; readonly value: PlainValue; readonly seq: number | undefined }
  | { readonly kind: "failed"; readonly work: AnsweredWork; readonly error: MoonportError };

/** Tells the caller once the state its reply was computed over is durable (G1). */
export function tellThroughGate(open: OpenObject, outcome: Outcome, fleet: Pick<FleetView, "isValid">): void {
  const { work } = outcome;
  if (work.kind === "call" && work.deferred !== undefined) return tellDeferred(open, outcome, work.deferred, fleet);
  throughGate(open, outcome, fleet, {
    release: () => {
      if (outcome.kind === "failed") return work.reject(outcome.error);
      const { value, seq } = outcome;
      work.resolve(seq === undefined ? { value } : { value, seq });
    },
    fail: (error) => work.reject(error),
  });
}

function tellDeferred(
  open: OpenObject,
  outcome: Outcome,
  tell: (outcome: DeferredOutcome) => void,
  fleet: Pick<FleetView, "isValid">,
): void {
  const settled = deferred();
  // Whoever gave up the request before settling has no use for the failure.
  settled.promise.catch(() => {});
  throughGate(open, outcome, fleet, { release: settled.resolve, fail: settled.reject });
  const result =
    outcome.kind === "failed"
      ? { kind: "failed" as const, error: outcome.error }
      : { kind: "returned" as const, value: outcome.value };
  tell({ result, settled: settled.promise });
}

/** Tells whoever asked for the row that it is derived, and durable. */
export function rowThroughGate(open: OpenObject, work: RowWork): void {
  open.shipper.readGate({
    release: () => work.resolve(),
    fail: (cause) => work.reject(notDurableYet(open.object.id, cause)),
  });
}

function throughGate(
  open: OpenObject,
  outcome: Outcome,
  fleet: Pick<FleetView, "isValid">,
  gate: { release(): void; fail(error: MoonportError): void },
): void {
  const { release } = gate;
  if (outcome.kind === "wrote") {
    open.shipper.ticket({ release, fail: (cause) => gate.fail(outcomeUnknown(open.object.id, cause)) });
  } else {
    open.shipper.readGate({
      // A write is vouched for by whoever let it land; a read only by the session (E4).
      release: () => (fleet.isValid() ? release() : gate.fail(fenced())),
      fail: (cause) => gate.fail(notDurableYet(open.object.id, cause)),
    });
  }
}

export function fenced(): MoonportError {
  return MoonportError.of("node_fenced", "the session of this node has lapsed", { retryAfterMs: 1_000 });
}

export function outcomeUnknown(object: string, cause: Error | undefined): MoonportError {
  return MoonportError.of("outcome_unknown", `the write to ${object} is committed here, but has not landed`, {
    object,
    hint: "ask again with the same call id to learn what became of it",
    cause,
  });
}

export function notDurableYet(object: string, cause: Error | undefined): MoonportError {
  if (cause instanceof MoonportError) return cause;
  return MoonportError.of("not_durable_yet", `what ${object} would answer rests on writes that have not landed`, {
    object,
    hint: "try again shortly",
    retryAfterMs: 1_000,
    cause,
  });
}
