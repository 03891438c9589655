/** Turns a class file into a class: compiles it, runs its top once, checks what it returned, and freezes all of it. */
import type { ObjectIdentity } from "../identity.js";
import { nearest } from "../nearest.js";
import type { Budget } from "./budget.js";
import { type ClassShape, checkedClass } from "./class-shape.js";
import type { ClassSource } from "./contract.js";
import type { LuaClosure, LuaFunction, Table, TString, TValue } from "./fengari/types.js";
import type { Machine } from "./invocation.js";
import { compile, fileEnvironment, fileInvalid, freezeAll, runTop } from "./lua-file.js";
import type { Modules } from "./modules.js";
import { argument, isString, isTable, latin1 } from "./runtime.js";
import type { Globals } from "./sandbox.js";
import { textOf } from "./values.js";

const CLASS_FROZEN = "%s: a class and the tables of its file are shared by all objects and cannot be changed by a call";
const ENVIRONMENT_FROZEN =
  "assignment to the global '%s': write `local %s`, and keep what must last in state.store or state.sql";
const SELF_FROZEN = "self.%s cannot be set: self is made anew for each call; keep state in state.store or state.sql";

/** What only units have. */
export const ABSENT = {
  settle: "only a unit settles; a method's reply waits for its own writes anyway",
  fetch: "only a unit reaches the network",
};

export interface LoadedClass extends ClassShape {
  readonly version: string;
  selfOf(object: ObjectIdentity): TValue;
}

/** @throws MoonportError `class_invalid` */
export function loadClassFile(
  machine: Machine,
  source: ClassSource,
  globals: Globals,
  modules: Modules,
  classCall: LuaFunction,
  budget: Budget,
): LoadedClass {
  const { runtime } = machine;
  const classTable = runtime.table();
  classTable.host = { kind: "class", refusal: "is a class" };
  const environment = makeEnvironment(machine, source, globals, classTable);
  const requirer = modules.requirer();
  runtime.addField(environment, "require", runtime.function(requirer.function));
  const closure = compile(machine, source);
  (closure.value as LuaClosure).upvals[0]?.setfrom(runtime.tableValue(environment));
  classTable.metatable = runtime.functions({ __call: classCall });
  runtime.addField(classTable.metatable, "__metatable", runtime.boolean(false));
  runtime.addField(classTable, "read", runtime.tableValue(runtime.table()));

  const returned = runTop(machine, source, closure, budget);
  if (!isTable(returned) || returned.value !== classTable) {
    throw fileInvalid(source, lastLine(source), `does not end with \`return ${source.name}\``, {
      hint: `the file starts with \`local ${source.name} = class "${source.name}"\` and ends with \`return ${source.name}\``,
    });
  }
  const shape = checkedClass(machine, source, classTable);
  freezeAll(machine, source, [runtime.tableValue(classTable), runtime.tableValue(environment)], CLASS_FROZEN);
  environment.frozen = runtime.guard(ENVIRONMENT_FROZEN);
  return {
    ...shape,
    version: modules.versionOf(source, modules.namedIn(closure, requirer.asked)),
    selfOf: selfMaker(machine, source, shape),
  };
}

function makeEnvironment(machine: Machine, source: ClassSource, globals: Globals, classTable: Table): Table {
  const { runtime } = machine;
  const environment = fileEnvironment(machine, globals, ABSENT);
  runtime.addField(
    environment,
    "class",
    runtime.function((L) => {
      const name = argument(L, 1);
      if (!isString(name) || textOf(name.value as TString) !== source.name) {
        throw runtime.fail(L, `the class of ${source.file} is called "${source.name}": write class "${source.name}"`);
      }
      if (classTable.frozen !== null) throw runtime.fail(L, "class is only for the top of a class file");
      return runtime.push(L, runtime.tableValue(classTable));
    }),
  );
  return environment;
}

function lastLine(source: ClassSource): number {
  return source.text.trimEnd().split("\n").length;
}

/** `self` of an object: made once and kept as long as its identity is, since it cannot be changed. */
function selfMaker(machine: Machine, source: ClassSource, shape: ClassShape): (object: ObjectIdentity) => TValue {
  const { runtime } = machine;
  const members = runtime.table();
  for (const [name, value] of shape.members) runtime.addField(members, name, runtime.value(value.type, value.value));
  members.metatable = runtime.functions({
    __index: (L) => {
      const key = argument(L, 2);
      const name = isString(key) ? latin1(key.value.getstr()) : "?";
      const guess = nearest(name, [...shape.members.keys(), "key", "class", "app", "id"]);
      throw runtime.fail(
        L,
        `${source.name} has no method '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`,
      );
    },
  });
  runtime.freeze(members, CLASS_FROZEN);
  const metatable = runtime.tableOf({
    __index: runtime.tableValue(members),
    __metatable: runtime.boolean(false),
  });
  const selves = new WeakMap<ObjectIdentity, TValue>();
  // A hot object's calls come one after the other, and a look into a WeakMap is a tenth of an empty call.
  let last: { readonly object: ObjectIdentity; readonly self: TValue } | undefined;
  return (object) => {
    if (last?.object === object) return last.self;
    let self = selves.get(object);
    if (self === undefined) {
      const table = runtime.tableOf({
        key: runtime.string(object.key),
        class: runtime.string(object.className),
        app: runtime.string(object.app),
        id: runtime.string(object.id),
      });
      table.metatable = metatable;
      self = runtime.tableValue(runtime.freeze(table, SELF_FROZEN));
      selves.set(object, self);
    }
    last = { object, self };
    return self;
  };
}
