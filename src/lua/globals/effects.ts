/** `emit`, `destroy`, `send` and `schedule`: what a call leaves for later, all in its transaction. */
import { checkMethodName } from "../../identity.js";
import { nearest } from "../../nearest.js";
import type { PlainObject } from "../../values.js";
import type { MessageRequest, MissedPolicy, TimerPlan } from "../contract.js";
import type { LuaFunction, LuaState, Table, TString, TValue } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, isNumber, isString, isTable, latin1 } from "../runtime.js";
import { type HostThing, textOf } from "../values.js";
import { Arguments } from "./read-arguments.js";
import { Reference } from "./references.js";

const MISSED: readonly MissedPolicy[] = ["all", "latest", "skip"];

/** A method call that was not made yet: `send(...)` and `schedule.after(...)` return one, the method's name and arguments follow. */
class PendingCall implements HostThing {
  readonly refusal = "is an unfinished call; add the method and its arguments with a colon";
  constructor(
    readonly kind: "timer" | "message",
    readonly usage: string,
    readonly complete: (L: LuaState, method: string) => number,
  ) {}
}

export class Effects {
  readonly #arguments: Arguments;
  readonly #pending: Table;

  constructor(readonly machine: Machine) {
    this.#arguments = new Arguments(machine);
    const { runtime } = machine;
    this.#pending = runtime.functions({ __index: (L) => this.#nameMethod(L) });
    runtime.addField(this.#pending, "__metatable", runtime.boolean(false));
  }

  functions(): Record<string, LuaFunction> {
    const { runtime, values } = this.machine;
    return {
      emit: (L) => {
        const event = this.#arguments.text(L, 1, "emit(event, data)");
        runtime.host(L, "emit").emit(event, values.toPlain(argument(L, 2), "data"));
        return 0;
      },
      destroy: (L) => {
        runtime.host(L, "destroy").destroy();
        return 0;
      },
      send: (L) => this.#send(L),
    };
  }

  schedule(): Table {
    const { runtime } = this.machine;
    const host = (L: LuaState) => runtime.host(L, "schedule");
    return runtime.functions({
      after: (L) =>
        this.#timer(L, "schedule.after(delay, { name =, missed = })", this.#plan(L, "after", argument(L, 1))),
      at: (L) => this.#timer(L, "schedule.at(seconds, { name =, missed = })", this.#plan(L, "at", argument(L, 1))),
      every: (L) =>
        this.#timer(L, "schedule.every(interval, { name =, missed = })", this.#plan(L, "every", argument(L, 1))),
      cron: (L) => this.#cron(L),
      cancel: (L) => runtime.push(L, runtime.boolean(host(L).scheduleCancel(this.#timerName(L, "schedule.cancel")))),
      move: (L) => {
        const name = this.#timerName(L, "schedule.move");
        return runtime.push(L, runtime.boolean(host(L).scheduleMove(name, this.#movePlan(L))));
      },
      list: (L) => {
        const timers = host(L)
          .scheduleList()
          .map(
            ({ id, name, method, dueMs }): PlainObject => ({ id, ...(name && { name }), method, due: dueMs / 1_000 }),
          );
        return runtime.push(L, this.machine.values.toLua(timers));
      },
    });
  }

  #send(L: LuaState): number {
    const usage = "send(Class(key), { delay =, expires =, id =, outcome =, outcome_event = })";
    const { runtime } = this.machine;
    const target = argument(L, 1);
    const reference = isTable(target) ? (target.value as Table).host : null;
    if (!(reference instanceof Reference)) {
      throw runtime.fail(L, `${usage}: argument 1 must be a reference, as Auction("lot-42") makes one`);
    }
    const options = this.#arguments.options(L, 2, usage, ["delay", "expires", "id", "outcome", "outcome_event"]);
    const delay = options.get("delay");
    const delayMs = delay === undefined ? undefined : this.#arguments.durationMs(L, delay, usage);
    const expiresMs = this.#expiryMs(L, options.get("expires"), usage);
    const id = this.#arguments.optionText(L, options, "id", usage);
    const outcome = this.#outcome(L, options, usage);
    return this.#pendingCall(L, "message", usage, (inner, method) => {
      if (method.startsWith("_")) throw runtime.fail(inner, `'${method}' is private to ${reference.className}`);
      checkMethodName(method);
      runtime.host(inner, "send").send({
        className: reference.className,
        key: reference.key,
        method,
        args: this.#arguments.rest(inner, 2),
        ...(delayMs !== undefined && { delayMs }),
        ...(expiresMs !== undefined && { expiresMs }),
        ...(id !== undefined && { id }),
        ...(outcome !== undefined && { outcome }),
      });
      return 0;
    });
  }

  /** A time as `now()` gives it. */
  #expiryMs(L: LuaState, value: TValue | undefined, usage: string): number | undefined {
    if (value === undefined) return undefined;
    const ms = isNumber(value) ? Math.ceil((value.value as number) * 1_000) : Number.NaN;
    if (Number.isSafeInteger(ms)) return ms;
    return this.machine.runtime.fail(L, `${usage}: 'expires' is a time in seconds, as now() + 60`);
  }

  #outcome(L: LuaState, options: ReadonlyMap<string, TValue>, usage: string): MessageRequest["outcome"] {
    const method = this.#arguments.optionText(L, options, "outcome", usage);
    const event = this.#arguments.optionText(L, options, "outcome_event", usage);
    if (method !== undefined && event !== undefined) {
      return this.machine.runtime.fail(L, `${usage}: the outcome is told to a method or by an event, not both`);
    }
    if (method !== undefined) return { method };
    return event === undefined ? undefined : { event };
  }

  #cron(L: LuaState): number {
    const usage = "schedule.cron(expression, { tz =, name =, missed = })";
    const expression = this.#arguments.text(L, 1, usage);
    const options = this.#arguments.options(L, 2, usage, ["tz", "name", "missed"]);
    const timeZone = this.#arguments.optionText(L, options, "tz", usage);
    const missed = this.#missed(L, options, usage);
    const plan: TimerPlan = { kind: "cron", expression, ...(timeZone !== undefined && { timeZone }), ...missed };
    return this.#timerNamed(L, usage, plan, this.#arguments.optionText(L, options, "name", usage));
  }

  #timer(L: LuaState, usage: string, plan: TimerPlan): number {
    const options = this.#arguments.options(L, 2, usage, ["name", "missed"]);
    return this.#timerNamed(
      L,
      usage,
      { ...plan, ...this.#missed(L, options, usage) },
      this.#arguments.optionText(L, options, "name", usage),
    );
  }

