/**
 * What is wrong with a Lua file of an app and can be seen without running it.
 *
 * Promises to say nothing of code that works: each check reports what fails whenever it is reached, or what nobody means.
 * Where it cannot be seen what a name stands for, nothing is said.
 */
import { checkCalls } from "./calls.js";
import type { Checked } from "./checked.js";
import { ClassUse } from "./class-use.js";
import type { Finding, LintApp, LintFile } from "./contract.js";
import { checkGlobals } from "./globals.js";
import { checkLibraries } from "./libraries.js";
import { resolveNames } from "./scopes.js";
import { checkSelf } from "./self.js";
import { parseLua } from "./syntax.js";

/** In the order of the text. */
export function lintFile(file: LintFile, app: LintApp): Finding[] {
  const parsed = parseLua(file.text);
  if (parsed.kind === "failed") return [{ file: file.file, ...parsed.place, message: parsed.message }];
  const { chunk, placeOf } = parsed;
  const findings: Finding[] = [];
  const scopes = resolveNames(chunk);
  const checked: Checked = {
    file,
    app,
    names: app.names[file.kind],
    chunk,
    scopes,
    classUse: new ClassUse(file, app, chunk, scopes),
    report: (node, message) => void findings.push({ file: file.file, ...placeOf(node), message }),
  };
  for (const check of [checkGlobals, checkLibraries, checkSelf, checkCalls]) check(checked);
  return findings.sort((a, b) => a.line - b.line || a.column - b.column);
}
