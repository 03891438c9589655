/** Processes of other products: they are ended with whoever started them, and their CPU is read from the system. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Readable } from "node:stream";
import type { CpuTime } from "../support/measure.js";

const SAID_CHARACTERS_MAX = 2_000;

const running = new Set<ForeignProcess>();
let isStopped = false;

/** For good: none starts after that. */
export async function stopForeignProcesses(): Promise<void> {
  isStopped = true;
  await Promise.all([...running].map((process) => process.stop()));
}

export class ForeignProcess {
  readonly #name: string;
  readonly #process: ChildProcess;
  #said = "";
  /** Rejects if it ends before it is told to; what it said is in the message. */
  readonly failed: Promise<never>;
  #isEnding = false;

  /** What it writes to descriptor 3 is {@link control}. */
  constructor(binary: string, args: readonly string[], folder: string) {
    if (isStopped) throw new Error("the benchmark has ended");
    this.#name = binary;
    this.#process = spawn(binary, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe", "pipe"] });
    running.add(this);
    this.#process.once("exit", () => running.delete(this));
    const note = (text: Buffer): void => {
      this.#said = (this.#said + text.toString("utf8")).slice(-SAID_CHARACTERS_MAX);
    };
    this.#process.stdout?.on("data", note);
    this.#process.stderr?.on("data", note);
    this.failed = new Promise((_, reject) => {
      this.#process.once("error", (error) => reject(new Error(`${binary} cannot be started: ${error.message}`)));
      // "close" comes after the last word, "exit" before it.
      this.#process.once("close", (code, signal) => {
        if (!this.#isEnding) reject(new Error(`${this.#name} ended with ${code ?? signal}: ${this.#said}`));
      });
    });
    // Whoever waits for it hears of it; when nobody waits, a call fails instead.
    this.failed.catch(() => {});
  }

  get control(): Readable {
    return this.#process.stdio[3] as Readable;
  }

  /** Of the main thread and of all threads that are there; not a number where the system does not tell. */
  cpu(): CpuTime {
    const { pid } = this.#process;
    try {
      const threads = readdirSync(`/proc/${pid}/task`);
      const allUs = threads.reduce((sum, thread) => sum + threadCpuUs(pid, thread), 0);
      return { mainUs: threadCpuUs(pid, String(pid)), allUs };
    } catch {
      return { mainUs: undefined, allUs: Number.NaN };
    }
  }

  /** At once: nothing of what it keeps is needed, and workerd asked politely may wait for its sockets for ever. */
  stop(): Promise<void> {
    this.#isEnding = true;
    const ending = this.#process;
    if (ending.pid === undefined || ending.exitCode !== null || ending.signalCode !== null) return Promise.resolve();
    return new Promise((resolve) => {
      ending.once("exit", () => resolve());
      ending.kill("SIGKILL");
    });
  }
}

function threadCpuUs(pid: number | undefined, thread: string): number {
  const [cpuNs] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
  return Number(cpuNs) / 1_000;
}
