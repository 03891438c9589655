/** The classes a node serves, by app. A reload replaces a class between calls; objects look theirs up at each burst. */
import type { AppSource } from "../app-source.js";
import { asMoonportError, MoonportError } from "../errors.js";
import type { LuaClass, LuaEngine, MethodKind } from "../lua/contract.js";
import { nearest } from "../nearest.js";
import type { ClassInfo } from "../node-api.js";
import type { Observer } from "../observation.js";

export interface ClassFault {
  readonly app: string;
  readonly name: string;
  readonly file: string;
  readonly error: MoonportError;
}

interface App {
  readonly classes: Map<string, LuaClass>;
  readonly faults: Map<string, ClassFault>;
}

export class Catalog {
  readonly #engine: LuaEngine;
  readonly #observe: Observer;
  readonly #apps = new Map<string, App>();

  constructor(engine: LuaEngine, observe: Observer) {
    this.#engine = engine;
    this.#observe = observe;
  }

  /**
   * Makes the apps' classes the ones that serve. A class that does not load keeps its last good version, if it had one.
   * @returns the classes that did not load
   */
  load(sources: readonly AppSource[]): ClassFault[] {
    for (const source of sources) this.#loadApp(source);
    return this.faults();
  }

  faults(): ClassFault[] {
    return [...this.#apps.values()].flatMap((app) => [...app.faults.values()]);
  }

  /** @throws MoonportError `app_not_found`, `class_not_found`, or the class's own `class_invalid` */
  classOf(app: string, className: string): LuaClass {
    const found = this.#apps.get(app);
    if (found === undefined) throw notFound("app_not_found", "app", app, this.#apps.keys());
    const lua = found.classes.get(className);
    if (lua !== undefined) return lua;
    const fault = found.faults.get(className);
    if (fault !== undefined) throw fault.error;
    throw notFound("class_not_found", "class", className, found.classes.keys());
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

  #loadApp(source: AppSource): void {
    const before = this.#apps.get(source.app);
    const app: App = { classes: new Map(), faults: new Map() };
    const { unreadable = [] } = source;
    const names = [...source.classes, ...unreadable].map((one) => one.name);
    for (const { name, file, error } of unreadable) this.#keepLast(app, before, { app: source.app, name, file, error });
    for (const one of source.classes) {
      const last = before?.classes.get(one.name);
      try {
        const lua = this.#engine.loadClass(one, names);
        app.classes.set(one.name, lua);
        if (last?.version === lua.version) continue;
        this.#observe({ kind: "class_loaded", app: source.app, name: one.name, file: one.file, version: lua.version });
      } catch (thrown) {
        this.#keepLast(app, before, {
          app: source.app,
          name: one.name,
          file: one.file,
          error: asMoonportError(thrown),
        });
      }
    }
    for (const name of before?.classes.keys() ?? []) {
      if (!app.classes.has(name)) this.#observe({ kind: "class_removed", app: source.app, name });
    }
    this.#apps.set(source.app, app);
  }

  /** A class that does not load: its last good version, if there was one, goes on serving. */
  #keepLast(app: App, before: App | undefined, fault: ClassFault): void {
    app.faults.set(fault.name, fault);
    const last = before?.classes.get(fault.name);
    if (last !== undefined) app.classes.set(fault.name, last);
    const line = fault.error.details?.line;
    this.#observe({
      kind: "class_failed",
      app: fault.app,
      file: fault.file,
      message: fault.error.message,
      ...(typeof line === "number" && { line }),
    });
  }
}

function infoOf(app: string, lua: LuaClass): ClassInfo {
  const methods = [...lua.methods].filter(([name]) => !name.startsWith("_"));
  return { app, name: lua.name, version: lua.version, methods: methods.map(([name, kind]) => ({ name, kind })) };
}

function notFound(
  code: "app_not_found" | "class_not_found" | "method_not_found",
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
