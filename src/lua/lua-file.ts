/**
 * What the files of classes, units and modules have alike: they are compiled, their top runs once, and what they leave behind is frozen.
 *
 * What a file leaves behind is shared by every call, so it must not change afterwards: its globals and every table reachable
 * from it are frozen, and a function that assigns to a variable of the file is refused here.
 */
import { createHash } from "node:crypto";
import { asMoonportError, type ErrorOptionsBag, isOwn, MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { Budget } from "./budget.js";
import type { ClassSource, ModuleSource, TestSource, UnitSource } from "./contract.js";
import { meter } from "./fengari/meter.js";
import {
  type LuaClosure,
  type LuaFunction,
  type Proto,
  STATUS,
  type Table,
  type TValue,
  TYPE,
} from "./fengari/types.js";
import { carriesState } from "./globals/coroutines.js";
import type { Machine } from "./invocation.js";
import { argument, isString, latin1 } from "./runtime.js";
import { type Globals, REMOVED } from "./sandbox.js";

export type LuaSource = ClassSource | UnitSource | ModuleSource | TestSource;

const encoder = new TextEncoder();

/** The error of a file that cannot be served: `class_invalid` or `unit_invalid`. */
export function fileInvalid(
  source: LuaSource,
  line: number | undefined,
  what: string,
  bag: ErrorOptionsBag = {},
): MoonportError {
  const where = line === undefined ? source.file : `${source.file}:${line}`;
  const isUnit = "kind" in source && source.kind === "unit";
  return MoonportError.of(isUnit ? "unit_invalid" : "class_invalid", `${where}: ${what}`, {
    ...bag,
    details: { file: source.file, ...(line !== undefined && { line }) },
  });
}

/** Anything thrown while loading, as the error of the file. */
export function asFileInvalid(source: LuaSource, thrown: unknown): MoonportError {
  const error = asMoonportError(thrown);
  const isOurs = isOwn(error, "class_invalid", "unit_invalid");
  return isOurs ? error : fileInvalid(source, undefined, error.message, { cause: error });
}

/** @param modules what else the file is made of, a line each */
export function versionOf(text: string, modules: readonly string[] = []): string {
  const hash = createHash("sha256").update(text, "utf8").digest("hex");
  return modules.length === 0 ? hash : versionOf([hash, ...modules].join("\n"));
}

/**
 * The globals of a file's code. What is not there is a mistake, told with the nearest name.
 * @param absent further names that an author may look for, and why they are not there
 */
export function fileEnvironment(
  machine: Machine,
  globals: Globals,
  absent: Readonly<Record<string, string>> = {},
): Table {
  const { runtime } = machine;
  const environment = runtime.table();
  for (const [name, value] of globals) runtime.addField(environment, name, runtime.value(value.type, value.value));
  const reasons = { ...REMOVED, ...absent };
  environment.metatable = runtime.functions({ __index: (L) => missingGlobal(machine, environment, reasons, L) });
  return environment;
}

/** `caller` is made when it is asked for; any other global that is not there is a mistake. */
function missingGlobal(
  machine: Machine,
  environment: Table,
  reasons: Readonly<Record<string, string>>,
  L: Parameters<LuaFunction>[0],
): number {
  const { runtime } = machine;
  const key = argument(L, 2);
  const name = isString(key) ? latin1(key.value.getstr()) : "?";
  if (name === "caller") return runtime.push(L, callerValue(machine, L));
  const removed = Object.hasOwn(reasons, name) ? reasons[name] : undefined;
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

/** The file as a function, not yet run. */
export function compile(machine: Machine, source: LuaSource): TValue {
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
export function runTop(machine: Machine, source: LuaSource, closure: TValue, budget: Budget): TValue | undefined {
  const { runtime, errors, threads } = machine;
  const thread = threads.take();
  budget.enter(thread);
  try {
    runtime.push(thread, runtime.value(closure.type, closure.value));
    const status = runtime.fengari.lua.lua_resume(thread, runtime.main, 0);
    const top = thread.stack[thread.top - 1];
    if (status === STATUS.ok) return thread.top > 1 ? thread.stack[1] : undefined;
    if (status === STATUS.yield) throw fileInvalid(source, undefined, "yields at its top");
    const error = errors.toMoonport(top);
    throw loadFailed(source, error.message, error);
  } catch (thrown) {
    if (meter.killed === null) throw thrown;
    const killed = errors.killed(meter.killed, "the top of the file");
    throw fileInvalid(source, undefined, killed.message, { cause: killed });
  } finally {
    budget.leave();
  }
}

/** Lua's own message begins with file and line. */
export function loadFailed(source: LuaSource, message: string, cause?: unknown): MoonportError {
  const prefix = `${source.file}:`;
  const line = message.startsWith(prefix) ? Number.parseInt(message.slice(prefix.length), 10) : undefined;
  const text = line === undefined ? message : message.slice(`${prefix}${line}: `.length);
  return fileInvalid(source, line, text, cause === undefined ? {} : { cause });
}

/**
 * Freezes what a file keeps, and refuses what would carry state from call to call all the same: functions that
 * assign to a variable of the file, coroutines, and iterators under way.
 */
export function freezeAll(machine: Machine, source: LuaSource, roots: readonly TValue[], message: string): void {
  const guard = machine.runtime.guard(message);
  const seen = new Set<unknown>();
  const waiting = [...roots];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (seen.has(value.value)) continue;
    if (carriesState(machine.runtime, value)) {
      throw fileInvalid(source, undefined, "keeps a coroutine or an iterator, which all calls would share", {
        hint: "make it inside the function that uses it",
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
  source: LuaSource,
  proto: Proto,
  outlives: (upvalue: number) => boolean,
): void {
  const setUpvalue = machine.runtime.fengari.opcodes.OP_SETUPVAL;
  proto.code.forEach((instruction, pc) => {
    if (instruction.opcode !== setUpvalue || !outlives(instruction.B)) return;
    const name = proto.upvalues[instruction.B]?.name;
    throw fileInvalid(
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
