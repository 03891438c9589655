/** The built command, run as a process of its own, as users run it. */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { onTestFinished } from "vitest";
import { packageRoot } from "../../cli/package-root.js";
import { SETTING_NAMES } from "../../src/settings/settings.js";

export const MAIN = path.join(packageRoot, "dist", "cli", "main.js");
if (!fs.existsSync(MAIN)) throw new Error("the command is not built: run npx tsc -p tsconfig.build.json first");

export interface CliRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

export async function cli(options: CliOptions, ...words: string[]): Promise<CliRun> {
  const child = spawnCli(options, words);
  const [stdout, stderr, code] = await Promise.all([textOf(child.stdout), textOf(child.stderr), exitOf(child)]);
  return { code, stdout, stderr };
}

/** Runs with `--json` and returns the one document on stdout. */
export async function cliJson(
  options: CliOptions,
  ...words: string[]
): Promise<{ readonly code: number | null; readonly document: Record<string, unknown>; readonly stderr: string }> {
  const { code, stdout, stderr } = await cli(options, ...words, "--json");
  const lines = stdout.trimEnd().split("\n");
  if (lines.length !== 1) throw new Error(`expected one document on stdout: ${stdout}\n${stderr}`);
  return { code, document: JSON.parse(lines[0] as string) as Record<string, unknown>, stderr };
}

/** A command that runs until it is told to stop. Killed at the test's end if it still runs. */
export class RunningCli {
  readonly #child: ChildProcess;
  /** What it said on stdout so far. */
  readonly lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly exit: Promise<number | null>;
  stderr = "";

  constructor(options: CliOptions, ...words: string[]) {
    const child = spawnCli(options, words);
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (part: string) => {
      this.stderr += part;
    });
    if (child.stdout !== null) {
      readline.createInterface({ input: child.stdout }).on("line", (line) => {
        this.lines.push(line);
        this.#wake();
      });
    }
    this.exit = exitOf(child);
    void this.exit.then(() => this.#wake());
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await this.exit;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** As `| head` does. */
  closeOutput(): void {
    this.#child.stdout?.destroy();
  }

  closeTalk(): void {
    this.#child.stderr?.destroy();
  }

  /** The first line on stdout, now or later, that `wanted` accepts. */
  async line(wanted: (line: string) => boolean): Promise<string> {
    for (;;) {
      const found = this.lines.find(wanted);
      if (found !== undefined) return found;
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`it ended (${this.#child.exitCode}): ${this.stderr}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** The JSON line with this key. */
  async document(key: string, wanted: (value: unknown) => boolean = () => true): Promise<Record<string, unknown>> {
    const matches = (line: string): boolean => {
      const document = JSON.parse(line) as Record<string, unknown>;
      return Object.hasOwn(document, key) && wanted(document[key]);
    };
    return JSON.parse(await this.line(matches)) as Record<string, unknown>;
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

function spawnCli({ cwd, env }: CliOptions, words: readonly string[]): ChildProcess {
  // Settings of the shell that runs the tests are not part of them.
  const inherited = Object.entries(process.env).filter(([name]) => !SETTING_NAMES.some((setting) => setting === name));
  return spawn(process.execPath, [MAIN, ...words], {
    cwd,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** As a shell shows it: 128 and the number of the signal that ended it. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => {
    child.on("close", (code, signal) => resolve(signal === null ? code : 128 + os.constants.signals[signal]));
  });
}

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = "";
  for await (const part of stream?.setEncoding("utf8") ?? []) text += part;
  return text;
}
