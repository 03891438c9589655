/**
 * Processes that end with whoever started them, also when that one is killed: a shell (keeper.sh) is their parent, and ends
 * them when the pipe to it closes. It removes the folder that they worked in as well.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { packageRoot } from "../../cli/package-root.js";

const SCRIPT = path.join(packageRoot, "test/support/keeper.sh");

export class Keeper {
  readonly #shell: ChildProcess;
  readonly #exit: Promise<unknown>;
  readonly #waiting: ((answer: string | undefined) => void)[] = [];
  readonly #pids = new Map<string, number>();
  #hasEnded = false;

  /** @param folder removed at the end, with all that is in it */
  constructor(folder: string) {
    // A session of its own: the interrupt of a terminal must reach its owner first, which may still need the processes.
    this.#shell = spawn("bash", [SCRIPT, folder], { detached: true, stdio: ["pipe", "pipe", "ignore"] });
    this.#exit = once(this.#shell, "close");
    this.#shell.stdin?.on("error", () => {});
    const lines = createInterface({ input: this.#shell.stdout as NodeJS.ReadableStream });
    lines.on("line", (line) => this.#waiting.shift()?.(line));
    lines.on("close", () => {
      this.#hasEnded = true;
      for (const resolve of this.#waiting.splice(0)) resolve(undefined);
    });
  }

  async start(name: string, log: string, command: readonly string[]): Promise<void> {
    const answer = await this.#ask(["start", name, log, ...command]);
    this.#pids.set(name, Number(answer.split(" ")[2]));
  }

  async signal(name: string, signal: "KILL" | "STOP" | "CONT"): Promise<void> {
    await this.#ask(["signal", name, signal]);
  }

  /** In good order if it can within that time, default 5,000; then by force. */
  async end(name: string, graceMs = 5_000): Promise<void> {
    await this.#ask(["end", name, String(Math.ceil(graceMs / 50))]);
    this.#pids.delete(name);
  }

  pid(name: string): number | undefined {
    return this.#pids.get(name);
  }

  isRunning(name: string): boolean {
    const pid = this.#pids.get(name);
    if (pid === undefined) return false;
    try {
      process.kill(pid, 0);
      return true;
    } catch {
      return false;
    }
  }

  /** Kills what still runs and removes the folder. */
  async stop(): Promise<void> {
    this.#shell.stdin?.end();
    await this.#exit;
  }

  async #ask(words: readonly string[]): Promise<string> {
    if (words.some((word) => /[\t\n]/.test(word))) throw new Error(`the keeper cannot be told of ${words.join(" ")}`);
    const gone = new Error(`the keeper has ended; it was told to ${words.join(" ")}`);
    if (this.#hasEnded) throw gone;
    const answer = new Promise<string | undefined>((resolve) => this.#waiting.push(resolve));
    this.#shell.stdin?.write(`${words.join("\t")}\n`);
    const line = await answer;
    if (line === undefined) throw gone;
    return line;
  }
}
