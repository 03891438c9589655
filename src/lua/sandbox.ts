/**
 * The globals of Lua itself that a class sees: pure ones, opened one by one, frozen, with raw access frozen too.
 *
 * Not there: io, debug, package, load and its kin, dofile, collectgarbage, string.dump. `math.random` draws from the
 * call's own seed, `os` tells the call's time, `coroutine` knows that a method's own thread belongs to the engine.
 */
import { type LuaFunction, type LuaState, type Table, type TString, type TValue, TYPE } from "./fengari/types.js";
import { coroutineFunctions } from "./globals/coroutines.js";
import { argument, latin1, type Runtime } from "./runtime.js";

export type Globals = Map<string, TValue>;

const BASE = [
  "assert",
  "error",
  "getmetatable",
  "ipairs",
  "next",
  "pairs",
  "pcall",
  "rawequal",
  "rawget",
  "rawlen",
  "rawset",
  "select",
  "setmetatable",
  "tonumber",
  "tostring",
  "type",
  "xpcall",
] as const;

/** What a Lua author may look for and not find. */
export const REMOVED: Readonly<Record<string, string>> = {
  io: "objects reach no files",
  debug: "there is no debug library",
  package: "require finds the app's own modules, in lib/",
  load: "no code is compiled at run time",
  loadstring: "no code is compiled at run time",
  loadfile: "no code is compiled at run time",
  dofile: "no code is compiled at run time",
  collectgarbage: "memory is the host's business",
  _G: "globals cannot be reached as a table",
};

const LIBRARY_FROZEN = "libraries are shared and cannot be changed: %s";

export function installLua(runtime: Runtime, globals: Globals): void {
  const { libraries } = runtime.fengari;
  const base = open(runtime, libraries.base);
  for (const name of BASE) globals.set(name, base.get(name) as TValue);

  const library = (name: string, from: LuaFunction, without: readonly string[] = []): Table => {
    const table = runtime.table();
    for (const [field, value] of open(runtime, from)) {
      if (!without.includes(field)) runtime.addField(table, field, value);
    }
    globals.set(name, runtime.tableValue(runtime.freeze(table, LIBRARY_FROZEN)));
    return table;
  };
  lockStrings(runtime, library("string", libraries.string, ["dump"]));
  library("table", libraries.table);
  library("utf8", libraries.utf8);

  const math = open(runtime, libraries.math);
  math.set(
    "random",
    runtime.function((L) => random(runtime, L)),
  );
  // Each call has its own seed already; code that seeds as a habit need not fail.
  math.set(
    "randomseed",
    runtime.function(() => 0),
  );
  globals.set("math", frozenLibrary(runtime, math));
  globals.set("random", math.get("random") as TValue);
  globals.set(
    "coroutine",
    runtime.tableValue(runtime.freeze(runtime.functions(coroutineFunctions(runtime)), LIBRARY_FROZEN)),
  );
}

function frozenLibrary(runtime: Runtime, fields: ReadonlyMap<string, TValue>): TValue {
  const table = runtime.table();
  for (const [name, value] of fields) runtime.addField(table, name, value);
  return runtime.tableValue(runtime.freeze(table, LIBRARY_FROZEN));
}

/** Runs a library's opener and takes its functions. */
function open(runtime: Runtime, opener: LuaFunction): Map<string, TValue> {
  const { main } = runtime;
  const top = main.top;
  opener(main);
  const table = (main.stack[main.top - 1] as TValue).value as Table;
  const fields = new Map<string, TValue>();
  for (const { key, value } of table.strong.values()) {
    if (key.type === TYPE.string) fields.set(latin1((key.value as TString).getstr()), value);
  }
  runtime.fengari.lua.lua_pop(main, main.top - top);
  return fields;
}

/** `("x"):upper()` works, and nobody can reach the table that makes it work. */
function lockStrings(runtime: Runtime, string: Table): void {
  const metatable = runtime.tableOf({
    __index: runtime.tableValue(string),
    __metatable: runtime.boolean(false),
  });
  runtime.main.l_G.mt[4] = runtime.freeze(metatable, LIBRARY_FROZEN);
}

function random(runtime: Runtime, L: LuaState): number {
  const fraction = runtime.codeHost(L, "random").random();
  const [first, second] = [argument(L, 1), argument(L, 2)];
  if (first === undefined) return runtime.push(L, runtime.value(TYPE.number, fraction));
  const low = second === undefined ? 1 : whole(runtime, L, first);
  const high = whole(runtime, L, second ?? first);
  if (low > high) throw runtime.fail(L, `random(${low}, ${high}): the interval is empty`);
  return runtime.push(L, runtime.number(low + Math.floor(fraction * (high - low + 1))));
}

function whole(runtime: Runtime, L: LuaState, value: TValue): number {
  if ((value.type & 0x0f) !== 3 || !Number.isSafeInteger(value.value)) {
    throw runtime.fail(L, "random takes whole numbers: random(), random(high) or random(low, high)");
  }
  return value.value as number;
}
