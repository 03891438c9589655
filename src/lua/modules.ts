/**
 * The app's own modules, `lib/*.lua`, which its other files get by `require("name")`; `lib/a/b.lua` is `a.b`.
 *
 * All modules of a release are loaded together, before any class: each top runs once, what it returned is frozen like a
 * class, and from then on `require` is a look-up that gives everybody the same value. So a call cannot leave anything in a
 * module for the next, and requiring one inside a method costs nothing.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { Budget } from "./budget.js";
import type { LoadedModule, LuaModules, ModuleSource } from "./contract.js";
import { type LuaClosure, type LuaFunction, type LuaState, type Proto, STATUS, type TValue } from "./fengari/types.js";
import type { Machine } from "./invocation.js";
import {
  asFileInvalid,
  compile,
  fileEnvironment,
  fileInvalid,
  freezeAll,
  type LuaSource,
  loadFailed,
  runTop,
  versionOf,
} from "./lua-file.js";
import { argument, isNil, isString } from "./runtime.js";
import type { Globals } from "./sandbox.js";
import { textOf } from "./values.js";

const MODULE_FROZEN = "%s: what a module returns is shared by all that require it and cannot be changed";
const ENVIRONMENT_FROZEN = "assignment to the global '%s': write `local %s`, and return what others are to use";
export const ABSENT = { class: "a module is no class; classes are in classes/" };
const NAME = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/;

type State =
  | { readonly kind: "new" | "loading" }
  | { readonly kind: "loaded"; readonly value: TValue }
  | { readonly kind: "failed"; readonly error: MoonportError };

interface Module {
  readonly source: ModuleSource;
  readonly dependencies: Set<string>;
  state: State;
}

/** `require` of one file, and what it was asked for. */
export interface Requirer {
  readonly function: LuaFunction;
  readonly asked: Set<string>;
}

export class Modules implements LuaModules {
  readonly faults: { readonly source: ModuleSource; readonly error: MoonportError }[] = [];
  readonly #machine: Machine;
  readonly #globals: Globals;
  readonly #modules = new Map<string, Module>();
  /** Those whose tops run now, each required by the one before. */
  readonly #loading: Module[] = [];

