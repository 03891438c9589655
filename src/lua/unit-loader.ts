/** Turns a unit file into a unit: compiles it, runs its top once, takes the function it returned, and freezes what it keeps. */
import type { Budget } from "./budget.js";
import type { UnitSource } from "./contract.js";
import type { LuaClosure, TValue } from "./fengari/types.js";
import type { Machine } from "./invocation.js";
import { compile, fileEnvironment, fileInvalid, freezeAll, runTop } from "./lua-file.js";
import type { Modules } from "./modules.js";
import { isFunction } from "./runtime.js";
import type { Globals } from "./sandbox.js";

const UNIT_FROZEN = "%s: the tables of a unit's file are shared by all requests and cannot be changed by one";
const ENVIRONMENT_FROZEN = "assignment to the global '%s': write `local %s`, and keep what must last in an object";

/** What only methods have. */
export const ABSENT = {
  state: "a unit has no state of its own; call an object that has",
  emit: "events are an object's; call a method that emits",
  schedule: "timers are an object's; call a method that schedules",
  destroy: "only a method ends its own object",
  class: "a unit's file returns a function; classes are in classes/",
};

export interface LoadedUnit {
  readonly version: string;
  readonly function: TValue;
}

/** @throws MoonportError `unit_invalid` */
export function loadUnitFile(
  machine: Machine,
  source: UnitSource,
  globals: Globals,
  modules: Modules,
  budget: Budget,
): LoadedUnit {
  const { runtime } = machine;
  const visible: Globals = new Map([...globals].filter(([name]) => !Object.hasOwn(ABSENT, name)));
  const environment = fileEnvironment(machine, visible, ABSENT);
  const requirer = modules.requirer();
  runtime.addField(environment, "require", runtime.function(requirer.function));
  const closure = compile(machine, source);
  (closure.value as LuaClosure).upvals[0]?.setfrom(runtime.tableValue(environment));
  const returned = runTop(machine, source, closure, budget);
  if (!isFunction(returned)) {
    throw fileInvalid(source, undefined, "does not return a function", {
      hint: "a unit's file is `return function(request) ... return response end`",
    });
  }
  const unit = runtime.value(returned.type, returned.value);
  freezeAll(machine, source, [unit, runtime.tableValue(environment)], UNIT_FROZEN);
  environment.frozen = runtime.guard(ENVIRONMENT_FROZEN);
  return { version: modules.versionOf(source, modules.namedIn(closure, requirer.asked)), function: unit };
}
