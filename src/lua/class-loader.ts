/**
 * Turns a class file into a class: compiles it, runs its top once, checks what it returned, and freezes all of it.
 *
 * What a class file leaves behind is shared by every object of the class, so it must not change afterwards: its globals
 * and every table reachable from it are frozen, and a function that assigns to a variable of the file is refused here.
 */
import { createHash } from "node:crypto";
import { asMoonportError, type MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { nearest } from "../nearest.js";
import type { Budget } from "./budget.js";
import { type ClassShape, checkedClass, classInvalid } from "./class-shape.js";
import type { ClassSource } from "./contract.js";
import { meter } from "./fengari/meter.js";
import {
  type LuaClosure,
  type LuaFunction,
  type Proto,
  STATUS,
  type Table,
  type TString,
  type TValue,
  TYPE,
} from "./fengari/types.js";
import { carriesState } from "./globals/coroutines.js";
import type { Machine } from "./invocation.js";
import { argument, isString, isTable, latin1 } from "./runtime.js";
import { type Globals, REMOVED } from "./sandbox.js";
import { textOf } from "./values.js";

const CLASS_FROZEN = "%s: a class and the tables of its file are shared by all objects and cannot be changed by a call";
const ENVIRONMENT_FROZEN =
  "assignment to the global '%s': write `local %s`, and keep what must last in state.store or state.sql";
const SELF_FROZEN = "self.%s cannot be set: self is made anew for each call; keep state in state.store or state.sql";

const encoder = new TextEncoder();

export interface LoadedClass extends ClassShape {
  readonly version: string;
  selfOf(object: ObjectIdentity): TValue;
}

/** @throws MoonportError `class_invalid` */
export function loadClassFile(
  machine: Machine,
  source: ClassSource,
  globals: Globals,
  classCall: LuaFunction,
  budget: Budget,
): LoadedClass {
  const { runtime } = machine;
  const classTable = runtime.table();
  classTable.host = { kind: "class", refusal: "is a class" };
  const environment = makeEnvironment(machine, source, globals, classTable);
  const closure = compile(machine, source);
  (closure.value as LuaClosure).upvals[0]?.setfrom(runtime.tableValue(environment));
  classTable.metatable = runtime.functions({ __call: classCall });
  runtime.addField(classTable.metatable, "__metatable", runtime.boolean(false));
  runtime.addField(classTable, "read", runtime.tableValue(runtime.table()));

  const returned = runTop(machine, source, closure, budget);
  if (!isTable(returned) || returned.value !== classTable) {
    throw classInvalid(source, lastLine(source), `does not end with \`return ${source.name}\``, {
      hint: `the file starts with \`local ${source.name} = class "${source.name}"\` and ends with \`return ${source.name}\``,
    });
  }
  const shape = checkedClass(machine, source, classTable);
  freezeAll(machine, source, [runtime.tableValue(classTable), runtime.tableValue(environment)]);
  environment.frozen = runtime.guard(ENVIRONMENT_FROZEN);
  return {
    ...shape,
    version: createHash("sha256").update(source.text, "utf8").digest("hex"),
    selfOf: selfMaker(machine, source, shape),
  };
}

function makeEnvironment(machine: Machine, source: ClassSource, globals: Globals, classTable: Table): Table {
  const { runtime } = machine;
  const environment = runtime.table();
  for (const [name, value] of globals) runtime.addField(environment, name, runtime.value(value.type, value.value));
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
  environment.metatable = runtime.functions({ __index: (L) => missingGlobal(machine, environment, L) });
  return environment;
}

/** `caller` is made when it is asked for; any other global that is not there is a mistake. */
function missingGlobal(machine: Machine, environment: Table, L: Parameters<LuaFunction>[0]): number {
  const { runtime } = machine;
  const key = argument(L, 2);
  const name = isString(key) ? latin1(key.value.getstr()) : "?";
  if (name === "caller") return runtime.push(L, callerValue(machine, L));
  const removed = Object.hasOwn(REMOVED, name) ? REMOVED[name] : undefined;
  if (removed !== undefined) throw runtime.fail(L, `'${name}' is not there: ${removed}`);
  const names = [...environment.strong.keys()].filter((known) => typeof known === "string");
  const guess = nearest(name, names);
  throw runtime.fail(L, `no global is called '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`);
}

function callerValue(machine: Machine, L: Parameters<LuaFunction>[0]): TValue {
  const { runtime, values } = machine;
  const call = runtime.running(L, "caller");
  if (call.callerValue === null) {
    const { kind, id, claims } = call.host.caller;
    const value = values.toLua({ kind, ...(id !== undefined && { id }), ...(claims !== undefined && { claims }) });
    runtime.freeze(value.value as Table, "caller.%s cannot be set");
    call.callerValue = value;
  }
  return runtime.value(call.callerValue.type, call.callerValue.value);
}

function compile(machine: Machine, source: ClassSource): TValue {
  const { runtime, errors, threads } = machine;
  const thread = threads.take();
  const { lauxlib, lua } = runtime.fengari;
  const text = encoder.encode(source.text);
  const mode = encoder.encode("t");
  const status = lauxlib.luaL_loadbufferx(thread, text, text.length, encoder.encode(`@${source.file}`), mode);
  const result = thread.stack[thread.top - 1] as TValue;
  const value = runtime.value(result.type, result.value);
  lua.lua_settop(thread, 0);
  threads.giveBack(thread);
  if (status === STATUS.ok) return value;
  throw loadFailed(source, errors.toMoonport(value).message);
}

/** Runs the file's top in a thread of its own, within the budget of a method. */
function runTop(machine: Machine, source: ClassSource, closure: TValue, budget: Budget): TValue | undefined {
  const { runtime, errors, threads } = machine;
  const thread = threads.take();
  budget.enter(thread);
  try {
    runtime.push(thread, runtime.value(closure.type, closure.value));
    const status = runtime.fengari.lua.lua_resume(thread, runtime.main, 0);
    const top = thread.stack[thread.top - 1];
    if (status === STATUS.ok) return thread.top > 1 ? thread.stack[1] : undefined;
    if (status === STATUS.yield) throw classInvalid(source, undefined, "yields at its top");
    const error = errors.toMoonport(top);
    throw loadFailed(source, error.message, error);
  } catch (thrown) {
    if (meter.killed === null) throw thrown;
    const killed = errors.killed(meter.killed, "the top of the file");
    throw classInvalid(source, undefined, killed.message, { cause: killed });
  } finally {
    budget.leave();
  }
}

/** Lua's own message begins with file and line. */
function loadFailed(source: ClassSource, message: string, cause?: unknown): MoonportError {
  const prefix = `${source.file}:`;
  const line = message.startsWith(prefix) ? Number.parseInt(message.slice(prefix.length), 10) : undefined;
  const text = line === undefined ? message : message.slice(`${prefix}${line}: `.length);
  return classInvalid(source, line, text, cause === undefined ? {} : { cause });
}

function lastLine(source: ClassSource): number {
  return source.text.trimEnd().split("\n").length;
}

/**
 * Freezes what the class keeps, and refuses what would carry state from object to object all the same: functions that
 * assign to a variable of the file, coroutines, and iterators under way.
 */
function freezeAll(machine: Machine, source: ClassSource, roots: readonly TValue[]): void {
  const guard = machine.runtime.guard(CLASS_FROZEN);
  const seen = new Set<unknown>();
  const waiting = [...roots];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (seen.has(value.value)) continue;
    if (carriesState(machine.runtime, value)) {
      throw classInvalid(source, undefined, "keeps a coroutine or an iterator, which all objects would share", {
        hint: "make it inside the method that uses it",
      });
    }
    if (value.type === TYPE.luaFunction) {
      seen.add(value.value);
      const closure = value.value as LuaClosure;
      refuseAssignments(machine, source, closure.p, () => true);
      waiting.push(...closure.upvals.filter((upvalue) => upvalue !== undefined));
    } else if (value.type === TYPE.table) {
      seen.add(value.value);
      const table = value.value as Table;
      if (table.frozen !== null) continue;
      table.frozen = guard;
      for (const entry of table.strong.values()) waiting.push(entry.key, entry.value);
      if (table.metatable !== null) waiting.push(machine.runtime.tableValue(table.metatable));
    }
  }
}

