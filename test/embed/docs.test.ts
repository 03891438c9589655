/** What docs/embedding.md shows is compiled and run, in order; what it says is printed, is. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { FLEET_RULES, LISTEN_RULES, MOONPORT_RULES } from "../../src/embed/options.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const run = promisify(execFile);
const page = fs.readFileSync(path.join(packageRoot, "docs", "embedding.md"), "utf8");
const script = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block).join("\n");

it("the page's examples compile and print what they say", async () => {
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "node_modules"));
  fs.symlinkSync(packageRoot, path.join(folder, "node_modules", "moonport"));
  fs.cpSync(path.join(packageRoot, "classes"), path.join(folder, "my-app", "classes"), { recursive: true });
  fs.writeFileSync(path.join(folder, "package.json"), '{"type":"module"}');
  fs.writeFileSync(path.join(folder, "page.ts"), script);
  const flags = ["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--lib", "es2023"];
  const types = ["--typeRoots", path.join(packageRoot, "node_modules", "@types"), "--types", "node"];
  const tsc = path.join(packageRoot, "node_modules", "typescript", "bin", "tsc");
  const compiling = run(process.execPath, [tsc, ...flags, ...types, "page.ts"], { cwd: folder });
  await compiling.catch(({ stdout }: { stdout: string }) => expect.fail(stdout));
  const { stdout, stderr } = await run(process.execPath, ["page.js"], { cwd: folder });
  const said = [...script.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, text]) => text);
  expect(said.length).toBeGreaterThan(5);
  expect(stdout.trimEnd().split("\n")).toEqual(said);
  expect(stderr).toBe("");
});

it("the page lists every option", () => {
  const listed = (head: string): string[] => {
    const table = page.slice(page.indexOf(head)).split("\n\n")[0] ?? "";
    return [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name as string);
  };
  expect(listed("| option of `Moonport.open`").sort()).toEqual(Object.keys(MOONPORT_RULES).sort());
  expect(listed("| option of `listen`").sort()).toEqual(Object.keys(LISTEN_RULES).sort());
  expect(listed("| option of `fleet`").sort()).toEqual(Object.keys(FLEET_RULES).sort());
});
