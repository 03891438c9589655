/** A node of a fleet in a process of its own, `moonport start`, that is stopped and started again at the same address. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import readline from "node:readline";
import { packageRoot } from "../../../cli/package-root.js";
import type { NodeInfo } from "../../../src/node-api.js";

const MAIN = path.join(packageRoot, "dist", "cli", "main.js");

export interface StartedNodeOptions {
  readonly name: string;
  /** An app's folder, in which all nodes run. */
  readonly cwd: string;
  /** Behind those that make it a node of the fleet. */
  readonly words: readonly string[];
}

export class StartedNode {
  readonly name: string;
  readonly #options: StartedNodeOptions;
  #child: ChildProcess | undefined;
  #url = "";
  /** What it said on stderr, of all its lives. */
  said = "";

  constructor(options: StartedNodeOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get url(): string {
    return this.#url;
  }

  /** Resolves when it serves. */
  async start(): Promise<void> {
    const { name, cwd, words } = this.#options;
    const port = this.#url === "" ? "0" : new URL(this.#url).port;
    const fleet = ["--bucket", "sqlite:bucket.db?shared=1", "--node", name, "--fleet-listen", "127.0.0.1:0"];
    const own = ["--data", name, "--port", port, "--json"];
    const child = spawn(process.execPath, [MAIN, "start", ...fleet, ...own, ...words], {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stderr.setEncoding("utf8").on("data", (part: string) => {
      this.said += part;
    });
    for await (const line of readline.createInterface({ input: child.stdout })) {
      const { url } = JSON.parse(line) as { readonly url?: string };
      if (url === undefined) throw new Error(`${name} said ${line}: ${this.said}`);
      this.#url = url;
      break;
    }
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}: ${this.said}`);
    child.stdout.resume();
  }

  /** @returns its exit code */
  async stop(): Promise<number | null> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return child?.exitCode ?? null;
    child.kill("SIGTERM");
    const [code] = (await once(child, "exit")) as [number | null];
    return code;
  }

  /** Resolves when it is gone. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Names of the nodes that it sees alive. */
  async sees(): Promise<readonly string[]> {
    const { nodes } = (await (await fetch(`${this.#url}/v1/admin/nodes`)).json()) as { readonly nodes: NodeInfo[] };
    return nodes.filter(({ standing }) => standing === "live").map(({ node }) => node);
  }
}