  constructor(machine: Machine, sources: readonly ModuleSource[], globals: Globals, budget: () => Budget) {
    this.#machine = machine;
    this.#globals = globals;
    for (const source of sources) {
      this.#modules.set(source.name, { source, dependencies: new Set(), state: { kind: "new" } });
    }
    for (const module of this.#modules.values()) this.#load(module, budget);
  }

  get loaded(): LoadedModule[] {
    const whole = [...this.#modules.values()].filter(({ state }) => state.kind === "loaded");
    return whole.map(({ source, dependencies }) => {
      return { name: source.name, file: source.file, version: this.versionOf(source, dependencies) };
    });
  }

  requirer(): Requirer {
    const asked = new Set<string>();
    return { asked, function: (L) => this.#require(L, asked) };
  }

  /** The modules that a file's code names, beside those that its top asked for: a method may require one later. */
  namedIn(closure: TValue, asked: Iterable<string>): Set<string> {
    const names = new Set(asked);
    const constants = new Set<string>();
    collectConstants((closure.value as LuaClosure).p, constants);
    if (constants.has("require")) for (const text of constants) if (this.#modules.has(text)) names.add(text);
    return names;
  }

  /** A file's version: its text, and the texts of all that it requires, directly or not. */
  versionOf(source: LuaSource, dependencies: Iterable<string>): string {
    const reached = new Map<string, Module>();
    const waiting = [...dependencies];
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      const module = this.#modules.get(name);
      if (module === undefined || reached.has(name)) continue;
      reached.set(name, module);
      waiting.push(...module.dependencies);
    }
    const modules = [...reached].sort(([a], [b]) => (a < b ? -1 : 1));
    return versionOf(
      source.text,
      modules.map(
        ([
          name,
          {
            source: { text },
          },
        ]) => `${name} ${versionOf(text)}`,
      ),
    );
  }

  #load(module: Module, budget: () => Budget): void {
    if (module.state.kind !== "new") return;
    const { source } = module;
    try {
      if (!NAME.test(source.name)) {
        throw fileInvalid(source, undefined, "its name is no module name", {
          hint: "folders and files in lib/ are named with letters, digits and underscores",
        });
      }
      const returned = this.#enter(module, (closure) => runTop(this.#machine, source, closure, budget()));
      this.#finish(module, returned);
    } catch (thrown) {
      this.#fail(module, asFileInvalid(source, thrown));
    }
  }

  /** Compiles the module and runs its top, by whatever means its requirer has. */
  #enter<T>(module: Module, run: (closure: TValue) => T): T {
    const { source } = module;
    const environment = fileEnvironment(this.#machine, this.#globals, ABSENT);
    const { runtime } = this.#machine;
    const requirer = this.requirer();
    runtime.addField(environment, "require", runtime.function(requirer.function));
    const closure = compile(this.#machine, source);
    (closure.value as LuaClosure).upvals[0]?.setfrom(runtime.tableValue(environment));
    module.state = { kind: "loading" };
    this.#loading.push(module);
    try {
      const returned = run(closure);
      freezeAll(this.#machine, source, [runtime.tableValue(environment)], MODULE_FROZEN);
      environment.frozen = runtime.guard(ENVIRONMENT_FROZEN);
      for (const name of this.namedIn(closure, requirer.asked)) module.dependencies.add(name);
      return returned;
    } finally {
      this.#loading.pop();
      // Where its requirer ran out of budget, the module itself may be sound.
      if (module.state.kind === "loading") module.state = { kind: "new" };
    }
  }

  #finish(module: Module, returned: TValue | undefined): TValue {
    const { source } = module;
    if (isNil(returned)) {
      throw fileInvalid(source, undefined, "returns nothing", {
        hint: "a module ends with `return` and what it offers",
      });
    }
    const value = this.#machine.runtime.value(returned.type, returned.value);
    freezeAll(this.#machine, source, [value], MODULE_FROZEN);
    module.state = { kind: "loaded", value };
    return value;
  }

  #fail(module: Module, error: MoonportError): void {
    module.state = { kind: "failed", error };
    this.faults.push({ source: module.source, error });
  }

  #require(L: LuaState, asked: Set<string>): number {
    const { runtime } = this.#machine;
    const given = argument(L, 1);
    const name = isString(given) ? textOf(given.value) : null;
    if (name === null) throw runtime.fail(L, 'require takes the name of a module: require("money")');
    asked.add(name);
    const module = this.#modules.get(name);
    if (module === undefined) throw runtime.fail(L, this.#unknown(name));
    if (module.state.kind === "new") this.#loadWithin(L, module);
    switch (module.state.kind) {
      case "loaded":
        return runtime.push(L, runtime.value(module.state.value.type, module.state.value.value));
      case "failed":
        throw runtime.fail(L, `require("${name}"): ${module.state.error.message}`);
      default:
        throw runtime.fail(L, `require goes round in a circle: ${this.#circle(module)}`);
    }
  }

  /** Another module's top asks for it: it runs below that, and within its budget. */
  #loadWithin(L: LuaState, module: Module): void {
    const { runtime, errors } = this.#machine;
    const { lua } = runtime.fengari;
    try {
      const value = this.#enter(module, (closure) => {
        // Slots of the stack are overwritten in place, so values that are kept are copied into it.
        runtime.push(L, runtime.value(closure.type, closure.value));
        const status = lua.lua_pcall(L, 0, 1, 0);
        const top = L.stack[L.top - 1];
        const result = runtime.value(top?.type ?? 0, top?.value ?? null);
        lua.lua_pop(L, 1);
        if (status === STATUS.ok) return result;
        const error = errors.toMoonport(result);
        throw loadFailed(module.source, error.message, error);
      });
      this.#finish(module, value);
    } catch (thrown) {
      if (!(thrown instanceof MoonportError)) throw thrown;
      this.#fail(module, thrown);
    }
  }

  #unknown(name: string): string {
    const file = `lib/${name.replaceAll(".", "/")}.lua`;
    const guess = nearest(name, this.#modules.keys()) ?? nearest(name.replaceAll("/", "."), this.#modules.keys());
    return `no module is called '${name}': there is no ${file}${guess === undefined ? "" : `; did you mean '${guess}'?`}`;
  }

  #circle(module: Module): string {
    const path = this.#loading.slice(this.#loading.indexOf(module));
    return [...path, module].map(({ source }) => source.file).join(" → ");
  }
}

function collectConstants(proto: Proto, into: Set<string>): void {
  for (const constant of proto.k) if (isString(constant)) into.add(textOf(constant.value) ?? "");
  for (const inner of proto.p) collectConstants(inner, into);
}
