/**
 * Loads fengari, pinned and mended: each of its files is compiled with the edits of edits.ts applied, or nothing is.
 *
 * An edit whose text does not stand in its file exactly once stops the start with the edit's name: silently running
 * without one of them would take a bound away. The io, os, debug and package libraries are never even loaded.
 */
// biome-ignore lint/style/noRestrictedImports: reads its own dependency's source, as require would; no data of the node
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { compileFunction } from "node:vm";
import { MoonportError } from "../../errors.js";
import { EDITS, type SourceEdit } from "./edits.js";
import { meter } from "./meter.js";
import { printf } from "./printf.js";
import type { Fengari } from "./types.js";

export const FENGARI_VERSION = "0.1.5";

/** Slots of one coroutine's stack; deep recursion is stopped by CALL_DEPTH_MAX long before. */
const STACK_SLOTS_MAX = 200_000;
/** Bytes of a source name in messages: a class name of 63 letters and its folder fit. */
const SOURCE_NAME_BYTES = 160;

const CONFIGURATION = JSON.stringify({
  LUAI_MAXSTACK: STACK_SLOTS_MAX,
  LUA_IDSIZE: SOURCE_NAME_BYTES,
  LUA_COMPAT_FLOATSTRING: true,
});

type ModuleExports = Record<string, unknown>;

let loaded: Fengari | undefined;

/** The same mended fengari for every engine of the process. @throws MoonportError `internal` naming the edit */
export function loadFengari(): Fengari {
  loaded ??= loadWith(EDITS);
  return loaded;
}

/** A fengari of its own with just these edits: for the tests that show what each edit is for. */
export function loadWith(edits: readonly SourceEdit[]): Fengari {
  const files = new FengariFiles(edits);
  const libraries = ["lbaselib", "lstrlib", "ltablib", "lmathlib", "lutf8lib"] as const;
  const [base, string, table, math, utf8] = libraries.map((file) => {
    const opened = Object.entries(files.require(`${file}.js`)).find(([name]) => name.startsWith("luaopen_"));
    return opened?.[1];
  });
  const fengari = {
    lua: files.require("lua.js"),
    lauxlib: files.require("lauxlib.js"),
    ldo: files.require("ldo.js"),
    ldebug: files.require("ldebug.js"),
    lobject: files.require("lobject.js"),
    lstring: files.require("lstring.js"),
    ltable: files.require("ltable.js"),
    libraries: { base, string, table, math, utf8 },
    opcodes: files.require("lopcodes.js").OpCodesI,
  };
  files.assertAllApplied();
  return fengari as unknown as Fengari;
}

class FengariFiles {
  readonly #folder: string;
  readonly #require: NodeJS.Require;
  readonly #modules = new Map<string, ModuleExports>();
  readonly #applied = new Set<string>();

  constructor(readonly edits: readonly SourceEdit[]) {
    const here = createRequire(import.meta.url);
    const packageFile = here.resolve("fengari/package.json");
    const { version } = here("fengari/package.json") as { version: string };
    if (version !== FENGARI_VERSION) {
      throw MoonportError.of("internal", `the Lua engine needs fengari ${FENGARI_VERSION}, not ${version}`);
    }
    this.#folder = path.join(path.dirname(packageFile), "src");
    this.#require = createRequire(packageFile);
    // Only an assertion is used of it, and loading it would load io, os, debug and package.
    this.#modules.set("lualib.js", { lua_assert: this.require("llimits.js").lua_assert });
    // Of our own, by an edit.
    this.#modules.set("printf.js", { sprintf: printf });
  }

  require(file: string): ModuleExports {
    const known = this.#modules.get(file);
    if (known) return known;
    const module = { exports: {} as ModuleExports };
    this.#modules.set(file, module.exports);
    const filename = path.join(this.#folder, file);
    const text = this.#edited(file, readFileSync(filename, "utf8"));
    const run = compileFunction(text, ["module", "exports", "require", "process", "meter"], { filename });
    run(module, module.exports, (name: string) => this.#resolve(name), processForFengari, meter);
    if (module.exports !== this.#modules.get(file)) this.#modules.set(file, module.exports);
    return module.exports;
  }

  assertAllApplied(): void {
    const missed = this.edits.find((edit) => !this.#applied.has(edit.name));
    if (missed) throw editFailed(missed, "its file was never loaded");
  }

  #resolve(name: string): unknown {
    return name.startsWith("./") ? this.require(name.slice(2)) : this.#require(name);
  }

  #edited(file: string, source: string): string {
    let text = source;
    for (const edit of this.edits) {
      if (edit.file !== file) continue;
      const pieces = text.split(edit.find);
      if (pieces.length !== 2) throw editFailed(edit, `its text stands there ${pieces.length - 1} times`);
      text = pieces.join(edit.replace);
      this.#applied.add(edit.name);
    }
    return text;
  }
}

/** fengari reads its configuration from the environment; it gets an environment of its own. */
const processForFengari = { env: { FENGARICONF: CONFIGURATION }, platform: process.platform };

function editFailed(edit: SourceEdit, reason: string): MoonportError {
  return MoonportError.of("internal", `the edit "${edit.name}" does not apply to fengari's ${edit.file}: ${reason}`, {
    hint: `install exactly fengari ${FENGARI_VERSION}`,
  });
}
