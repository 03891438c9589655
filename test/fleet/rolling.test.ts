/** A loaded fleet of real processes, each of which is stopped and started again. */
import fs from "node:fs";
import path from "node:path";
import { expect, it, vi } from "vitest";
import { ledgerApp } from "../drill/ledger-app.js";
import { rollingRestart } from "./rolling/rolling-restart.js";

it("a rolling restart loses no acknowledged call, fails none, and whoever watches sees each event once", async () => {
  const load = { objects: 12, lanesPerClient: 2, callsBetween: 20 };
  const { exits, faults } = await rollingRestart({ cwd: ledgerApp(), settings: [], ...load });
  expect(faults).toEqual([]);
  expect(exits).toEqual([0, 0, 0, 0, 0, 0]);
}, 300_000);

it("a rolling restart that is ended on the way leaves no node behind", async () => {
  const cwd = ledgerApp();
  const ending = new AbortController();
  const load = { objects: 1, lanesPerClient: 1, callsBetween: 1_000_000 };
  const run = rollingRestart({ cwd, settings: [], ...load, ended: ending.signal });
  const files = ["n1", "n2", "n3"].map((name) => path.join(cwd, name, "node.json"));
  await vi.waitUntil(() => files.every((file) => fs.existsSync(file)), { timeout: 60_000 });
  ending.abort(new Error("enough"));
  await expect(run).rejects.toThrow("enough");
  for (const file of files) {
    const { pid } = JSON.parse(fs.readFileSync(file, "utf8")) as { readonly pid: number };
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  }
}, 120_000);
