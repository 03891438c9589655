/** `npm run rolling`: how long callers wait while each node of a loaded fleet is restarted. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { ledgerApp } from "../../drill/ledger-app.js";
import { type RollingOutcome, rollingRestart } from "./rolling-restart.js";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-rolling-"));
const load = { objects: 48, lanesPerClient: 4, callsBetween: 400 };
const ending = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    process.exitCode = 128 + os.constants.signals[signal];
    ending.abort(new Error(`${signal}: the nodes are killed`));
  });
}

try {
  tell(await rollingRestart({ cwd: ledgerApp(folder), settings: [], ...load, ended: ending.signal }));
} catch (error) {
  console.log(String(error));
  process.exitCode ??= 1;
}
fs.rmSync(folder, { recursive: true, force: true });
// Of callers whom nobody waits for any more.
process.exit();

function tell({ waitsMs, stopsMs, exits, faults }: RollingOutcome): void {
  const sorted = [...waitsMs].sort((left, right) => left - right);
  const at = (share: number): string =>
    `${Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0)} ms`;
  const calls = `${sorted.length} calls over ${load.objects} objects, three nodes restarted`;
  console.log(`${calls}: p50 ${at(0.5)}, p99 ${at(0.99)}, p99.9 ${at(0.999)}, longest ${at(1)}`);
  console.log(
    `each stopped within ${stopsMs.map((ms) => `${Math.round(ms)} ms`).join(", ")}, exit codes ${exits.join(", ")}`,
  );
  for (const fault of faults) console.log(fault);
  process.exitCode = faults.length === 0 && exits.every((code) => code === 0) ? 0 : 1;
}
