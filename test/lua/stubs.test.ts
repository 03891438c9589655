import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { LuaErrors } from "../../src/lua/errors.js";
import { type Table, TYPE } from "../../src/lua/fengari/types.js";
import { installMoonport } from "../../src/lua/globals/moonport.js";
import { unitFunctions } from "../../src/lua/globals/outside.js";
import { Runtime } from "../../src/lua/runtime.js";
import { type Globals, installLua } from "../../src/lua/sandbox.js";
import { TEST_GLOBALS } from "../../src/lua/test-loader.js";
import { ThreadPool } from "../../src/lua/thread-pool.js";
import { Values } from "../../src/lua/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { unwatched } from "../../src/world/watchdog/running-record.js";
import { LIMITS, loadThing } from "./support/fake-host.js";

const STUBS = readFileSync(new URL("../../src/lua/stubs/moonport.lua", import.meta.url), "utf8");

/** Every global and every field of a global that is Moonport's own, dotted. */
function moonportNames(): string[] {
  const runtime = new Runtime(LIMITS, silentLogger);
  const values = new Values(runtime);
  const lua: Globals = new Map();
  installLua(runtime, lua);
  const globals: Globals = new Map();
  const machine = {
    runtime,
    values,
    errors: new LuaErrors(runtime, values),
    threads: new ThreadPool(runtime),
    running: unwatched,
    exceeded: () => {},
  };
  installMoonport(machine, globals);
  const names: string[] = [];
  const walk = (name: string, table: Table): void => {
    for (const [field, { value }] of table.strong) {
      names.push(`${name}.${String(field)}`);
      if (value.type === TYPE.table) walk(`${name}.${String(field)}`, value.value as Table);
    }
  };
  for (const [name, value] of globals) {
    // Lua's own, which LuaLS knows.
    if (name === "os" || name === "print") continue;
    names.push(name);
    if (value.type === TYPE.table) walk(name, value.value as Table);
  }
  return [...names, ...Object.keys(unitFunctions(machine)), ...TEST_GLOBALS, "class", "caller", "random"];
}

function declared(name: string): boolean {
  const escaped = name.replaceAll(".", "\\.");
  return new RegExp(`^(function ${escaped}\\(|${escaped} = )`, "m").test(STUBS);
}

describe("the stubs for editors", () => {
  test("declare every global and function there is", () => {
    const names = moonportNames();
    expect(names.length).toBeGreaterThan(35);
    expect(names.filter((name) => !declared(name))).toEqual([]);
  });

  test("declare nothing that is not there", () => {
    const names = new Set(moonportNames());
    const stubbed = [...STUBS.matchAll(/^(?:function ([a-z][\w.]*)\(|([a-z][\w.]*) = )/gm)].map(([, f, v]) => f ?? v);
    expect(stubbed.filter((name) => name !== undefined && !names.has(name))).toEqual([]);
  });

  test("are Lua", () => {
    // As the body of a function, since their globals would be refused.
    expect(() => loadThing(`local function stubs()\n${STUBS}\nend`)).not.toThrow();
  });
});
