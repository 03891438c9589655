/** The demo as users run it: it must say what it saw, leave nothing behind, and end with commands that work. */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const DEMO = path.join(packageRoot, "dist", "examples", "demo", "demo.js");
const MAIN = path.join(packageRoot, "dist", "cli", "main.js");

class Run {
  readonly child: ChildProcess;
  readonly exit: Promise<number | null>;
  stdout = "";
  stderr = "";
  #heard: () => void = () => {};

  /** @param temporary where the demo makes its folder */
  constructor(cwd: string, temporary: string) {
    this.child = spawn(process.execPath, [DEMO], {
      cwd,
      env: { ...process.env, TMPDIR: temporary },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.#heard();
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.exit = new Promise((resolve) => void this.child.on("close", resolve));
  }

  async says(text: string): Promise<void> {
    while (!this.stdout.includes(text)) {
      if (this.child.exitCode !== null)
        throw new Error(`it ended without saying "${text}": ${this.stdout}${this.stderr}`);
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
        this.child.once("close", () => resolve());
      });
    }
  }

  /** Processes of the nodes it started. */
  get nodes(): number[] {
    return [...this.stdout.matchAll(/, process (\d+)/g)].map(([, pid]) => Number(pid));
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The port that a node takes when it is not told otherwise; it may be another's already, which is as good. */
async function occupyDefaultPort(): Promise<() => void> {
  const server = net.createServer();
  await new Promise<void>((resolve) => {
    server.once("error", () => resolve());
    server.listen(7070, "127.0.0.1", () => resolve());
  });
  return () => void server.close();
}

describe("the demo", () => {
  let run: Run;
  let code: number | null;
  let left: string[];

  beforeAll(async () => {
    const release = await occupyDefaultPort();
    const elsewhere = fs.mkdtempSync("/tmp/moonport-demo-test-");
    run = new Run(elsewhere, elsewhere);
    code = await run.exit;
    left = fs.readdirSync(elsewhere);
    fs.rmSync(elsewhere, { recursive: true });
    release();
  });

  /** The number on the line that begins with `text`. */
  const told = (text: string): number =>
    Number(new RegExp(`${text} +(\\d+)$`, "m").exec(run.stdout)?.[1] ?? Number.NaN);

  it("holds, from any folder, with the default port taken", () => {
    expect([code, run.stderr]).toEqual([0, ""]);
    expect(run.stdout).toContain("It holds");
  });

  it("shows bids refused with their code, and flights landing", () => {
    expect(run.stdout).toMatch(/^ {2}\d+ bids acknowledged, \d+ refused: \d+ too_low$/m);
    const flights = [...run.stdout.matchAll(/^ {2}Auction\/moon-globe +(\d+) +(\d+) +(\d+) +\d+\.\d ms$/gm)];
    expect(flights.length).toBeGreaterThan(2);
    const numbers = flights.map(([, , flight]) => Number(flight));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  });

  it("says how many bids were acknowledged, and finds as many", () => {
    expect(told("bids acknowledged before the kill")).toBeGreaterThan(0);
    expect(told("of these found after the restart")).toBe(told("bids acknowledged before the kill"));
  });

  it("was killed while bids had no answer, and says what became of each", () => {
    expect(told("bids without an answer")).toBe(6);
    expect(told("of these there as a whole") + told("of these absent as a whole")).toBe(6);
    const [first, second] = run.nodes;
    expect(run.stdout).toContain(`process ${first} is gone`);
    expect(second).not.toBe(first);
  });

  it("leaves neither files nor processes behind", () => {
    expect(run.nodes).toHaveLength(2);
    expect([left, run.nodes.filter(isRunning)]).toEqual([[], []]);
  });

  it("prints no colours and no long lines into a pipe", () => {
    expect(run.stdout).not.toContain("\u001b");
    const long = run.stdout.split("\n").filter((text) => text.length > 120 && !text.includes(packageRoot));
    expect(long).toEqual([]);
  });

  it("ends with commands that work", async () => {
    const commands = run.stdout.slice(run.stdout.indexOf("What to type next")).match(/^ {2}(cd|npx) .*$/gm) ?? [];
    expect(commands.map((command) => command.trim()).slice(0, 2)).toEqual([
      `cd ${packageRoot}`,
      expect.stringMatching(/^npx moonport call Auction\/lot-42 open /),
    ]);
    const data = temporaryFolder();
    const codes: (number | null)[] = [];
    for (const command of commands.filter((one) => one.includes(" npx ") && !one.endsWith(" dev"))) {
      const words = command.replace("npx moonport", `"${process.execPath}" "${MAIN}" --data "${data}"`);
      const child = spawn("sh", ["-c", words], { cwd: packageRoot, stdio: "ignore" });
      codes.push(await new Promise((resolve) => void child.on("close", resolve)));
    }
    expect(codes).toEqual([0, 0, 4, 0]);
    expect(commands.at(-1)?.trim()).toBe("npx moonport dev");
  });
});

it.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("the demo cleans up after itself when %s ends it", async (signal, code) => {
  const folder = temporaryFolder();
  const run = new Run(packageRoot, folder);
  onTestFinished(() => void run.child.kill("SIGKILL"));
  await run.says("Auction/moon-globe");
  expect(fs.readdirSync(folder)).toHaveLength(1);
  run.child.kill(signal);
  expect([await run.exit, run.stderr]).toEqual([code, ""]);
  expect([fs.readdirSync(folder), run.nodes.filter(isRunning)]).toEqual([[], []]);
});
