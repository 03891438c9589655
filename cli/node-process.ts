/**
 * One node of `dev --nodes`: a process of its own, and what it says, told with its name in front. What it says on stdout is
 * held back until {@link NodeProcess.release}.
 */
import { type ChildProcess, spawn } from "node:child_process";
import os from "node:os";
import readline from "node:readline";
import { deferred } from "../src/world/deferred.js";
import { type NodeMessage, parentEnvironment, type ReadyMessage } from "./dev-parent.js";
import type { Output } from "./output.js";

export interface NodeProcessOptions {
  readonly name: string;
  /** Behind `moonport`. */
  readonly words: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  /** Nodes of the fleet, this one included. */
  readonly nodes: number;
  readonly output: Output;
}

export interface NodeEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class NodeProcess {
  readonly name: string;
  readonly ended: Promise<NodeEnd>;
  /** Resolves when it serves; never, when it does not come to that. */
  readonly ready: Promise<ReadyMessage>;
  /** Resolves when it sees all nodes of the fleet alive; never, when it does not come to that. */
  readonly seesAll: Promise<void>;
  readonly #child: ChildProcess;
  readonly #output: Output;
  #held: string[] | undefined = [];
  #hasEnded = false;

  constructor({ name, words, environment, nodes, output }: NodeProcessOptions) {
    this.name = name;
    this.#output = output;
    const command = [...process.execArgv, process.argv[1] as string, ...words];
    this.#child = spawn(process.execPath, command, {
      env: { ...environment, ...parentEnvironment(nodes) },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      // Ctrl-C goes to everything that a terminal runs in front: the node is to hear of it from its parent, once.
      detached: true,
    });
    const ready = deferred<ReadyMessage>();
    const seesAll = deferred();
    this.ready = ready.promise;
    this.seesAll = seesAll.promise;
    this.#child.on("message", (said) => {
      const message = said as NodeMessage;
      if (message.kind === "ready") ready.resolve(message);
      else seesAll.resolve();
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("error", () => this.#end({ code: 1, signal: null }, resolve));
      // Not before all that it said was read.
      this.#child.once("close", (code, signal) => this.#end({ code, signal }, resolve));
    });
    this.#eachLine(this.#child.stdout, (line) => this.#say(line));
    this.#eachLine(this.#child.stderr, (line) => output.talk(`${name} | ${line}`));
  }

  get isRunning(): boolean {
    return !this.#hasEnded;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child.kill(signal);
  }

  /** From now on, and what was held back. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const line of held) this.#say(line);
  }

  #end(end: NodeEnd, resolve: (end: NodeEnd) => void): void {
    this.#hasEnded = true;
    resolve(end);
  }

  #eachLine(stream: NodeJS.ReadableStream | null, say: (line: string) => void): void {
    if (stream !== null) readline.createInterface({ input: stream }).on("line", say);
  }

  #say(line: string): void {
    if (this.#held !== undefined) this.#held.push(line);
    else if (this.#output.json) this.#output.result("", { node: this.name, ...documentOf(line) });
    else this.#output.result(`${this.name} | ${line}`, {});
  }
}

/** As a shell shows it. */
export function exitCodeOf({ code, signal }: NodeEnd): number {
  return signal === null ? (code ?? 1) : 128 + os.constants.signals[signal];
}

function documentOf(line: string): object {
  try {
    return JSON.parse(line) as object;
  } catch {
    return { said: line };
  }
}
