/** What the files of an app see as globals, for whoever checks their text without running it. */
import { ABSENT as ABSENT_FROM_CLASSES } from "./class-loader.js";
import type { GlobalNames, LuaFileKind, NameTree } from "./contract.js";
import { type Table, TYPE } from "./fengari/types.js";
import { unitFunctions } from "./globals/outside.js";
import type { Machine } from "./invocation.js";
import { ABSENT as ABSENT_FROM_MODULES } from "./modules.js";
import { type Globals, REMOVED } from "./sandbox.js";
import { ABSENT as ABSENT_FROM_TESTS, TEST_GLOBALS } from "./test-loader.js";
import { ABSENT as ABSENT_FROM_UNITS } from "./unit-loader.js";

const ABSENT: Readonly<Record<LuaFileKind, Readonly<Record<string, string>>>> = {
  class: ABSENT_FROM_CLASSES,
  unit: ABSENT_FROM_UNITS,
  module: ABSENT_FROM_MODULES,
  test: ABSENT_FROM_TESTS,
};

/** @param globals Lua's and Moonport's */
export function globalNames(machine: Machine, globals: Globals, kind: LuaFileKind): GlobalNames {
  const absent = { ...REMOVED, ...ABSENT[kind] };
  const known = new Map<string, NameTree | undefined>();
  for (const [name, value] of globals) {
    known.set(name, value.type === TYPE.table ? fieldsOf(value.value as Table) : undefined);
  }
  for (const name of ["caller", "class", "require", ...Object.keys(unitFunctions(machine))]) known.set(name, undefined);
  if (kind === "test") for (const name of TEST_GLOBALS) known.set(name, undefined);
  for (const name of Object.keys(absent)) known.delete(name);
  return { known, absent };
}

function fieldsOf(table: Table): NameTree {
  const fields = new Map<string, NameTree | undefined>();
  for (const [name, { value }] of table.strong) {
    fields.set(String(name), value.type === TYPE.table ? fieldsOf(value.value as Table) : undefined);
  }
  return fields;
}
