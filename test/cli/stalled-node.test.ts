/** A real node whose main thread hangs in SQLite, as its operator sees it. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as realPause } from "node:timers/promises";
import { expect, it } from "vitest";
import { STALL_EXIT_CODE, STALLS_FOLDER } from "../../src/world/watchdog/stall.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { type CliOptions, cli, cliJson, MAIN, RunningCli } from "./cli.js";

const RUNAWAY = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c";
const STUCK = `
local Stuck = class "Stuck"

function Stuck:spin()
  return state.sql.one("${RUNAWAY}")
end

function Stuck:page()
  for row in state.sql.each("${RUNAWAY}") do return row end
end

function Stuck:add(n)
  local sum = (state.store.get("sum") or 0) + n
  state.store.set("sum", sum)
  return sum
end

return Stuck
`;
const STALL_MS = 1_000;

function app(): CliOptions {
  const cwd = temporaryFolder();
  fs.mkdirSync(path.join(cwd, "classes"));
  fs.writeFileSync(path.join(cwd, "classes", "Stuck.lua"), STUCK);
  return { cwd, env: { NODE_STALL_MS: String(STALL_MS) } };
}

async function started(options: CliOptions): Promise<RunningCli> {
  const node = new RunningCli(options, "start", "--port", "0", "--json");
  await node.document("url");
  return node;
}

function lastWords(stderr: string): Record<string, unknown> {
  const line = stderr.split("\n").find((one) => one.includes('"fatal"'));
  if (line === undefined) throw new Error(`no diagnosis on stderr: ${stderr}`);
  return JSON.parse(line) as Record<string, unknown>;
}

it("a statement that never ends: diagnosis, exit, everything else goes on, quarantine after two, cleared by an operator", async () => {
  const options = app();
  const first = await started(options);
  expect((await cliJson(options, "call", "Stuck/a", "add", "5")).document.value).toBe(5);
  await cli(options, "call", "Stuck/a", "spin");

  expect(await first.exit).toBe(STALL_EXIT_CODE);
  const told = lastWords(first.stderr);
  expect(told).toMatchObject({ object: "default/Stuck/a", entry: "spin", statement: RUNAWAY, pid: first.pid });
  expect(told.silentMs).toBeGreaterThanOrEqual(STALL_MS);
  expect(told.msg).toContain(`in default/Stuck/a spin, in the statement: ${RUNAWAY}`);
  const stalls = path.join(options.cwd, ".moonport", STALLS_FOLDER);
  expect(fs.readdirSync(stalls)).toHaveLength(1);

  const second = await started(options);
  expect(second.stderr).toContain("an earlier process ended itself");
  expect(fs.readdirSync(stalls)).toEqual([]);
  expect((await cliJson(options, "call", "Stuck/a", "add", "1")).document.value).toBe(6);
  expect((await cliJson(options, "quarantine", "list")).document.methods).toEqual([
    expect.objectContaining({ object: "default/Stuck/a", method: "spin", stalls: 1, quarantined: false }),
  ]);
  await cli(options, "call", "Stuck/a", "spin");
  expect(await second.exit).toBe(STALL_EXIT_CODE);

  const third = await started(options);
  const refused = await cliJson(options, "call", "Stuck/a", "spin");
  expect(refused.code).toBe(7);
  expect(refused.document.error).toMatchObject({
    code: "quarantined",
    retryable: false,
    object: "default/Stuck/a",
    hint: expect.stringContaining("moonport quarantine clear Stuck/a spin"),
  });
  expect((await cliJson(options, "call", "Stuck/a", "add", "1")).document.value).toBe(7);

  expect((await cli(options, "quarantine", "clear", "Stuck/a", "spin")).stdout).toBe(
    "cleared spin of default/Stuck/a\n",
  );
  await cli(options, "call", "Stuck/a", "spin");
  expect(await third.exit).toBe(STALL_EXIT_CODE);
});

it("names the statement also when it hangs in a row of a loop, and when an operator typed it", async () => {
  const options = app();
  await cli(options, "call", "Stuck/a", "add", "5");
  const page = await cli(options, "call", "Stuck/a", "page");
  expect([page.code, page.stderr]).toEqual([
    STALL_EXIT_CODE,
    expect.stringContaining(`Stuck/a page, in the statement: ${RUNAWAY}`),
  ]);
  const console = await cli(options, "sql", "Stuck/a", RUNAWAY);
  expect([console.code, console.stderr]).toEqual([
    STALL_EXIT_CODE,
    expect.stringContaining("Stuck/a (console), in the statement"),
  ]);
  const { document } = await cliJson(options, "quarantine", "list");
  expect(document.methods).toEqual([expect.objectContaining({ method: "page", stalls: 1 })]);
});

it("a node that was stopped for longer than the bound goes on", async () => {
  const options = app();
  const node = await started(options);
  for (let round = 0; round < 2; round++) {
    node.signal("SIGSTOP");
    // The bound is real time; nothing but real time can pass it.
    await realPause(2 * STALL_MS);
    node.signal("SIGCONT");
    expect((await cliJson(options, "call", "Stuck/a", "add", "1")).document.value).toBe(round + 1);
  }
  node.signal("SIGTERM");
  expect([await node.exit, node.stderr.includes("silent")]).toEqual([0, false]);
});

const canBeFirst = spawnSync("unshare", ["-rpf", "true"]).status === 0;

it.skipIf(!canBeFirst)("ends also as the first process of a container, which SIGKILL does not reach", async () => {
  const options = app();
  const words = ["-rpf", process.execPath, MAIN, "call", "Stuck/a", "spin"];
  const { status, stderr } = spawnSync("unshare", words, {
    ...options,
    env: { ...process.env, ...options.env },
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([STALL_EXIT_CODE, expect.stringContaining("Stuck/a spin, in the statement")]);
});

it("NODE_STALL_MS=0 watches nothing, and a bound that any pause would break is refused", async () => {
  const { cwd } = app();
  const unwatched = await cliJson({ cwd, env: { NODE_STALL_MS: "0" } }, "call", "Stuck/a", "add", "5");
  expect(unwatched.document.value).toBe(5);
  const tight = await cliJson({ cwd, env: { NODE_STALL_MS: "99" } }, "call", "Stuck/a", "add", "5");
  expect(tight.document.error).toMatchObject({ code: "bad_setting", message: expect.stringContaining("at least 100") });
});