/** Looks through a function and those inside it for an assignment to a variable that outlives its calls. */
function refuseAssignments(
  machine: Machine,
  source: ClassSource,
  proto: Proto,
  outlives: (upvalue: number) => boolean,
): void {
  const setUpvalue = machine.runtime.fengari.opcodes.OP_SETUPVAL;
  proto.code.forEach((instruction, pc) => {
    if (instruction.opcode !== setUpvalue || !outlives(instruction.B)) return;
    const name = proto.upvalues[instruction.B]?.name;
    throw classInvalid(
      source,
      proto.lineinfo[pc],
      `'${name ? latin1(name.getstr()) : "?"}' is a variable of the file, which all objects share; a function may not assign to it`,
      { hint: "keep what must last in state.store or state.sql" },
    );
  });
  for (const inner of proto.p) {
    refuseAssignments(machine, source, inner, (upvalue) => {
      const origin = inner.upvalues[upvalue];
      return origin !== undefined && !origin.instack && outlives(origin.idx);
    });
  }
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
  return (object) => {
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
    return self;
  };
}

/** Anything thrown while loading, as `class_invalid`. */
export function asClassInvalid(source: ClassSource, thrown: unknown): MoonportError {
  const error = asMoonportError(thrown);
  return error.code === "class_invalid" ? error : classInvalid(source, undefined, error.message, { cause: error });
}
