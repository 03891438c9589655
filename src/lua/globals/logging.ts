/** `log.info(...)` and `print(...)`: what a class tells its operator. */
import type { LuaFunction, LuaState, Table } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, argumentCount, isTable, latin1 } from "../runtime.js";

const LEVELS = ["debug", "info", "warn", "error"] as const;
const LINE_CHARACTERS_MAX = 8_192;
/** So many hold a character more than that, whatever the characters. */
const LINE_BYTES_MAX = 4 * (LINE_CHARACTERS_MAX + 1);

/** Arguments are joined by spaces; a table shows as JSON where it can. */
export function logFunctions(machine: Machine): Record<string, LuaFunction> {
  const functions: Record<string, LuaFunction> = {};
  for (const level of LEVELS) {
    functions[level] = (L) => {
      machine.runtime.codeHost(L, `log.${level}`).log(level, line(machine, L, " "));
      return 0;
    };
  }
  return functions;
}

export function printFunction(machine: Machine): LuaFunction {
  return (L) => {
    machine.runtime.codeHost(L, "print").log("info", line(machine, L, "\t"));
    return 0;
  };
}

/** No argument is looked at once the line is full: all of them together may be any number of megabytes. */
function line(machine: Machine, L: LuaState, separator: string): string {
  const count = argumentCount(L);
  let text = "";
  for (let index = 1; index <= count && text.length <= LINE_CHARACTERS_MAX; index++) {
    text += (index === 1 ? "" : separator) + textOfArgument(machine, L, index);
  }
  return text.length > LINE_CHARACTERS_MAX ? `${text.slice(0, LINE_CHARACTERS_MAX)}...` : text;
}

function textOfArgument(machine: Machine, L: LuaState, index: number): string {
  const value = argument(L, index);
  const { runtime, values } = machine;
  if (isTable(value) && (value.value as Table).metatable === null) {
    try {
      return JSON.stringify(values.toPlain(value, "value"));
    } catch {
      // Whatever cannot travel is still worth a line.
    }
  }
  const whole = runtime.fengari.lauxlib.luaL_tolstring(L, index);
  const bytes = whole.subarray(0, LINE_BYTES_MAX);
  const text = Buffer.from(bytes).toString("utf8") || latin1(bytes);
  runtime.fengari.lua.lua_pop(L, 1);
  return text;
}
