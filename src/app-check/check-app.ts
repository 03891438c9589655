/**
 * `moonport check`: everything that can be said of an app's files without serving anybody.
 *
 * All files are compiled and their tops run, as a node does; their text is linted; every class's migrations run on an empty
 * database, and the SQL that stands in its methods is prepared there; with a bucket, what the objects in it lack is tried on
 * copies of them.
 */
import type { AppSource } from "../app-source.js";
import type { BucketReader } from "../bucket/bucket.js";
import { asMoonportError, MoonportError } from "../errors.js";
import { checkUnitName } from "../identity.js";
import type { Finding, LintApp, LintFile } from "../lint/contract.js";
import { lintFile } from "../lint/lint.js";
import type { LuaClass, LuaModules, TestSource } from "../lua/contract.js";
import { createLuaEngine, type TestEngine } from "../lua/engine.js";
import { luaLimits } from "../lua/limits.js";
import type { Settings } from "../settings/settings.js";
import { silentLogger } from "../world/logger.js";
import type { World } from "../world/world.js";
import { checkDatabase } from "./class-database.js";
import { type DryRun, dryRun } from "./dry-run.js";

export interface AppCheck {
  readonly app: AppSource;
  readonly tests: readonly TestSource[];
  /** Classes that are host code of the program with the node inside. */
  readonly native: readonly string[];
  readonly settings: Settings;
  /** Its folder is empty and nobody else's. */
  readonly world: World;
  /** Started. */
  readonly bucket?: BucketReader;
  /** Objects of each class that are tried at most. */
  readonly objectsMax: number;
}

export interface AppReport {
  /** By file, in the order of its text. */
  readonly findings: readonly Finding[];
  readonly files: number;
  /** Absent without a bucket. */
  readonly objects?: DryRun["objects"];
}

export async function checkApp(check: AppCheck): Promise<AppReport> {
  const { app, tests, settings, world, bucket } = check;
  const engine = createLuaEngine({ clock: world.clock, limits: luaLimits(settings), engineLog: silentLogger });
  try {
    const loading = new Loading(check, engine);
    const found = [...loading.findings, ...lintAll(loading)];
    const sound = [...loading.classes.values()].filter((lua) => {
      const file = loading.files.find((one) => one.kind === "class" && one.name === lua.name);
      if (file === undefined) return false;
      const findings = checkDatabase(world, settings, lua, file, loading.lintApp);
      found.push(...findings);
      return findings.every(({ rule }) => rule !== "migration");
    });
    const tried = bucket && (await dryRun({ ...check, bucket, classes: sound }));
    const files = app.classes.length + (app.units?.length ?? 0) + (app.modules?.length ?? 0) + tests.length;
    const findings = inOrder([...found, ...(tried?.findings ?? [])]);
    return { findings, files: files + (app.unreadable?.length ?? 0), ...(tried && { objects: tried.objects }) };
  } finally {
    engine.close();
  }
}

/** Everything loaded as far as it goes. */
class Loading {
  readonly findings: Finding[] = [];
  readonly classes = new Map<string, LuaClass>();
  readonly files: readonly LintFile[];
  readonly lintApp: LintApp;

  constructor({ app, tests, native }: AppCheck, engine: TestEngine) {
    const { classes, units = [], modules: modulesOf = [], unreadable = [] } = app;
    for (const { file, error } of unreadable) this.#fault(file, error);
    const names = [...classes.map(({ name }) => name), ...native];
    const modules = engine.loadModules(modulesOf, names);
    for (const { source, error } of modules.faults) this.#fault(source.file, error);
    for (const source of classes) {
      this.#try(modules, source.file, () => {
        if (native.includes(source.name)) throw nativeTwice(source.file, source.name);
        this.classes.set(source.name, engine.loadClass(source, names, modules));
      });
    }
    for (const source of units) {
      this.#try(modules, source.file, () => {
        checkUnitName(source.name);
        engine.loadUnit(source, names, modules);
      });
    }
    for (const source of tests) this.#try(modules, source.file, () => engine.loadTests(source, names, modules));
    this.files = [
      ...classes.map((source) => ({ ...source, kind: "class" as const })),
      ...units,
      ...modulesOf,
      ...tests,
    ];
    const kinds = { class: engine.names("class"), unit: engine.names("unit") };
    this.lintApp = {
      names: { ...kinds, module: engine.names("module"), test: engine.names("test") },
      classes: new Map(names.map((name) => [name, this.classes.get(name)?.methods])),
    };
  }

  #try(modules: LuaModules, file: string, load: () => void): void {
    try {
      load();
    } catch (thrown) {
      const error = asMoonportError(thrown);
      // What only passes on that a module does not load is said there.
      if (modules.faults.some((fault) => error.message.includes(`: ${fault.error.message}`))) return;
      this.#fault(file, error);
    }
  }

  #fault(file: string, error: MoonportError): void {
    const { line } = error.details ?? {};
    const place = typeof line === "number" ? line : 1;
    const prefixes = [`${file}:${place}: `, `${file}: `];
    const prefix = prefixes.find((one) => error.message.startsWith(one)) ?? "";
    const hint = error.hint === undefined ? "" : ` (${error.hint})`;
    this.findings.push({ file, line: place, column: 1, message: error.message.slice(prefix.length) + hint });
  }
}

/** A file that does not compile is said to be so once, and what the linter says of a line goes before what its run said. */
function lintAll({ files, lintApp, findings }: Loading): Finding[] {
  const linted = files.flatMap((file) => lintFile(file, lintApp));
  const failedAt = new Set(findings.map(({ file, line }) => `${file}:${line}`));
  return linted.filter(({ file, line }) => !failedAt.has(`${file}:${line}`));
}

function inOrder(findings: readonly Finding[]): Finding[] {
  const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  return [...findings].sort((a, b) => compare(a.file, b.file) || a.line - b.line || a.column - b.column);
}

function nativeTwice(file: string, name: string): MoonportError {
  return MoonportError.of("class_invalid", `${file}: a native class is called ${name}`, { details: { file } });
}
