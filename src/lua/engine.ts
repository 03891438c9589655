/**
 * The Lua engine: one state, shared frozen libraries, a pool of coroutines; classes are compiled once and their methods
 * run in whatever coroutine is free.
 */
import { assert, MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { PlainObject, PlainValue } from "../values.js";
import type { Logger } from "../world/logger.js";
import { ROW_ENTRY, type RunningRecord, unwatched } from "../world/watchdog/running-record.js";
import type { Clock } from "../world/world.js";
import { Budget, STEPS_PER_LOOK } from "./budget.js";
import { type LoadedClass, loadClassFile } from "./class-loader.js";
import type {
  CallHost,
  ClassSource,
  CodeHost,
  GlobalNames,
  LuaClass,
  LuaEngine,
  LuaEntry,
  LuaFileKind,
  LuaInvocation,
  LuaLimits,
  LuaModules,
  LuaUnit,
  MethodKind,
  ModuleSource,
  TestSource,
  UnitSource,
} from "./contract.js";
import { LuaErrors } from "./errors.js";
import type { KillKind } from "./fengari/meter.js";
import type { TValue } from "./fengari/types.js";
import { installMoonport } from "./globals/moonport.js";
import { unitFunctions } from "./globals/outside.js";
import { References } from "./globals/references.js";
import { Invocation, type Machine } from "./invocation.js";
import { asFileInvalid } from "./lua-file.js";
import { Modules } from "./modules.js";
import { globalNames } from "./names.js";
import { Runtime } from "./runtime.js";
import { type Globals, installLua } from "./sandbox.js";
import { type LoadedTest, loadTestFile } from "./test-loader.js";
import { ThreadPool } from "./thread-pool.js";
import { type LoadedUnit, loadUnitFile } from "./unit-loader.js";
import { Values } from "./values.js";

export interface LuaEngineOptions {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly limits: LuaLimits;
  readonly engineLog: Logger;
  /** Told whose code runs. Default: nobody listens. */
  readonly running?: RunningRecord;
  /** Told of each run that was ended for what it used. */
  readonly exceeded?: (budget: KillKind) => void;
  /** Instructions between two looks at the clock; tests set it to 1 to stop everywhere. */
  readonly stepsPerLook?: number;
}

/** An engine that also runs an app's own tests. */
export interface TestEngine extends LuaEngine {
  /** @throws MoonportError `class_invalid` */
  loadTests(source: TestSource, knownClasses: readonly string[], modules: LuaModules): readonly LoadedTest[];
}

export function createLuaEngine(options: LuaEngineOptions): TestEngine {
  return new Engine(options);
}

class Engine implements TestEngine {
  readonly #machine: Machine;
  readonly #globals: Globals = new Map();
  readonly #references: References;
  readonly #stepsPerLook: number;
  readonly #noModules: Modules;

  constructor(readonly options: LuaEngineOptions) {
    const runtime = new Runtime(options.limits, options.engineLog);
    const values = new Values(runtime);
    const errors = new LuaErrors(runtime, values);
    const { running = unwatched, exceeded = () => {} } = options;
    this.#machine = { runtime, values, errors, threads: new ThreadPool(runtime), running, exceeded };
    this.#stepsPerLook = options.stepsPerLook ?? STEPS_PER_LOOK;
    this.#references = new References(this.#machine);
    installLua(runtime, this.#globals);
    installMoonport(this.#machine, this.#globals);
    this.#noModules = this.loadModules([], []);
  }

  loadModules(sources: readonly ModuleSource[], knownClasses: readonly string[]): Modules {
    const globals = this.#withUnitFunctions(this.#withClasses(knownClasses));
    return new Modules(this.#machine, sources, globals, () => this.#methodBudget(false));
  }

  loadClass(source: ClassSource, knownClasses: readonly string[], modules: LuaModules = this.#noModules): LuaClass {
    assert(modules instanceof Modules, "modules come from the engine");
    const globals = this.#withClasses([...knownClasses, source.name]);
    const classCall = this.#references.callFor(source.name);
    try {
      const loaded = loadClassFile(this.#machine, source, globals, modules, classCall, this.#methodBudget(false));
      return new EngineClass(source, loaded, this.#machine, {
        method: () => this.#methodBudget(true),
        row: () => this.#rowBudget(),
      });
    } catch (thrown) {
      throw asFileInvalid(source, thrown);
    }
  }

  loadUnit(source: UnitSource, knownClasses: readonly string[], modules: LuaModules = this.#noModules): LuaUnit {
    assert(modules instanceof Modules, "modules come from the engine");
    const globals = this.#withUnitFunctions(this.#withClasses(knownClasses));
    try {
      const loaded = loadUnitFile(this.#machine, source, globals, modules, this.#methodBudget(false));
      return new EngineUnit(source, loaded, this.#machine, () => this.#methodBudget(true));
    } catch (thrown) {
      throw asFileInvalid(source, thrown);
    }
  }

  loadTests(source: TestSource, knownClasses: readonly string[], modules: LuaModules): readonly LoadedTest[] {
    assert(modules instanceof Modules, "modules come from the engine");
    const globals = this.#withClasses(knownClasses);
    try {
      return loadTestFile(this.#machine, source, globals, modules, (inSlices) => this.#methodBudget(inSlices));
    } catch (thrown) {
      throw asFileInvalid(source, thrown);
    }
  }

  names(kind: LuaFileKind): GlobalNames {
    return globalNames(this.#machine, this.#globals, kind);
  }

  close(): void {
    this.#machine.threads.clear();
  }

  #withClasses(names: readonly string[]): Globals {
    const globals = new Map(this.#globals);
    for (const name of new Set(names)) globals.set(name, this.#references.classNamed(name));
    return globals;
  }

  #withUnitFunctions(globals: Globals): Globals {
    for (const [name, f] of Object.entries(unitFunctions(this.#machine))) {
      globals.set(name, this.#machine.runtime.function(f));
    }
    return globals;
  }

  #methodBudget(inSlices: boolean): Budget {
    const { methodBudgetMs, sliceMs } = this.options.limits;
    return this.#budget(methodBudgetMs, inSlices ? sliceMs : undefined);
  }

  #rowBudget(): Budget {
    return this.#budget(this.options.limits.directoryBudgetMs, undefined);
  }

  #budget(runMs: number, sliceMs: number | undefined): Budget {
    const { clock, limits } = this.options;
    return new Budget(clock, limits, this.#machine.runtime, { runMs, sliceMs, stepsPerLook: this.#stepsPerLook });
  }
}

class EngineClass implements LuaClass {
  readonly name: string;
  readonly file: string;
  readonly version: string;
  readonly migrations: readonly string[];
  readonly directory: LuaClass["directory"];
  readonly methods: ReadonlyMap<string, MethodKind>;
  readonly hooks: LuaClass["hooks"];

  constructor(
    source: ClassSource,
    readonly loaded: LoadedClass,
    readonly machine: Machine,
    readonly budgets: { method(): Budget; row(): Budget },
  ) {
    this.name = source.name;
    this.file = source.file;
    this.version = loaded.version;
    this.migrations = loaded.migrations;
    this.directory = loaded.directory;
    this.methods = loaded.methods;
    this.hooks = {
      on_create: loaded.hooks.on_create !== undefined,
      on_wake: loaded.hooks.on_wake !== undefined,
    };
  }

  start(entry: LuaEntry, args: readonly PlainValue[], host: CallHost): LuaInvocation {
    return new Invocation(this.machine, {
      owner: this.name,
      subject: "object",
      id: host.object.id,
      object: host.object.id,
      entry: entry.kind === "row" ? ROW_ENTRY : entry.name,
      function: this.#functionOf(entry),
      self: this.loaded.selfOf(host.object),
      args,
      host,
      objectHost: host,
      methods: this.loaded.methods,
      budget: entry.kind === "row" ? this.budgets.row() : this.budgets.method(),
    });
  }

  #functionOf(entry: LuaEntry): TValue {
    const found =
      entry.kind === "row"
        ? this.loaded.row
        : entry.kind === "hook"
          ? this.loaded.hooks[entry.name]
          : this.loaded.functions.get(entry.name);
    if (found !== undefined) return found;
    const name = entry.kind === "row" ? "directory.row" : entry.name;
    const guess = entry.kind === "method" ? nearest(name, this.loaded.functions.keys()) : undefined;
    throw MoonportError.of("method_not_found", `${this.name} has no method ${name}`, {
      ...(guess !== undefined && { hint: `did you mean ${guess}?` }),
    });
  }
}

class EngineUnit implements LuaUnit {
  readonly name: string;
  readonly file: string;
  readonly version: string;
  readonly #id: string;
  readonly #entry: string;

  constructor(
    source: UnitSource,
    readonly loaded: LoadedUnit,
    readonly machine: Machine,
    readonly budget: () => Budget,
  ) {
    this.name = source.name;
    this.file = source.file;
    this.version = loaded.version;
    this.#id = `${source.app}/${source.name}`;
    this.#entry = `unit ${this.#id}`;
  }

  start(request: PlainObject, host: CodeHost): LuaInvocation {
    return new Invocation(this.machine, {
      owner: this.name,
      subject: "unit",
      id: this.#id,
      object: "",
      entry: this.#entry,
      function: this.loaded.function,
      args: [request],
      host,
      methods: NO_METHODS,
      budget: this.budget(),
    });
  }
}

const NO_METHODS: ReadonlyMap<string, unknown> = new Map();
