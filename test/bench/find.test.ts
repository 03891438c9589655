import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { findRedis, findWorkerd } from "../../bench/peers/find.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const PROGRAM = "\u007fELF";
const SCRIPT = "#!/usr/bin/env node\n";

function put(file: string, content: string): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, content);
  chmodSync(file, 0o755);
  return file;
}

/** As the package is laid out: a script to start it, and a module that names the program. */
function putPackage(folder: string): { readonly script: string; readonly program: string } {
  const home = path.join(folder, "node_modules/workerd");
  const program = put(path.join(folder, "program"), PROGRAM);
  put(path.join(home, "package.json"), JSON.stringify({ name: "workerd", main: "main.js" }));
  put(path.join(home, "main.js"), `module.exports = { default: ${JSON.stringify(program)} };`);
  return { script: put(path.join(home, "bin/workerd"), SCRIPT), program };
}

it("a product that is nowhere is missing, with a word on how to get it", () => {
  const nowhere = temporaryFolder();
  expect(findWorkerd({ PATH: nowhere }, nowhere)).toMatchObject({ kind: "missing", hint: /WORKERD=/ });
  expect(findRedis({ PATH: nowhere })).toMatchObject({ kind: "missing", hint: /REDIS_SERVER/ });
  expect(findRedis({ REDIS_SERVER: path.join(nowhere, "gone"), PATH: "" })).toMatchObject({ kind: "missing" });
});

it("a program is found in the PATH, and a variable goes before it", () => {
  const folder = temporaryFolder();
  const onPath = put(path.join(folder, "bin/workerd"), PROGRAM);
  const named = put(path.join(folder, "mine"), PROGRAM);
  const PATH = path.dirname(onPath);
  expect(findWorkerd({ PATH }, folder)).toEqual({ kind: "found", binary: onPath });
  expect(findWorkerd({ PATH, WORKERD: named }, folder)).toEqual({ kind: "found", binary: named });
});

it("the package leads to its program, from the working directory and from the script in front of it", () => {
  const folder = temporaryFolder();
  const elsewhere = temporaryFolder();
  const { script, program } = putPackage(folder);
  expect(findWorkerd({ PATH: "" }, folder)).toEqual({ kind: "found", binary: program });
  expect(findWorkerd({ PATH: "", WORKERD: script }, elsewhere)).toEqual({ kind: "found", binary: program });
  expect(findWorkerd({ PATH: path.dirname(script) }, elsewhere)).toEqual({ kind: "found", binary: program });
});

it("a script that leads to no package is not taken for the program", () => {
  const folder = temporaryFolder();
  const script = put(path.join(folder, "bin/workerd"), SCRIPT);
  expect(findWorkerd({ PATH: path.dirname(script) }, folder)).toMatchObject({ kind: "missing" });
});
