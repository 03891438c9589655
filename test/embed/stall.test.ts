/** A program that embeds a node and blocks its own main thread. */
import { spawnSync } from "node:child_process";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { STALL_EXIT_CODE } from "../../src/world/watchdog/stall.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const INDEX = pathToFileURL(path.join(packageRoot, "dist", "src", "index.js")).href;
const STUCK = `
local Stuck = class "Stuck"
function Stuck.read:spin()
  return state.sql.one("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c")
end
return Stuck
`;
const STALL_MS = 500;
const BLOCK = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${3 * STALL_MS});`;

/** Runs `code` with an open node as `moonport`. */
function program(code: string): { status: number | null; stdout: string; stalls: string[] } {
  const text = `
    import inspector from "node:inspector";
    import { Moonport } from "${INDEX}";
    const [dataDir, lua] = process.argv.slice(1);
    const settings = { NODE_STALL_MS: ${STALL_MS} };
    const moonport = await Moonport.open({ dataDir, classes: { Stuck: lua }, settings, log: { format: "pretty" } });
    // The watching thread is under way after a few of its rounds.
    await new Promise((resolve) => setTimeout(resolve, ${STALL_MS}));
    ${code}
    await moonport.close();
    console.log("done");
  `;
  const words = ["--input-type=module", "-e", text, path.join(temporaryFolder(), "data"), STUCK];
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  const stalls = stderr.split("\n").filter((line) => line.startsWith("stalled: "));
  return { status: signal === null ? status : 128 + os.constants.signals[signal], stdout, stalls };
}

it("its own doing is told once and ends nothing", () => {
  const { status, stdout, stalls } = program(`${BLOCK}${BLOCK}`);
  expect([status, stdout]).toEqual([0, "done\n"]);
  expect(stalls).toEqual([
    expect.stringMatching(/^stalled: the main thread has been silent for .* s; no class code was running$/),
  ]);
});

it("a statement of a class that never ends does end it", () => {
  const { status, stalls } = program('await moonport.object("Stuck", "a").spin();');
  expect(status).toBe(STALL_EXIT_CODE);
  expect(stalls).toEqual([expect.stringContaining("in default/Stuck/a spin, in the statement: WITH RECURSIVE")]);
});

it("while somebody may debug it, nothing is a stall", () => {
  const code = `inspector.open(0, "127.0.0.1"); await new Promise((resolve) => setTimeout(resolve, ${STALL_MS})); ${BLOCK} inspector.close();`;
  const { status, stdout, stalls } = program(code);
  expect({ status, stdout, stalls }).toEqual({ status: 0, stdout: "done\n", stalls: [] });
});
