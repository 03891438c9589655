/** What docs/client.md shows is compiled and run, in order, against a node; what it says is printed, is. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { clientOptions } from "../../src/client/options.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { LiveNode } from "./support/live-node.js";

const run = promisify(execFile);
const page = fs.readFileSync(path.join(packageRoot, "docs", "client.md"), "utf8");
const script = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block).join("\n");

it("the page's examples compile and print what they say", async () => {
  const auction = fs.readFileSync(path.join(packageRoot, "classes", "Auction.lua"), "utf8");
  const node = await LiveNode.start({}, { Auction: auction });
  const folder = temporaryFolder();
  fs.mkdirSync(path.join(folder, "node_modules"));
  fs.symlinkSync(packageRoot, path.join(folder, "node_modules", "moonport"));
  fs.writeFileSync(path.join(folder, "package.json"), '{"type":"module"}');
  fs.writeFileSync(path.join(folder, "page.ts"), script.replace("ws://127.0.0.1:7070", node.url));
  const flags = ["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"];
  const types = ["--typeRoots", path.join(packageRoot, "node_modules", "@types"), "--types", "node"];
  const tsc = path.join(packageRoot, "node_modules", "typescript", "bin", "tsc");
  const compiling = run(process.execPath, [tsc, ...flags, ...types, "page.ts"], { cwd: folder });
  await compiling.catch(({ stdout }: { stdout: string }) => expect.fail(stdout));
  const { stdout } = await run(process.execPath, ["page.js"], { cwd: folder });
  const said = [...script.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, text]) => text);
  expect(said.length).toBeGreaterThan(5);
  expect(stdout.trimEnd().split("\n")).toEqual(said);
});

it("the page lists every option of connect with its default", () => {
  const table = page.slice(page.indexOf("| option of `connect`"));
  const rows = [...table.matchAll(/^\| `(\w+)` \|([^|]*)\|[^|]*\|$/gm)];
  const shown = Object.fromEntries(rows.map(([, name, text]) => [name, text?.trim()]));
  const defaults = Object.entries(clientOptions({})).map(([name, value]) => {
    if (typeof value === "string") return [name, `\`"${value}"\``];
    return [name, value === Number.POSITIVE_INFINITY ? "no end" : value?.toLocaleString("en-US")];
  });
  expect(shown).toEqual({ token: "", ...Object.fromEntries(defaults) });
});
