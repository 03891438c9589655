/**
 * One call of one class or unit: runs in a pooled coroutine until it returns, fails, waits, or its slice is over.
 *
 * Whatever happens, the engine is as usable afterwards as before: a thread that died or was given up is dropped, cursors
 * are closed, the meter is handed back.
 */
import { asMoonportError, assert, isOwn, type MoonportError } from "../errors.js";
import type { PlainValue } from "../values.js";
import type { LogFields } from "../world/logger.js";
import { ROW_ENTRY, type RunningRecord } from "../world/watchdog/running-record.js";
import type { Budget } from "./budget.js";
import type { CallHost, CodeHost, LuaInvocation, LuaStep, RowCursor, WaitAnswer } from "./contract.js";
import type { LuaErrors } from "./errors.js";
import { type KillKind, meter } from "./fengari/meter.js";
import { type LuaState, STATUS, type TValue } from "./fengari/types.js";
import type { RunningCall, Runtime } from "./runtime.js";
import type { ThreadPool } from "./thread-pool.js";
import type { Values } from "./values.js";

export interface Machine {
  readonly runtime: Runtime;
  readonly values: Values;
  readonly errors: LuaErrors;
  readonly threads: ThreadPool;
  /** Told whose code runs, for whoever finds the thread blocked in it. */
  readonly running: RunningRecord;
  /** Told of each run that was ended for what it used. */
  readonly exceeded: (budget: KillKind) => void;
}

export interface InvocationPlan {
  /** The class, the unit, or the test. */
  readonly owner: string;
  /** Whose code it is, for the log. */
  readonly subject: "object" | "unit" | "test";
  readonly id: string;
  /** The same for the watchdog: the object's id or nothing, and what of it runs. */
  readonly object: string;
  readonly entry: string;
  readonly function: TValue;
  /** Absent for a unit. */
  readonly self?: TValue;
  readonly args: readonly PlainValue[];
  readonly host: CodeHost;
  /** The same host, where it is an object's. */
  readonly objectHost?: CallHost;
  readonly methods: ReadonlyMap<string, unknown>;
  readonly budget: Budget;
  /** Shown the thread as it stood when the code failed. */
  threw?(thread: LuaState): void;
}

type State = "fresh" | "aside" | "waiting" | "ended";

export class Invocation implements LuaInvocation, RunningCall {
  readonly thread: LuaState;
  callerValue: TValue | null = null;
  #cursors: Set<RowCursor> | undefined;
  #state: State = "fresh";

  constructor(
    readonly machine: Machine,
    readonly plan: InvocationPlan,
  ) {
    this.thread = machine.threads.take();
  }

  get host(): CodeHost {
    return this.plan.host;
  }

  get objectHost(): CallHost | undefined {
    return this.plan.objectHost;
  }

  get methods(): ReadonlyMap<string, unknown> {
    return this.plan.methods;
  }

  get cursors(): Set<RowCursor> {
    this.#cursors ??= new Set();
    return this.#cursors;
  }

