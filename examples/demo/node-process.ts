/** `moonport start` as a process of its own: started, watched, called over HTTP, and killed as no program expects it. */
import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import readline from "node:readline";
import { packageRoot } from "../../cli/package-root.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import type { Observation } from "../../src/observation.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";

/** A flight that landed, as `--flights` tells of it. */
export type Flight = Omit<Extract<Observation, { kind: "landed" }>, "kind">;

const MAIN = path.join(packageRoot, "dist", "cli", "main.js");

export class NodeProcess {
  readonly url: string;
  readonly pid: number;
  readonly client: HttpNodeClient;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;

  private constructor(child: ChildProcess, gone: Promise<void>, ready: { url: string; pid: number }) {
    this.#child = child;
    this.#gone = gone;
    this.url = ready.url;
    this.pid = ready.pid;
    this.client = new HttpNodeClient({ url: ready.url, world: realWorld(packageRoot, silentLogger) });
  }

  /**
   * A node on the folder `data`, with the classes of this package, on a free port. Resolves when it is ready.
   * @param spawned called at once, so that the process can be ended whatever happens next
   * @throws Error with the node's own words when it does not start
   */
  static async start(
    data: string,
    onFlight: (flight: Flight) => void,
    spawned: (child: ChildProcess) => void,
  ): Promise<NodeProcess> {
    const flags = ["--dir", packageRoot, "--data", data, "--port", "0", "--json", "--flights", "--log-level", "error"];
    const child = spawn(process.execPath, [MAIN, "start", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    spawned(child);
    let complaints = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaints += text;
    });
    const gone = new Promise<void>((resolve) => void child.once("close", () => resolve()));
    const ready = await new Promise<{ url: string; pid: number }>((resolve, reject) => {
      child.once("error", reject);
      void gone.then(() => reject(new Error(`the node did not start:\n${complaints}`)));
      readline.createInterface({ input: child.stdout }).on("line", (line) => {
        const said = saidIn(line);
        if (said?.flight !== undefined) onFlight(said.flight);
        else if (said?.url !== undefined && said.pid !== undefined) resolve({ url: said.url, pid: said.pid });
        else complaints += `${line}\n`;
      });
    });
    return new NodeProcess(child, gone, ready);
  }

  /** SIGKILL: no handler runs, nothing is flushed or closed. Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#gone;
    this.client.close();
  }
}

/** A process that is killed may leave half a line. */
function saidIn(line: string): { url?: string; pid?: number; flight?: Flight } | undefined {
  try {
    return JSON.parse(line) as { url?: string; pid?: number; flight?: Flight };
  } catch {
    return undefined;
  }
}
