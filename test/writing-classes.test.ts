/**
 * docs/writing-classes.md says what is true: its files are an app that has no findings and whose every method is called by
 * test/fixtures/writing-classes, its table of differences is evaluated, and nothing there is stays unsaid. Its commands are run
 * by test/docs-commands.test.ts.
 */
import fs from "node:fs";
import { describe, expect, it } from "vitest";
import { checkApp } from "../src/app-check/check-app.js";
import { runTests } from "../src/app-tests/run-tests.js";
import type { NameTree, TestSource } from "../src/lua/contract.js";
import { TEST_GLOBALS } from "../src/lua/test-loader.js";
import { resolveSettings } from "../src/settings/settings.js";
import { silentLogger } from "../src/world/logger.js";
import { realWorld } from "../src/world/real-world.js";
import { evaluate, makeEngine } from "./lua/support/fake-host.js";
import { temporaryFolder } from "./support/temporary-folder.js";
import { appOf } from "./support/virtual-node.js";

const page = fs.readFileSync("docs/writing-classes.md", "utf8");
const blocks = [...page.matchAll(/^```lua(?: ([a-z]+)\/([\w/]+)\.lua)?\n(.*?)^```$/gms)];
const filesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(blocks.flatMap(([, under, name, text]) => (under === folder ? [[`${name}`, `${text}`]] : [])));
const app = appOf(filesIn("classes"), {}, filesIn("lib"));
const own = fs.readFileSync("test/fixtures/writing-classes/page.lua", "utf8");
const tests = Object.entries({ ...filesIn("tests"), page: own }).map(([name, text]): TestSource => {
  return { kind: "test", app: "default", name, file: `tests/${name}.lua`, text };
});
const settings = resolveSettings({});

describe("the page's snippets", () => {
  it("are all files of an app, in which nothing is to be found", async () => {
    expect(blocks.length).toBe(page.match(/^```lua/gm)?.length);
    expect(blocks.filter(([, folder]) => folder === undefined)).toEqual([]);
    const world = realWorld(temporaryFolder(), silentLogger);
    const { findings } = await checkApp({ app, tests, native: [], settings, world, objectsMax: 0 });
    expect(findings).toEqual([]);
  });

  it("do what the page says", async () => {
    const scratch = temporaryFolder();
    const world = realWorld(scratch, silentLogger);
    const results = await runTests({ app, files: tests, settings, scratch, world, report: () => {} });
    expect(results.filter(({ failure }) => failure !== undefined)).toEqual([]);
    expect(results.length).toBeGreaterThan(10);
  });

  it("have no method that nobody calls", () => {
    const defined = app.classes.flatMap(({ text }) => [...text.matchAll(/^function \w+(?:\.read)?:(\w+)/gm)]);
    const names = defined.map(([, name]) => `${name}`).filter((name) => !name.startsWith("on_"));
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => !own.includes(`:${name}(`) && !own.includes(`:${name} `))).toEqual([]);
  });
});

const rows = [...page.matchAll(/^\| `(.+)` \| (.+) \| (.+) \| .*\|$/gm)].map(
  (row) => row.slice(1) as [string, string, string],
);

describe("the table of differences", () => {
  it("is there", () => {
    expect(rows.length).toBeGreaterThan(10);
  });

  it.each(rows)("%s", (code, _there, here) => {
    const run = (): unknown => evaluate(`return ${code.replaceAll("\\|", "|")}`);
    const value = /^`(.*)`$/.exec(here)?.[1];
    if (here === "refused") expect(run).toThrow();
    else if (here === "does nothing") expect(run()).toBeNull();
    else expect(run()).toEqual(value === "nil" ? null : JSON.parse(`${value}`));
  });
});

it("every global of Moonport's is on the page", () => {
  const named = (tree: NameTree, before = ""): string[] =>
    [...tree].flatMap(([name, fields]) => (fields ? named(fields, `${before}${name}.`) : [`${before}${name}`]));
  const lua = new Set("string table math utf8 coroutine".split(" "));
  const base =
    "assert error getmetatable ipairs next pairs pcall rawequal rawget rawlen rawset select setmetatable tonumber tostring type xpcall".split(
      " ",
    );
  const all = named(makeEngine().names("class").known).filter(
    (name) => !lua.has(`${name.split(".")[0]}`) && !base.includes(name),
  );
  const missing = [...all, ...TEST_GLOBALS].filter((name) => {
    const short = name.slice(name.lastIndexOf(".") + 1);
    return !page.includes(name) && !page.includes(`\`.${short}(`) && !page.includes(`\`${short}(`);
  });
  expect(missing).toEqual([]);
});