  resume(answer?: WaitAnswer): LuaStep {
    assert(this.#state !== "ended", "an invocation that ended is not resumed");
    assert((this.#state === "waiting") === (answer !== undefined), "who waits gets an answer, and nobody else does");
    const { runtime, running } = this.machine;
    assert(meter.run === null, "Lua is not entered from within Lua");
    const { budget, object, entry } = this.plan;
    runtime.call = this;
    runtime.answer = answer ?? null;
    runtime.waitsFor = null;
    budget.enter(this.thread);
    running.enter(object, entry);
    try {
      const status = this.#run();
      if (meter.killed !== null) return this.#killed();
      if (status === STATUS.yield) return this.#putAside();
      return status === STATUS.ok ? this.#returned() : this.#threw();
    } catch (thrown) {
      if (meter.killed !== null) return this.#killed();
      const error = asMoonportError(thrown);
      if (isOwn(error, "internal")) runtime.log.error({ err: thrown }, "a fault inside the Lua engine");
      return this.#failed(error);
    } finally {
      budget.leave();
      running.leave();
      runtime.call = null;
    }
  }

  abandon(): void {
    if (this.#state === "ended") return;
    if (this.#state === "fresh") this.machine.threads.giveBack(this.thread);
    this.#end();
  }

  #run(): number {
    const { runtime, values } = this.machine;
    const { thread, plan } = this;
    const { args } = plan;
    if (this.#state !== "fresh") return runtime.fengari.lua.lua_resume(thread, runtime.main, 0);
    this.#state = "aside";
    const { self } = plan;
    runtime.fengari.ldo.luaD_checkstack(thread, args.length + 2);
    if (thread.ci.top < thread.top + args.length + 2) thread.ci.top = thread.top + args.length + 2;
    // Slots of the stack are overwritten in place, so values that are kept are copied into it.
    runtime.push(thread, runtime.value(plan.function.type, plan.function.value));
    const first = thread.top;
    if (self !== undefined) runtime.push(thread, runtime.value(self.type, self.value));
    for (const arg of args) runtime.push(thread, values.toLua(arg));
    return runtime.fengari.lua.lua_resume(thread, runtime.main, thread.top - first);
  }

  #putAside(): LuaStep {
    this.plan.budget.pause();
    const { waitsFor } = this.machine.runtime;
    this.#state = waitsFor === null ? "aside" : "waiting";
    return waitsFor === null ? { kind: "slice" } : { kind: "wait", request: waitsFor };
  }

  #returned(): LuaStep {
    const { values, threads } = this.machine;
    const { thread } = this;
    const count = thread.top - 1;
    const value =
      count === 1
        ? values.toPlain(thread.stack[1], "result")
        : count === 0
          ? null
          : values.listToPlain(thread.stack.slice(1, thread.top), "result");
    this.#end();
    threads.giveBack(thread);
    return { kind: "returned", value };
  }

  #threw(): LuaStep {
    const { runtime, errors } = this.machine;
    const error = errors.toMoonport(this.thread.stack[this.thread.top - 1]);
    this.plan.threw?.(this.thread);
    const named = this.#named();
    if (error.source === "class") {
      // A refusal that the class intends; they are many, and a traceback costs more than the call.
      runtime.log.debug({ ...named, code: error.code, at: errors.lineOf(this.thread) }, error.message);
    } else {
      runtime.log.warn({ ...named, code: error.code, traceback: errors.traceback(this.thread) }, error.message);
    }
    return this.#failed(error);
  }

  #killed(): LuaStep {
    const kind = meter.killed ?? "time";
    const { runtime, errors } = this.machine;
    // The traceback is made with the budget gone, or it would be killed as well.
    meter.reset();
    this.machine.exceeded(kind);
    const error = errors.killed(kind, whatRan(this.plan));
    this.plan.threw?.(this.thread);
    const named = this.#named();
    runtime.log.warn({ ...named, code: error.code, kind, traceback: errors.traceback(this.thread) }, error.message);
    return this.#failed(error);
  }

  #named(): LogFields {
    const { subject, id, host } = this.plan;
    return { [subject]: id, ...(host.callId !== undefined && { callId: host.callId }) };
  }

  #failed(error: MoonportError): LuaStep {
    this.#end();
    return { kind: "failed", error };
  }

  #end(): void {
    this.#state = "ended";
    const cursors = this.#cursors;
    if (cursors === undefined) return;
    this.#cursors = undefined;
    for (const cursor of cursors) cursor.close();
  }
}

/** For messages. */
function whatRan({ subject, owner, entry }: InvocationPlan): string {
  switch (subject) {
    case "object":
      return entry === ROW_ENTRY ? `${owner}.${entry}` : `${owner}:${entry}`;
    case "unit":
      return `the unit ${owner}`;
    case "test":
      return `the test "${owner}"`;
  }
}
