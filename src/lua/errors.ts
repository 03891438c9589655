/**
 * Errors between Lua and JavaScript.
 *
 * A MoonportError that a host function throws is, inside Lua, a table with `code`, `message`, `hint` and `details`; if Lua lets it
 * pass, the same MoonportError comes out. What Lua throws itself becomes one: `error{code=...}` an error with the class's
 * own code, anything else `method_error`, with file and line in the message and no traceback.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { PlainObject, PlainValue } from "../values.js";
import type { KillKind } from "./fengari/meter.js";
import {
  type CallInfo,
  type LuaClosure,
  type LuaState,
  type Table,
  type TString,
  type TValue,
  TYPE,
} from "./fengari/types.js";
import { argument, isString, isTable, latin1, type Runtime } from "./runtime.js";
import { textOf, type Values } from "./values.js";

/** Of what a class throws: an error is a reply, a log line and a message to other nodes, and is bounded as those are. */
const MESSAGE_CHARACTERS_MAX = 8_192;

/** Stands behind the Lua table of a host error. */
class HostError {
  readonly kind = "error";
  constructor(readonly error: MoonportError) {}
}

export class LuaErrors {
  readonly #metatable: Table;

  constructor(
    readonly runtime: Runtime,
    readonly values: Values,
  ) {
    this.#metatable = runtime.functions({
      __tostring: (L) => {
        const thing = (argument(L, 1)?.value as Table | undefined)?.host;
        return runtime.push(L, runtime.string(thing instanceof HostError ? thing.error.message : "error"));
      },
    });
    runtime.addField(this.#metatable, "__metatable", runtime.boolean(false));
    runtime.nativeError = (L, error) => {
      runtime.call?.host.failedOutside?.();
      return this.toLua(L, error);
    };
  }

  /** What was thrown in JavaScript, as Lua sees it. */
  toLua(_L: LuaState, thrown: unknown): TValue {
    if (thrown instanceof RangeError && thrown.message.includes("call stack"))
      return this.runtime.string("stack overflow");
    const error = asMoonportError(thrown);
    if (error !== thrown) this.runtime.log.error({ err: thrown }, "a fault inside the Lua engine or a host function");
    const { runtime } = this;
    const table = runtime.tableOf({ code: runtime.string(error.code), message: this.#text(error.message) });
    if (error.hint !== undefined) runtime.addField(table, "hint", this.#text(error.hint));
    const details = error.details && this.#detailsToLua(error.details);
    if (details !== undefined) runtime.addField(table, "details", details);
    table.metatable = this.#metatable;
    table.host = new HostError(error);
    return runtime.tableValue(runtime.freeze(table, "an error cannot be changed"));
  }

  /** What another object's method threw beside code and message. Details that cannot travel stay outside. */
  #detailsToLua(details: Readonly<Record<string, unknown>>): TValue | undefined {
    try {
      return this.values.toLua(details as PlainObject);
    } catch (refusal) {
      if (refusal instanceof MoonportError) return undefined;
      throw refusal;
    }
  }

  #text(text: string): TValue {
    return this.runtime.string(text.toWellFormed());
  }

  /** What Lua threw, as callers see it. */
  toMoonport(value: TValue | undefined): MoonportError {
    if (isString(value)) {
      return MoonportError.of("method_error", this.#messageText(value.value as TString));
    }
    if (isTable(value)) return this.#tableToMoonport(value);
    return MoonportError.of("method_error", "the method threw a value that is neither text nor a table", {
      hint: 'throw text, or a table: error { code = "too_low", message = "..." }',
    });
  }

  #tableToMoonport(value: TValue): MoonportError {
    const table = value.value as Table;
    if (table.host instanceof HostError) return table.host.error;
    const code = this.runtime.field(table, "code");
    const message = this.runtime.field(table, "message");
    const text = isString(message) ? this.#messageText(message.value as TString) : undefined;
    if (!isString(code)) {
      return MoonportError.of("method_error", text ?? "the method threw a table without a code", {
        hint: 'give it one: error { code = "too_low", message = "..." }',
        ...this.#details(value),
      });
    }
    const name = this.#messageText(code.value as TString);
    return MoonportError.byClass(name, text ?? name, this.#details(value));
  }

  /** The other fields. If they cannot travel the error still does, with a word on why. */
  #details(value: TValue): { details?: Record<string, PlainValue> } {
    try {
      const plain = this.values.toPlain(value, "error");
      if (plain === null || typeof plain !== "object" || Array.isArray(plain) || plain instanceof Uint8Array) return {};
      const { code: _code, message: _message, ...details } = plain;
      return Object.keys(details).length > 0 ? { details } : {};
    } catch (refusal) {
      return { details: { omitted: asMoonportError(refusal).message } };
    }
  }

  #messageText(string: TString): string {
    const text = this.#lossyText(string);
    return text.length > MESSAGE_CHARACTERS_MAX ? `${text.slice(0, MESSAGE_CHARACTERS_MAX).toWellFormed()}...` : text;
  }

  #lossyText(string: TString): string {
    return textOf(string) ?? latin1(string.getstr());
  }

  killed(kind: KillKind, what: string): MoonportError {
    const { limits } = this.runtime;
    const reasons: Readonly<Record<KillKind, string>> = {
      time: `${what} ran longer than its budget of time`,
      memory: `${what} took more than ${limits.memoryBytesMax} bytes of memory`,
      depth: `${what} called deeper than ${limits.callDepthMax} levels`,
      instructions: `${what} ran more than ${limits.instructionsMax} instructions`,
    };
    return MoonportError.of("budget_exceeded", reasons[kind], { details: { kind } });
  }

  /** File and line of the Lua code that a dead thread stood at, as `classes/Auction.lua:12`. */
  lineOf(thread: LuaState): string | undefined {
    for (const { file, line } of this.#frames(thread)) return `${file}:${line}`;
    return undefined;
  }

  /** The line of one file that a dead thread stood at, or was called from. */
  lineIn(thread: LuaState, wanted: string): number | undefined {
    for (const { file, line } of this.#frames(thread)) if (file === wanted) return line;
    return undefined;
  }

  /** Where its functions of Lua stood, the innermost first. */
  *#frames(thread: LuaState): Generator<{ readonly file: string; readonly line: number }> {
    for (let call: CallInfo | null = thread.ci; call !== null; call = call.previous) {
      if (call.func?.type !== TYPE.luaFunction) continue;
      const { source, lineinfo } = (call.func.value as LuaClosure).p;
      yield { file: source ? this.#lossyText(source).slice(1) : "?", line: lineinfo[call.l_savedpc - 1] ?? 0 };
    }
  }

  /** Lua's traceback of a thread that died, for the log. */
  traceback(thread: LuaState): string {
    const { main, fengari } = this.runtime;
    fengari.lauxlib.luaL_traceback(main, thread, null, 0);
    const text = main.stack[main.top - 1];
    fengari.lua.lua_pop(main, 1);
    return text?.type === TYPE.string ? this.#lossyText(text.value as TString) : "";
  }
}
