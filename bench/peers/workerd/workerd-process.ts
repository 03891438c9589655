/** workerd with one Durable Object class on the local disk: SQLite storage, and what it does by default to make it durable. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { BENCH_FOLDER } from "../../support/bench-node.js";
import { ForeignProcess } from "../foreign-process.js";

const READY_MS = 15_000;
const SOURCE = path.join(BENCH_FOLDER, "peers/workerd/work.js");

/** Objects stay in memory between rounds, as the node's do. */
function configIn(objectsFolder: string): string {
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "work", worker = .work),
    (name = "objects", disk = (path = ${JSON.stringify(objectsFolder)}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "work")],
);

const work :Workerd.Worker = (
  modules = [(name = "work.js", esModule = embed "work.js")],
  compatibilityDate = "2025-09-01",
  durableObjectNamespaces = [(className = "Work", uniqueKey = "work", enableSql = true, preventEviction = true)],
  durableObjectStorage = (localDisk = "objects"),
  bindings = [(name = "work", durableObjectNamespace = "Work")],
);
`;
}

/** @param folder for the configuration and the objects @returns the process and `http://127.0.0.1:8080` */
export async function startWorkerd(
  binary: string,
  folder: string,
): Promise<{ readonly process: ForeignProcess; readonly url: string }> {
  const objects = path.join(folder, "objects");
  mkdirSync(objects);
  copyFileSync(SOURCE, path.join(folder, "work.js"));
  writeFileSync(path.join(folder, "config.capnp"), configIn(objects));
  const process = new ForeignProcess(binary, ["serve", "--control-fd=3", "config.capnp"], folder);
  const port = await Promise.race([portOf(process), process.failed, notInTime()]);
  return { process, url: `http://127.0.0.1:${port}` };
}

async function notInTime(): Promise<never> {
  await pause(READY_MS, undefined, { ref: false });
  throw new Error(`workerd does not listen after ${READY_MS} ms`);
}

/** workerd tells on the control descriptor, a line of JSON each, on which port a socket of its configuration listens. */
function portOf(process: ForeignProcess): Promise<number> {
  return new Promise((resolve) => {
    createInterface(process.control).on("line", (line) => {
      const told = JSON.parse(line) as { event?: string; port?: number };
      if (told.event === "listen" && told.port !== undefined) resolve(told.port);
    });
  });
}
