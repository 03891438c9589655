/** `deploy`, `releases` and `rollback`, with a node and without. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.js";
import { type CliOptions, cli, cliJson, RunningCli } from "./cli.js";

function greeter(text: string): string {
  return `local Greeter = class "Greeter"\nfunction Greeter.read:greet() return "${text}" end\nreturn Greeter\n`;
}

function appSaying(text: string): CliOptions & { readonly cwd: string } {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  save({ cwd }, greeter(text));
  return { cwd };
}

const save = ({ cwd }: { readonly cwd: string }, text: string): void =>
  fs.writeFileSync(path.join(cwd, "classes", "Greeter.lua"), text);

const greeted = async (options: CliOptions): Promise<unknown> =>
  (await cliJson(options, "call", "Greeter/a", "greet")).document.value;

describe("moonport deploy", () => {
  it("without a node puts the release where nodes find it, and a node needs no folder then", async () => {
    const app = appSaying("one");
    const { code, document } = await cliJson(app, "deploy", "--message", "first", "--by", "ada");
    expect([code, document]).toMatchObject([0, { changed: true, release: { number: 1, by: "ada", message: "first" } }]);
    save(app, greeter("two"));
    expect(await greeted(app)).toBe("one");
    // Somewhere else, with the data and without the app.
    const elsewhere = temporaryFolder();
    fs.renameSync(path.join(app.cwd, ".moonport"), path.join(elsewhere, ".moonport"));
    expect(await greeted({ cwd: elsewhere })).toBe("one");
    const bare = await cli({ cwd: temporaryFolder() }, "start");
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringMatching(/is not an app's folder/)]);
  }, 60_000);

  it("deploys nothing that a check finds fault with, and says what", async () => {
    const app = appSaying("one");
    save(app, greeter("one").replace("return Greeter\n", "retrun Greeter\n"));
    const { code, document } = await cliJson(app, "deploy");
    expect([code, document]).toMatchObject([
      4,
      { error: { code: "class_invalid", details: { findings: [{ line: 3 }] } } },
    ]);
    expect((await cliJson(app, "releases")).document).toMatchObject({ releases: [] });
  }, 60_000);

  it("reaches a node that runs, which switches, and `dev` goes on with its folder and says so", async () => {
    const app = appSaying("one");
    const node = new RunningCli(app, "start", "--port", "0", "--json");
    await node.document("url");
    expect(await greeted(app)).toBe("one");
    save(app, greeter("two"));
    expect(await greeted(app)).toBe("one");
    expect((await cli(app, "deploy")).stdout).toMatch(
      /^release 1 of default: 1 file, .*\nthe node serves release 1\n$/,
    );
    expect(await greeted(app)).toBe("two");
    save(app, greeter("three"));
    await cli(app, "deploy");
    expect((await cli(app, "rollback")).stdout).toMatch(/the files of release 1\nthe node serves release 3\n$/);
    expect(await greeted(app)).toBe("two");
    expect((await cli(app, "deploy", "--over", "2")).stderr).toMatch(
      /release 2 is not the current one.*deploy_conflict/,
    );
    expect((await cli(app, "rollback", "9")).code).toBe(3);
    node.signal("SIGTERM");
    expect(await node.exit).toBe(0);
    const dev = new RunningCli(app, "dev", "--port", "0", "--json");
    await dev.document("url");
    expect(await greeted(app)).toBe("three");
    dev.signal("SIGTERM");
    expect(await dev.exit).toBe(0);
    expect(dev.stderr).toMatch(/the bucket has release 3 of default; dev serves the files in/);
  }, 120_000);
});
