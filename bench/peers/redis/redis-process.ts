/**
 * Redis that answers a write when its append-only file is synced; with a replica, a second process that keeps what it is sent in
 * memory, as one does that WAIT asks. Nothing else touches the disk: no snapshots, no rewriting of the file.
 */
import { mkdirSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ForeignProcess } from "../foreign-process.js";
import { RedisConnection } from "./resp.js";

/** Another process may take the port between finding it free and listening on it. */
const ATTEMPTS = 5;
const READY_MS = 15_000;
const POLL_MS = 20;
const OPTIONS = ["--bind", "127.0.0.1", "--save", "", "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"];
const SYNCED = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];

export interface RedisServers {
  readonly processes: readonly ForeignProcess[];
  /** `redis://127.0.0.1:6379` */
  readonly url: string;
}

export async function startRedis(binary: string, folder: string, hasReplica: boolean): Promise<RedisServers> {
  const server = await started(binary, path.join(folder, "server"), SYNCED);
  if (!hasReplica) return { processes: [server.process], url: server.url };
  try {
    const { port } = new URL(server.url);
    const replica = await started(binary, path.join(folder, "replica"), ["--replicaof", "127.0.0.1", port]);
    await hasJoined(server.url);
    return { processes: [server.process, replica.process], url: server.url };
  } catch (error) {
    await server.process.stop();
    throw error;
  }
}

async function started(binary: string, folder: string, options: readonly string[]) {
  mkdirSync(folder);
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const args = ["--port", String(port), "--dir", folder, ...OPTIONS, ...options];
    const process = new ForeignProcess(binary, args, folder);
    const url = `redis://127.0.0.1:${port}`;
    try {
      await Promise.race([untilAnswered(url, ["PING"], "+PONG\r\n"), process.failed]);
      return { process, url };
    } catch (error) {
      await process.stop();
      if (attempt === ATTEMPTS || !String(error).includes("in use")) throw error;
    }
  }
}

/** A write that one replica acknowledges. */
async function hasJoined(url: string): Promise<void> {
  await untilAnswered(url, ["SET", "joined", "1"], "+OK\r\n");
  await untilAnswered(url, ["WAIT", "1", "100"], ":1\r\n");
}

async function untilAnswered(url: string, words: readonly string[], wanted: string): Promise<void> {
  const untilMs = performance.now() + READY_MS;
  for (;;) {
    const answer = await answerTo(url, words).catch((error: Error) => error.message);
    if (answer === wanted) return;
    if (performance.now() > untilMs) throw new Error(`${words.join(" ")} is not answered ${wanted.trim()}: ${answer}`);
    await pause(POLL_MS);
  }
}

async function answerTo(url: string, words: readonly string[]): Promise<string> {
  const connection = await RedisConnection.open(url);
  try {
    return await connection.ask(...words);
  } finally {
    connection.close();
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
