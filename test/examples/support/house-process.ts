/** The auction house as its users run it: a process of its own, killed as no program expects it and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { packageRoot } from "../../../cli/package-root.js";

const SERVER = path.join(packageRoot, "dist", "examples", "auction-house", "server.js");

export class HouseProcess {
  readonly data = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-auction-house-"));
  #child: ChildProcess | undefined;
  #gone: Promise<unknown> = Promise.resolve();
  /** Of the page. */
  url = "";
  /** Of the node. */
  node = "";

  /** On free ports the first time, and on the same ones from then on: a page must find it again. */
  async start(): Promise<void> {
    const ports = ["--port", portOf(this.url), "--node-port", portOf(this.node)];
    const child = spawn(process.execPath, [SERVER, "--data", this.data, ...ports], { cwd: "/" });
    this.#child = child;
    this.#gone = new Promise((resolve) => void child.once("close", resolve));
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
    }
    let isGone = false;
    void this.#gone.then(() => {
      isGone = true;
    });
    const addresses = /open at (http:\S+)\nIts node answers at (http:[^\s,]+)/;
    while (!addresses.test(said)) {
      if (isGone) throw new Error(`the auction house did not open:\n${said}`);
      await Promise.race([new Promise((resolve) => child.stdout.once("data", resolve)), this.#gone]);
    }
    [, this.url = "", this.node = ""] = addresses.exec(said) ?? [];
  }

  /** SIGKILL by default: nothing is flushed or closed. Resolves when it is gone, with its exit code. */
  async end(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<unknown> {
    this.#child?.kill(signal);
    return this.#gone;
  }

  removeData(): void {
    fs.rmSync(this.data, { recursive: true, force: true });
  }
}

function portOf(url: string): string {
  return url === "" ? "0" : new URL(url).port;
}