  #timerNamed(L: LuaState, usage: string, plan: TimerPlan, name: string | undefined): number {
    const { runtime } = this.machine;
    return this.#pendingCall(L, "timer", usage, (inner, method) => {
      const host = runtime.host(inner, "schedule");
      const { methods } = runtime.running(inner, "schedule");
      if (!methods.has(method)) {
        const guess = nearest(method, methods.keys());
        const { className } = host.object;
        throw runtime.fail(inner, `${className} has no method '${method}'${guess ? `; did you mean '${guess}'?` : ""}`);
      }
      const args = this.#arguments.rest(inner, 2);
      const id = host.scheduleSet({ plan, method, args, ...(name !== undefined && { name }) });
      return runtime.push(inner, runtime.number(id));
    });
  }

  #pendingCall(
    L: LuaState,
    kind: "timer" | "message",
    usage: string,
    complete: (L: LuaState, method: string) => number,
  ): number {
    const { runtime } = this.machine;
    runtime.host(L, kind === "timer" ? "schedule" : "send");
    const table = runtime.table();
    table.host = new PendingCall(kind, usage, complete);
    table.metatable = this.#pending;
    return runtime.push(L, runtime.tableValue(runtime.freeze(table, `${usage}:method(...) needs a method`)));
  }

  /** `pending:method`: the function that, called with the arguments, completes the call. */
  #nameMethod(L: LuaState): number {
    const { runtime } = this.machine;
    const table = argument(L, 1)?.value as Table;
    const key = argument(L, 2);
    const method = isString(key) ? latin1(key.value.getstr()) : "?";
    const pending = table.host as PendingCall;
    return runtime.push(
      L,
      runtime.function((inner) => {
        if (argument(inner, 1)?.value !== table) {
          throw runtime.fail(inner, `write a colon before the method: ${pending.usage}:${method}(...)`);
        }
        return pending.complete(inner, method);
      }),
    );
  }

  #plan(L: LuaState, kind: "after" | "at" | "every", value: TValue | undefined): TimerPlan {
    const { runtime } = this.machine;
    const usage = `schedule.${kind}`;
    if (kind === "at") {
      if (!isNumber(value) || !Number.isFinite(value.value)) {
        throw runtime.fail(L, `${usage}(seconds): a time is seconds since 1970, as now() gives them`);
      }
      return { kind, atMs: (value.value as number) * 1_000 };
    }
    const ms = this.#arguments.durationMs(L, value, usage);
    if (kind === "after") return { kind, delayMs: ms };
    if (ms <= 0) throw runtime.fail(L, `${usage}: an interval must be longer than nothing`);
    return { kind, everyMs: ms };
  }

  /** `schedule.move(timer, "10m")`, or a table with one of after, at, every, cron (and tz). */
  #movePlan(L: LuaState): TimerPlan {
    const usage = "schedule.move(id or name, when)";
    const when = argument(L, 2);
    if (!isTable(when)) return this.#plan(L, "after", when);
    const options = this.#arguments.options(L, 2, usage, ["after", "at", "every", "cron", "tz", "missed"]);
    const missed = this.#missed(L, options, usage);
    const expression = this.#arguments.optionText(L, options, "cron", usage);
    const timeZone = this.#arguments.optionText(L, options, "tz", usage);
    if (expression !== undefined) {
      return { kind: "cron", expression, ...(timeZone !== undefined && { timeZone }), ...missed };
    }
    for (const kind of ["after", "at", "every"] as const) {
      const value = options.get(kind);
      if (value !== undefined) return { ...this.#plan(L, kind, value), ...missed };
    }
    return this.machine.runtime.fail(L, `${usage}: when is a duration, or { after =, at =, every = or cron = }`);
  }

  #missed(L: LuaState, options: ReadonlyMap<string, TValue>, usage: string): { readonly missed?: MissedPolicy } {
    const text = this.#arguments.optionText(L, options, "missed", usage);
    if (text === undefined) return {};
    const missed = MISSED.find((one) => one === text);
    if (missed !== undefined) return { missed };
    return this.machine.runtime.fail(L, `${usage}: option 'missed' is one of ${MISSED.join(", ")}, not '${text}'`);
  }

  #timerName(L: LuaState, usage: string): number | string {
    const value = argument(L, 1);
    if (isNumber(value)) return value.value as number;
    const text = isString(value) ? textOf(value.value as TString) : null;
    return text ?? this.machine.runtime.fail(L, `${usage}: argument 1 is a timer's id or its name`);
  }
}
