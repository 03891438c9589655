/** What docs/subscriptions.md shows is run, in order, against a node; what it says is printed, is. */
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { RunningCli } from "./cli.js";

const page = fs.readFileSync(path.join(packageRoot, "docs", "subscriptions.md"), "utf8");
const blocks = [...page.matchAll(/^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms)];

/** Commands, and what they print; those that would go on are interrupted once they said as much as is expected. */
function run(commands: string, cwd: string, expected: string): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn("bash", ["-ec", commands], { cwd, detached: true, stdio: ["ignore", "pipe", "inherit"] });
    let isRunning = true;
    const interrupt = (): void => void (isRunning && child.pid && process.kill(-child.pid, "SIGINT"));
    onTestFinished(interrupt);
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const isAll = expected !== "" && comparable(said).length >= comparable(expected).length;
      if (isAll) interrupt();
    });
    child.on("exit", () => {
      isRunning = false;
    });
    child.on("close", () => resolve(said));
  });
}

function comparable(text: string): string {
  return text.replace(/^at: \d+$/gm, "at: then").trim();
}

it("the page's commands print what it says", async () => {
  const cwd = temporaryFolder();
  fs.cpSync(path.join(packageRoot, "classes"), path.join(cwd, "classes"), { recursive: true });
  const node = new RunningCli({ cwd }, "start", "--port", "0", "--json");
  const { url } = await node.document("url");
  expect(blocks.length).toBeGreaterThanOrEqual(4);
  const moonport = `${process.execPath} ${path.join(packageRoot, "dist", "cli", "main.js")}`;
  for (const [, commands = "", expected = ""] of blocks) {
    const here = commands.replaceAll("npx moonport", moonport).replaceAll("http://127.0.0.1:7070", String(url));
    const said = await run(here, cwd, expected);
    if (expected !== "") expect(comparable(said)).toBe(comparable(expected));
  }
  node.signal("SIGTERM");
  expect(await node.exit).toBe(0);
});
