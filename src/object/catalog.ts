/**
 * The classes and units a node serves, by app, and the modules they are made with. A reload replaces a class between calls, a
 * unit between requests; objects look their class up at each burst.
 */
import type { AppSource } from "../app-source.js";
import { asMoonportError, assert, MoonportError } from "../errors.js";
import { checkUnitName, SYSTEM_APP } from "../identity.js";
import type {
  ClassSource,
  LoadedModule,
  LuaClass,
  LuaEngine,
  LuaModules,
  LuaUnit,
  MethodKind,
  UnitSource,
} from "../lua/contract.js";
import { nearest } from "../nearest.js";
import type { ClassInfo, UnitInfo } from "../node-api.js";
import type { Observer } from "../observation.js";
import type { Release } from "../release/contract.js";

/** A file that does not load. */
export interface FileFault {
  readonly kind: "class" | "unit" | "module";
  readonly app: string;
  readonly name: string;
  readonly file: string;
  readonly error: MoonportError;
}

interface App {
  readonly classes: Map<string, LuaClass>;
  readonly units: Map<string, LuaUnit>;
  /** Those that load. A class or unit that kept its last good version kept the modules of that time, too. */
  readonly modules: Map<string, LoadedModule>;
  /** By file. */
  readonly faults: Map<string, FileFault>;
  readonly release: ServedRelease | undefined;
}

/** What is to be known here of a release that serves. */
export type ServedRelease = Pick<Release, "number" | "acceptsMigrated">;

/** An app's files, compiled and not serving. */
export interface PreparedApp {
  readonly name: string;
  readonly faults: readonly FileFault[];
  readonly classes: readonly LuaClass[];
  /** For the catalog that prepared it. */
  readonly app: App;
}

export class Catalog {
  readonly #engine: LuaEngine;
  readonly #observe: Observer;
  readonly #native: ReadonlySet<string>;
  readonly #apps = new Map<string, App>();
  #generation = 0;
  readonly #system: ReadonlyMap<string, LuaClass>;

  /** @param native names of classes that are host code: Lua code may refer to them, and no class may be called so */
  constructor(engine: LuaEngine, observe: Observer, native: Iterable<string> = [], system: readonly LuaClass[] = []) {
    this.#engine = engine;
    this.#observe = observe;
    this.#native = new Set(native);
    this.#system = new Map(system.map((one) => [one.name, one]));
  }

  /**
   * Makes the apps' files the ones that serve. One that does not load keeps its last good version, if it had one.
   * @returns those that did not load
   */
  load(sources: readonly AppSource[]): FileFault[] {
    for (const source of sources) {
      const before = this.#apps.get(source.app);
      this.#put(source.app, { ...this.#compile(source, before), release: before?.release });
    }
    return this.faults();
  }

  /** Compiles an app's files without serving them. One that does not load is a fault; nothing takes its place. */
  prepare(source: AppSource): PreparedApp {
    const app = this.#compile(source, undefined);
    return { name: source.app, faults: [...app.faults.values()], classes: [...app.classes.values()], app };
  }

  /** Makes what was prepared, without a fault, the release that serves: all of it in one step. */
  serve({ name, app }: PreparedApp, release: ServedRelease): void {
    assert(app.faults.size === 0, "a release serves whole");
    this.#put(name, { ...app, release });
  }

  /** The same files serve as another release. */
  renumber(name: string, release: ServedRelease): void {
    const app = this.#apps.get(name);
    if (app !== undefined) this.#apps.set(name, { ...app, release });
  }

  /** The release that serves; undefined for an app that is served from a folder's files. */
  releaseOf(name: string): ServedRelease | undefined {
    return this.#apps.get(name)?.release;
  }

