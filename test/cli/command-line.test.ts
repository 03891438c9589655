import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { SETTING_NAMES } from "../../src/settings/settings.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { cli, cliJson, MAIN } from "./cli.js";

describe("a wrong command line", () => {
  it.each([
    [["strat"], "unknown command 'strat'", "did you mean start?"],
    [["call", "Counter/a", "get", "--jsn"], "unknown option '--jsn'", "did you mean --json?"],
    [["call", "Chat/a", "say", "--qqqqqq"], "unknown option '--qqqqqq'", "words after -- are arguments"],
    [["start", "--port", "seventy"], "It is a whole number from 0 to 65535", undefined],
    [["get", "Counter/a", "x", "y"], "too many arguments for 'get'", undefined],
    [["--set", "OBJECT_IDEL_MS=1", "settings"], "no setting is called OBJECT_IDEL_MS", "did you mean OBJECT_IDLE_MS?"],
    [["--set", "OBJECT_IDLE_MS", "settings"], "--set takes NAME=VALUE", undefined],
    [["call", "Counter", "get"], '"Counter" names no object', "an object is Class/key"],
    [["call", "counter/a", "get"], '"counter" is no class name', "a capital letter"],
    [["--app", "My App", "call", "Counter/a", "get"], "is no app name", undefined],
    [["call", "Counter/a", "get"], "is not an app's folder", "moonport new my-app makes one"],
    [["start"], "is not an app's folder", undefined],
    [["call", "Counter/a", "get", "--node", "nonsense"], "is not a node's address", "http://127.0.0.1:7070"],
    [["destroy", "Counter/a"], "needs --yes where nobody can be asked", undefined],
    [["recover", "Counter/a"], "recovering default/Counter/a needs --accept-loss", "replicas_missing names"],
    [["subscribe", "Chat/a", "--snapshot", "top", "--args", '["ada"'], "--args is not JSON", undefined],
    [
      ["subscribe", "Chat/a", "--snapshot", "top", "--args", '"ada"'],
      "--args is no array of arguments",
      "--args '\\[1\\]'",
    ],
    [["subscribe", "Chat/a", "--args", "[1]"], "--args are the arguments of a snapshot", "--snapshot"],
    [["token", "new", "--owner", ""], "--owner takes 1 to 256 characters", undefined],
    [["token", "new", "--owner", "a\nb"], "without control characters", undefined],
    [[], "no command is given", undefined],
  ])("moonport %j is told what is wrong, and ends with 2", async (words, message, hint) => {
    const cwd = temporaryFolder();
    const talk = await cli({ cwd }, ...words);
    expect([talk.code, talk.stdout]).toEqual([2, ""]);
    expect(talk.stderr).toContain(message);
    if (hint !== undefined) expect(talk.stderr).toMatch(new RegExp(`hint: .*${hint}`));
    expect(fs.readdirSync(cwd)).toEqual([]);
  });

  it("is told so as JSON where JSON is asked for, even if that flag stands behind the fault", async () => {
    const { code, document, stderr } = await cliJson({ cwd: temporaryFolder() }, "strat", "--colour");
    expect([code, stderr]).toEqual([2, ""]);
    expect(document).toMatchObject({ error: { code: "bad_option", exit: 2, retryable: false } });
  });
});

describe("moonport destroy", () => {
  it.each([
    ["Ctrl-C", "\u0003"],
    ["Ctrl-D", "\u0004"],
  ])("takes %s for no, and not for a fault", (_keys, typed) => {
    const asTerminal = "data:text/javascript,process.stdin.isTTY=true;process.stderr.isTTY=true";
    const words = [`--import=${asTerminal}`, MAIN, "destroy", "Counter/a"];
    const run = spawnSync(process.execPath, words, { cwd: temporaryFolder(), input: typed, encoding: "utf8" });
    expect(run.stderr).toMatch(/error: not destroyed \(bad_option\)\n$/);
    expect(run.status).toBe(2);
  });
});

describe("moonport --help", () => {
  it("shows the commands and the exit codes, and each command an example and the shared flags", async () => {
    const cwd = temporaryFolder();
    const help = await cli({ cwd }, "--help");
    expect(help.code).toBe(0);
    expect(help.stdout).toContain("6  the outcome is unknown");
    const commands = [...help.stdout.matchAll(/^ {2}([a-z]+) .*?$/gm)].map((match) => match[1] ?? "");
    const names = [
      "new",
      "dev",
      "start",
      "call",
      "unit",
      "get",
      "list",
      "sql",
      "inspect",
      "destroy",
      "classes",
      "settings",
    ];
    expect(commands).toEqual(expect.arrayContaining(names));
    const pages = await Promise.all(names.map((name) => cli({ cwd }, name, "--help")));
    for (const page of pages) {
      expect(page.code).toBe(0);
      expect(page.stdout).toMatch(/Examples?:\n {2}(\S+=\S+ )?moonport /);
      expect(page.stdout).toContain("--data <folder>");
    }
  });
});

describe("moonport new", () => {
  it("makes an app with a class, a README and editor support", async () => {
    const cwd = temporaryFolder();
    const { code, document, stderr } = await cliJson({ cwd }, "new", "my-app");
    expect([code, document.folder]).toEqual([0, path.join(cwd, "my-app")]);
    expect(stderr).toContain("cd my-app");
    expect(document.files).toEqual(
      expect.arrayContaining([".gitignore", ".luarc.json", "README.md", "classes/Counter.lua"]),
    );
    for (const file of document.files as string[]) expect(fs.existsSync(path.join(cwd, "my-app", file))).toBe(true);
    expect(fs.readFileSync(path.join(cwd, "my-app", "README.md"), "utf8")).toMatch(/^# my-app\n/);
    expect(fs.readFileSync(path.join(cwd, "my-app", ".gitignore"), "utf8")).toBe(".moonport/\n");
  });

  it("takes an empty folder, and touches nothing in one that is not", async () => {
    const cwd = temporaryFolder();
    expect((await cli({ cwd }, "new", ".")).code).toBe(0);
    fs.writeFileSync(path.join(cwd, "README.md"), "mine");
    const again = await cli({ cwd }, "new", ".");
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining(". is not empty (bad_option)")]);
    expect(fs.readFileSync(path.join(cwd, "README.md"), "utf8")).toBe("mine");
    fs.writeFileSync(path.join(cwd, "file"), "");
    expect((await cli({ cwd }, "new", "file")).stderr).toContain("file is a file");
    expect((await cli({ cwd }, "new", "a$&b")).code).toBe(0);
    expect(fs.readFileSync(path.join(cwd, "a$&b", "README.md"), "utf8")).toMatch(/^# a\$&b\n/);
  });
});

describe("moonport settings", () => {
  it("shows every setting, the command line before the environment before the default", async () => {
    const options = { cwd: temporaryFolder(), env: { OBJECT_IDLE_MS: "500", OBJECT_MAILBOX_MAX: "9" } };
    const { document } = await cliJson(options, "settings", "--set", "OBJECT_MAILBOX_MAX=7");
    const settings = document.settings as { name: string; value: number; default: number }[];
    expect(settings.map(({ name }) => name)).toEqual(SETTING_NAMES);
    const shown = (name: string): unknown => settings.find((setting) => setting.name === name)?.value;
    expect([shown("OBJECT_IDLE_MS"), shown("OBJECT_MAILBOX_MAX")]).toEqual([500, 7]);
    expect((await cli({ ...options, env: { OBJECT_IDLE_MS: "soon" } }, "settings")).code).toBe(2);
  });
});
