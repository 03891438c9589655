/** What a running `dev` does when the system has no more watchers for it. */
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { watchApp } from "../../cli/watch.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

it("tells of a change though the folder that came with it cannot be watched, and says so", async () => {
  const dir = temporaryFolder();
  fs.mkdirSync(path.join(dir, "lib"));
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) };
  const changed = vi.fn();
  const watcher = watchApp(realWorld(dir, log), dir, changed);
  onTestFinished(() => watcher.stop());
  const watching = vi.spyOn(fs, "watch").mockImplementation(() => {
    throw Object.assign(new Error("no space left for a watcher"), { code: "ENOSPC" });
  });
  onTestFinished(() => watching.mockRestore());
  fs.mkdirSync(path.join(dir, "lib", "shapes"));
  await expect.poll(() => changed.mock.calls.length).toBeGreaterThan(0);
  expect(watching).toHaveBeenCalled();
  expect(warnings[0]).toContain("not every folder is watched any more");
});
