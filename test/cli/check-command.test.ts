import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson, RunningCli } from "./cli.js";

async function newApp(): Promise<string> {
  const cwd = path.join(temporaryFolder(), "app");
  await cli({ cwd: path.dirname(cwd) }, "new", "app");
  return cwd;
}

function edit(cwd: string, file: string, from: string | RegExp, to: string): void {
  const name = path.join(cwd, file);
  const before = fs.readFileSync(name, "utf8");
  fs.writeFileSync(name, before.replace(from, to));
}

const TABLE = 'local Counter = class "Counter"\nCounter.migrations = { [[CREATE TABLE t (a)]] }';

describe("moonport check", () => {
  it("finds nothing in what `moonport new` writes, and makes no data folder", async () => {
    const cwd = await newApp();
    expect(await cli({ cwd }, "check")).toEqual({ code: 0, stdout: "3 files, no findings\n", stderr: "" });
    expect(fs.existsSync(path.join(cwd, ".moonport"))).toBe(false);
  });

  it("says that there is no room for its own files, and not that Moonport is at fault", async () => {
    const cwd = await newApp();
    const nowhere = { cwd, env: { TMPDIR: path.join(cwd, "nowhere") } };
    for (const command of ["check", "test", "verify"]) {
      const { code, document } = await cliJson(nowhere, command);
      expect([code, document.error]).toMatchObject([7, { code: "storage_failed" }]);
    }
  });

  it("tells each finding with file, line and column, and ends with 4", async () => {
    const cwd = await newApp();
    edit(cwd, "classes/Counter.lua", "state.store.set", "state.stor.set");
    const { code, stdout } = await cli({ cwd }, "check");
    expect([code, stdout]).toEqual([
      4,
      "classes/Counter.lua:16:9: state has no 'stor'; did you mean 'store'?\n3 files, 1 finding\n",
    ]);
    const { document } = await cliJson({ cwd }, "check");
    expect(document).toEqual({
      files: 3,
      findings: [
        { file: "classes/Counter.lua", line: 16, column: 9, message: "state has no 'stor'; did you mean 'store'?" },
      ],
    });
    expect(await cli({ cwd }, "check", "--objects", "some")).toMatchObject({ code: 2 });
    const system = await cli({ cwd }, "check", "--app", "system");
    expect(system).toMatchObject({ code: 2, stderr: expect.stringContaining("Moonport's own objects") });
  });

  it("tries migrations on copies of the data folder's objects, with and without a node on it", async () => {
    const cwd = await newApp();
    await cli({ cwd }, "call", "Counter/a", "increment");
    edit(cwd, "classes/Counter.lua", /local Counter.*/, TABLE);
    expect(await cli({ cwd }, "check")).toMatchObject({
      code: 0,
      stdout: "3 files, no findings; 1 object tried, 1 to be migrated\n",
    });
    const node = new RunningCli({ cwd }, "start", "--json", "--port", "0");
    await node.document("url");
    await cli({ cwd }, "call", "Counter/b", "increment");
    edit(cwd, "classes/Counter.lua", "CREATE TABLE t (a)", "CREATE TABLE t (a, b)");
    const { code, stdout } = await cli({ cwd }, "check");
    expect(code).toBe(4);
    expect(stdout).toMatch(
      /^classes\/Counter.lua:\d+:\d+: default\/Counter\/b: migration 1 of Counter .* is not the one/m,
    );
    expect(stdout).toContain("2 objects tried, 1 to be migrated");
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
  });
});