  get apps(): readonly string[] {
    return [...this.#apps.keys()];
  }

  /** Another one after each change of what serves. */
  get generation(): number {
    return this.#generation;
  }

  faults(): FileFault[] {
    return [...this.#apps.values()].flatMap((app) => [...app.faults.values()]);
  }

  /** Before anything is served. @throws MoonportError `class_invalid` whose details list every file that did not load */
  refuseFaults(): void {
    const faults = this.faults();
    if (faults.length === 0) return;
    throw MoonportError.of("class_invalid", faults.map(({ error }) => error.message).join("\n"), {
      hint: "moonport dev keeps serving the classes that do load",
      details: {
        files: faults.map(({ file, error }) => ({ file, message: error.message, line: error.details?.line })),
      },
    });
  }

  systemClass(className: string): LuaClass | undefined {
    return this.#system.get(className);
  }

  /**
   * Of Moonport's own app too: for what the node itself does, and its operators.
   * @throws MoonportError `app_not_found`, `class_not_found`, or the class's own `class_invalid`
   */
  classOf(app: string, className: string): LuaClass {
    if (app === SYSTEM_APP) {
      const system = this.#system.get(className);
      if (system !== undefined) return system;
    }
    const found = this.#appOf(app);
    const lua = found.classes.get(className);
    if (lua !== undefined) return lua;
    throwFault(found, "class", className);
    throw notFound("class_not_found", "class", className, found.classes.keys());
  }

  /**
   * For whoever comes from outside: there, Moonport's own app is none.
   * @throws MoonportError as {@link classOf}
   */
  usersClassOf(app: string, className: string): LuaClass {
    if (app === SYSTEM_APP) throw noSuchApp(app);
    return this.classOf(app, className);
  }

  /** @throws MoonportError `app_not_found`, `unit_not_found`, or the unit's own `unit_invalid` */
  unitOf(app: string, name: string): LuaUnit {
    const found = this.#appOf(app);
    const unit = found.units.get(name);
    if (unit !== undefined) return unit;
    throwFault(found, "unit", name);
    throw notFound("unit_not_found", "unit", name, found.units.keys());
  }

  isNative(className: string): boolean {
    return this.#native.has(className);
  }

  /** @throws MoonportError `method_not_found`; private methods are not found from outside */
  methodOf(lua: LuaClass, method: string): MethodKind {
    const kind = lua.methods.get(method);
    if (kind !== undefined && !method.startsWith("_")) return kind;
    const isPublic = (name: string): boolean => !name.startsWith("_");
    throw notFound("method_not_found", `method of ${lua.name}`, method, [...lua.methods.keys()].filter(isPublic));
  }

  list(): ClassInfo[] {
    return [...this.#apps].flatMap(([app, { classes }]) => [...classes.values()].map((lua) => infoOf(app, lua)));
  }

  listUnits(): UnitInfo[] {
    return [...this.#apps].flatMap(([app, { units }]) =>
      [...units.values()].map(({ name, version }) => ({ app, name, version })),
    );
  }

  #appOf(app: string): App {
    const found = this.#apps.get(app);
    if (found === undefined) throw notFound("app_not_found", "app", app, this.#apps.keys());
    return found;
  }

  #compile(source: AppSource, before: App | undefined): App {
    const app: App = {
      classes: new Map(),
      units: new Map(),
      modules: new Map(),
      faults: new Map(),
      release: undefined,
    };
    const { unreadable = [], units = [] } = source;
    const unreadableClasses = unreadable.filter(({ kind }) => kind === "class");
    const names = [...source.classes, ...unreadableClasses].map(({ name }) => name).concat(...this.#native);
    for (const { kind, name, file, error } of unreadable) {
      keepLast(app, before, { kind, app: source.app, name, file, error });
    }
    const modules = this.#loadModules(app, before, source, names);
    for (const one of source.classes) {
      loadFile(app, before, "class", one, () => this.#loadClass(one, names, modules));
    }
    for (const one of units) loadFile(app, before, "unit", one, () => this.#loadUnit(one, names, modules));
    return app;
  }

  #loadModules(app: App, before: App | undefined, source: AppSource, names: readonly string[]): LuaModules {
    const modules = this.#engine.loadModules(source.modules ?? [], names);
    for (const { source: one, error } of modules.faults) {
      const { name, file } = one;
      keepLast(app, before, { kind: "module", app: source.app, name, file, error });
    }
    for (const one of modules.loaded) app.modules.set(one.name, one);
    return modules;
  }

  /** From now on these serve, and whoever watches hears what is different. */
  #put(name: string, app: App): void {
    const before = this.#apps.get(name);
    this.#apps.set(name, app);
    this.#generation++;
    for (const { kind, file, error } of app.faults.values()) {
      const line = error.details?.line;
      const place = { file, message: error.message, ...(typeof line === "number" && { line }) };
      this.#observe({ kind: `${kind}_failed`, app: name, ...place });
    }
    for (const kind of ["module", "class", "unit"] as const) {
      const served = before === undefined ? undefined : filesOf(before, kind);
      for (const { name: one, file, version } of filesOf(app, kind).values()) {
        // One that is mended to what went on serving is news to whoever was told that it is broken.
        const isMended = before?.faults.has(file) === true && !app.faults.has(file);
        if (served?.get(one)?.version === version && !isMended) continue;
        this.#observe({ kind: `${kind}_loaded`, app: name, name: one, file, version });
      }
      for (const one of served?.keys() ?? []) {
        if (!filesOf(app, kind).has(one)) this.#observe({ kind: `${kind}_removed`, app: name, name: one });
      }
    }
  }

  #loadClass(source: ClassSource, names: readonly string[], modules: LuaModules): LuaClass {
    if (!this.#native.has(source.name)) return this.#engine.loadClass(source, names, modules);
    const { file } = source;
    throw MoonportError.of("class_invalid", `${file}: a native class is called ${source.name}`, { details: { file } });
  }

  #loadUnit(source: UnitSource, names: readonly string[], modules: LuaModules): LuaUnit {
    checkUnitName(source.name);
    return this.#engine.loadUnit(source, names, modules);
  }
}

export function noSuchApp(app: string): MoonportError {
  return MoonportError.of("app_not_found", `no app is called ${app}`, {
    hint: "objects of Moonport's own take no calls",
  });
}

function loadFile(
  app: App,
  before: App | undefined,
  kind: "class" | "unit",
  { app: of, name, file }: ClassSource | UnitSource,
  load: () => LuaClass | LuaUnit,
): void {
  try {
    filesOf(app, kind).set(name, load());
  } catch (thrown) {
    keepLast(app, before, { kind, app: of, name, file, error: asMoonportError(thrown) });
  }
}

/** A file that does not load: its last good version, if there was one, goes on serving. */
function keepLast(app: App, before: App | undefined, fault: FileFault): void {
  const { kind, name, file } = fault;
  app.faults.set(file, fault);
  const last = before === undefined ? undefined : filesOf(before, kind).get(name);
  if (last !== undefined) filesOf(app, kind).set(name, last);
}

/** What serves of one kind. Each is put among its own kind only: {@link Catalog.load} alone does it. */
function filesOf(app: App, kind: FileFault["kind"]): Map<string, LuaClass | LuaUnit | LoadedModule> {
  const files = { class: app.classes, unit: app.units, module: app.modules };
  return files[kind] as Map<string, LuaClass | LuaUnit | LoadedModule>;
}

function throwFault(app: App, kind: FileFault["kind"], name: string): void {
  for (const fault of app.faults.values()) if (fault.kind === kind && fault.name === name) throw fault.error;
}

function infoOf(app: string, lua: LuaClass): ClassInfo {
  const methods = [...lua.methods].filter(([name]) => !name.startsWith("_"));
  return { app, name: lua.name, version: lua.version, methods: methods.map(([name, kind]) => ({ name, kind })) };
}

function notFound(
  code: "app_not_found" | "class_not_found" | "unit_not_found" | "method_not_found",
  what: string,
  name: string,
  candidates: Iterable<string>,
): MoonportError {
  const names = [...candidates];
  const guess = nearest(name, names);
  const hint = guess === undefined ? listed(names) : `did you mean ${guess}?`;
  return MoonportError.of(code, `no ${what} is called "${name}"`, hint === undefined ? {} : { hint });
}

function listed(names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined;
  const shown = names.slice(0, 10).join(", ");
  return names.length > 10 ? `there are ${shown} and ${names.length - 10} more` : `there are ${shown}`;
}
