import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { Keeper } from "./keeper.js";
import { temporaryFolder } from "./temporary-folder.js";

/** Ends at no signal but the hard one. */
const STUBBORN = ["bash", "-c", "trap '' TERM; while :; do sleep 0.05; done"];

function isThere(pid: number | undefined): boolean {
  return fs.existsSync(`/proc/${pid}`);
}

it("ends what it started, removes its folder, and answers nobody afterwards", async () => {
  const folder = temporaryFolder();
  const keeper = new Keeper(folder);
  await keeper.start("one", path.join(folder, "log"), ["bash", "-c", "echo started; exec sleep 1000"]);
  await keeper.start("two", path.join(folder, "log"), STUBBORN);
  await keeper.start("three", path.join(folder, "log"), ["false"]);
  const pids = ["one", "two", "three"].map((name) => keeper.pid(name));
  const isRunning = () => ["one", "two", "three"].map((name) => keeper.isRunning(name));
  await expect.poll(() => fs.readFileSync(path.join(folder, "log"), "utf8")).toBe("started\n");
  await expect.poll(isRunning).toEqual([true, true, false]);

  await keeper.end("one");
  expect(pids.map(isThere)).toEqual([false, true, false]);
  await keeper.end("two", 100);
  expect(isThere(pids[1])).toBe(false);
  await keeper.start("two", path.join(folder, "log"), STUBBORN);
  const last = keeper.pid("two");
  await keeper.stop();
  expect(isThere(last)).toBe(false);
  expect(fs.existsSync(folder)).toBe(false);
  await expect(keeper.start("four", "log", ["true"])).rejects.toThrow("the keeper has ended");
});

it("does so too when its owner is killed", async () => {
  const folder = temporaryFolder();
  const script = `
    const { spawn } = require("node:child_process");
    const keeper = spawn("bash", process.argv.slice(1), { detached: true, stdio: ["pipe", "inherit", "ignore"] });
    keeper.stdin.write(["start", "one", "/dev/null", "sleep", "1000"].join("\\t") + "\\n");
  `;
  const keeperScript = path.join(packageRoot, "test/support/keeper.sh");
  const owner = spawn("node", ["-e", script, keeperScript, folder], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(owner.stdout, "data")) as [Buffer];
  const pid = Number(String(line).trim().split(" ")[2]);
  expect(isThere(pid)).toBe(true);
  owner.kill("SIGKILL");
  await expect.poll(() => fs.existsSync(folder)).toBe(false);
  expect(isThere(pid)).toBe(false);
});
