import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson } from "./cli.js";

async function newApp(): Promise<string> {
  const cwd = path.join(temporaryFolder(), "app");
  await cli({ cwd: path.dirname(cwd) }, "new", "app");
  return cwd;
}

describe("moonport test", () => {
  it("passes what `moonport new` writes, and leaves no data", async () => {
    const cwd = await newApp();
    expect(await cli({ cwd }, "test")).toMatchObject({ code: 0, stdout: "3 passed\n" });
    expect(fs.existsSync(path.join(cwd, ".moonport"))).toBe(false);
  });

  it("tells failures by file and line, and ends with 4", async () => {
    const cwd = await newApp();
    const text =
      'test("counts", function()\n  Counter("a"):increment()\n  expect(Counter("a"):value()):equals(2)\nend)\n';
    fs.writeFileSync(path.join(cwd, "tests", "counter.lua"), text);
    const { code, stdout, stderr } = await cli({ cwd }, "test", "--only", "counts");
    expect(stdout).toBe(`tests/counter.lua:3: the values differ
  in "counts" of tests/counter.lua
  expected  2
  got       1

0 passed, 1 failed
`);
    expect([code, stderr]).toEqual([4, "FAILED  tests/counter.lua  counts\n"]);
    const { document } = await cliJson({ cwd }, "test", "tests/counter.lua");
    expect(document).toMatchObject({
      passed: 0,
      failed: 1,
      tests: [{ file: "tests/counter.lua", outcome: "failed", failure: { at: "tests/counter.lua:3", expected: "2" } }],
    });
    const inFolder = await cli({ cwd: path.join(cwd, "tests") }, "test", "auction.lua", "--dir", "..");
    expect(inFolder).toMatchObject({ code: 0, stdout: "3 passed\n" });
  });

  it("says when there is nothing to run, or the app does not load", async () => {
    const cwd = await newApp();
    expect(await cli({ cwd }, "test", "tests/none.lua")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no tests/none.lua"),
    });
    expect(await cli({ cwd }, "test", "--only", "moon")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no test has "moon" in its name'),
    });
    fs.writeFileSync(path.join(cwd, "classes", "Bad.lua"), "oops");
    expect(await cli({ cwd }, "test")).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("classes/Bad.lua:1:"),
    });
    fs.rmSync(path.join(cwd, "tests"), { recursive: true });
    expect(await cli({ cwd }, "test")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there are no tests"),
    });
  });
});
