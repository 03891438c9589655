/**
 * A real S3 server for tests, benchmarks and drills: Ceph's gateway (radosgw) with one monitor and one store behind it,
 * all on 127.0.0.1. Test files ask `real-s3.ts` for the one server of their run instead of starting their own.
 *
 * It ends with `stop`, or with the process that started it, however that one ends, and leaves nothing behind.
 */
import { execFile } from "node:child_process";
import { randomBytes, randomInt, randomUUID } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Keeper } from "./keeper.js";
import { radosgwConfig, STORE_PORTS } from "./radosgw-config.js";
import { S3_REGION, type S3Keys, s3Request } from "./s3-request.js";

export interface RadosgwOptions {
  /** `memstore` keeps objects in memory; `bluestore` in a file of the server's folder, for long runs. Default `memstore`. */
  readonly store?: "memstore" | "bluestore";
  /** Default 60,000. It takes two to three seconds on two cores, seven with bluestore. */
  readonly startMaxMs?: number;
}

/** What a client must know to use the server. */
export interface S3Access {
  /** `http://127.0.0.1:PORT`; the same after a restart. */
  readonly endpoint: string;
  readonly host: string;
  readonly port: number;
  readonly keys: S3Keys;
  /** The keys as the SDK's standard chain reads them: for child processes, or `vi.stubEnv`. */
  readonly env: {
    readonly AWS_ACCESS_KEY_ID: string;
    readonly AWS_SECRET_ACCESS_KEY: string;
    readonly AWS_REGION: string;
  };
}

export interface Gateway extends S3Access {
  /** SIGKILL. What was acknowledged stays: the store behind it lives on. */
  kill(): Promise<void>;
  /** Starts it again after `kill`, on the same port. */
  restart(): Promise<void>;
  /** Connections are accepted and nothing is answered, until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  stop(): Promise<void>;
}

export interface Radosgw extends Gateway {
  /** For {@link startGateway}. */
  readonly configFile: string;
  /** In KiB, of each process. */
  memoryKib(): Readonly<Record<string, number>>;
}

const PROGRAMS = ["ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool"];
export const INSTALL_COMMAND = "apt-get install -y --no-install-recommends ceph-mon ceph-osd radosgw";

const START_MAX_MS = 60_000;
/** Somebody may take a port between our look at it and the daemon's. */
const START_TRIES = 3;
const LOG_TAIL_LINES = 15;

/** What has to be installed for {@link startRadosgw} and is not. */
export function missingPrograms(): readonly string[] {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return PROGRAMS.filter((program) => !folders.some((folder) => fs.existsSync(path.join(folder, program))));
}

/** @throws Error with the ends of the logs when it does not start in time */
export async function startRadosgw(options: RadosgwOptions = {}): Promise<Radosgw> {
  const missing = missingPrograms();
  if (missing.length > 0) throw new Error(`no ${missing.join(", ")} on this machine: ${INSTALL_COMMAND}`);
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOnce(options);
    } catch (error) {
      const isPortTaken = /Address already in use|unable to bind/i.test(String(error));
      if (!isPortTaken || tries === START_TRIES) throw error;
    }
  }
}

async function startOnce({ store = "memstore", startMaxMs = START_MAX_MS }: RadosgwOptions): Promise<Radosgw> {
  const deadline = AbortSignal.timeout(startMaxMs);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-s3-"));
  const keeper = new Keeper(folder);
  try {
    const configFile = await makeCluster(folder, store, deadline);
    await startDaemon(keeper, folder, "mon", ["ceph-mon", "-f", "-i", "a", "-c", configFile]);
    await startDaemon(keeper, folder, "osd", ["ceph-osd", "-f", "-i", "0", "-c", configFile]);
    const keys = {
      accessKeyId: `test${randomBytes(8).toString("hex")}`,
      secretAccessKey: randomBytes(20).toString("hex"),
    };
    const gateway = await gatewayOf(keeper, folder, configFile, keys);
    await gateway.start(deadline);
    await makeUser(configFile, keys, deadline);
    return {
      ...gateway,
      configFile,
      memoryKib: () =>
        Object.fromEntries(["mon", "osd", "gateway"].map((name) => [name, residentKib(keeper.pid(name))])),
    };
  } catch (error) {
    const tail = logTail(folder);
    await keeper.stop();
    throw new Error(`the S3 server did not start: ${messageOf(error, startMaxMs)}\n${tail}`, { cause: error });
  }
}

/** A further gateway over a server's store, of its caller's own: to be killed while others use the first. */
export async function startGateway(
  server: Pick<Radosgw, "configFile" | "keys">,
  startMaxMs = START_MAX_MS,
): Promise<Gateway> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "moonport-s3-gateway-"));
  const keeper = new Keeper(folder);
  try {
    fs.mkdirSync(path.join(folder, "log"));
    const gateway = await gatewayOf(keeper, folder, server.configFile, server.keys);
    await gateway.start(AbortSignal.timeout(startMaxMs));
    return gateway;
  } catch (error) {
    const tail = logTail(folder);
    await keeper.stop();
    throw new Error(`the gateway did not start: ${messageOf(error, startMaxMs)}\n${tail}`, { cause: error });
  }
}

export async function createBucket(
  { endpoint, keys }: Pick<S3Access, "endpoint" | "keys">,
  name: string,
): Promise<void> {
  const { status, body } = await s3Request(endpoint, { method: "PUT", path: `/${name}`, keys });
  if (status !== 200) throw new Error(`${endpoint} answered the making of a bucket with ${status}: ${body}`);
}

/** The bucket URL with all that this server needs said. */
export function radosgwBucketUrl(endpoint: string, bucket: string, prefix = ""): string {
  const options = new URLSearchParams({ endpoint, region: S3_REGION, pathStyle: "true", ifMatchQuotes: "false" });
  return `s3://${bucket}/${prefix}?${options}`;
}

/** Makes the folders of the daemons; gives the file that tells them of each other. */
async function makeCluster(folder: string, store: "memstore" | "bluestore", signal: AbortSignal): Promise<string> {
  for (const name of ["mon", "osd", "run", "log"]) fs.mkdirSync(path.join(folder, name));
  const fsid = randomUUID();
  const monitorPort = await freePorts(1 + STORE_PORTS);
  const configFile = path.join(folder, "ceph.conf");
  fs.writeFileSync(configFile, radosgwConfig({ folder, fsid, store, monitorPort }));
  const map = path.join(folder, "monmap");
  const make = (program: string, ...words: string[]) => run(program, ["-c", configFile, ...words], signal);
  await Promise.all([
    make("monmaptool", "--create", "--fsid", fsid, "--addv", "a", `[v2:127.0.0.1:${monitorPort}]`, map).then(() =>
      make("ceph-mon", "--mkfs", "-i", "a", "--monmap", map),
    ),
    make("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", randomUUID(), "--no-mon-config"),
  ]);
  return configFile;
}

async function makeUser(configFile: string, keys: S3Keys, signal: AbortSignal): Promise<void> {
  const words = ["user", "create", "--uid=test", "--display-name=test"];
  const pair = [`--access-key=${keys.accessKeyId}`, `--secret-key=${keys.secretAccessKey}`];
  await run("radosgw-admin", ["-c", configFile, ...words, ...pair], signal);
}

async function gatewayOf(
  keeper: Keeper,
  folder: string,
  configFile: string,
  keys: S3Keys,
): Promise<Gateway & { start(deadline: AbortSignal): Promise<void> }> {
  const host = "127.0.0.1";
  const port = await freePorts(1);
  const endpoint = `http://${host}:${port}`;
  const frontend = `--rgw-frontends=beast endpoint=${host}:${port} tcp_nodelay=1`;
  const log = `--log-file=${path.join(folder, "log/gateway.log")}`;
  const start = async (deadline: AbortSignal): Promise<void> => {
    const command = ["radosgw", "-f", "-c", configFile, "-n", `client.rgw.${port}`, frontend, log];
    await startDaemon(keeper, folder, "gateway", command);
    await untilAnswering(endpoint, keeper, deadline);
  };
  return {
    endpoint,
    host,
    port,
    keys,
    env: {
      AWS_ACCESS_KEY_ID: keys.accessKeyId,
      AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
      AWS_REGION: S3_REGION,
    },
    start,
    kill: async () => {
      await keeper.signal("gateway", "KILL");
      await keeper.end("gateway");
    },
    restart: () => start(AbortSignal.timeout(START_MAX_MS)),
    pause: () => keeper.signal("gateway", "STOP"),
    resume: () => keeper.signal("gateway", "CONT"),
    stop: () => keeper.stop(),
  };
}

async function startDaemon(keeper: Keeper, folder: string, name: string, command: readonly string[]): Promise<void> {
  await keeper.start(name, path.join(folder, `log/${name}.out`), command);
}

async function untilAnswering(endpoint: string, keeper: Keeper, deadline: AbortSignal): Promise<void> {
  const names = ["mon", "osd", "gateway"].filter((name) => keeper.pid(name) !== undefined);
  for (;;) {
    const ended = names.filter((name) => !keeper.isRunning(name));
    if (ended.length > 0) throw new Error(`${ended.join(", ")} ended at once`);
    try {
      const { status } = await s3Request(endpoint, { method: "GET", path: "/", signal: deadline });
      if (status === 200) return;
    } catch (error) {
      if (deadline.aborted) throw error;
    }
    await sleep(50, undefined, { signal: deadline });
  }
}

/**
 * The first of so many free ports in a row. They lie below those that the system gives out by itself, so that no
 * connection or test server takes one before it is used.
 */
async function freePorts(count: number): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const first = randomInt(15_000, 32_000 - count);
    const ports = Array.from({ length: count }, (_, index) => first + index);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return first;
  }
  throw new Error(`no ${count} free ports in a row`);
}

async function isFree(port: number): Promise<boolean> {
  const server = net.createServer();
  return new Promise((resolve) => {
    server.on("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

const execute = promisify(execFile);

async function run(program: string, words: readonly string[], signal: AbortSignal): Promise<void> {
  // The program's own limit ends it when this process is killed meanwhile: it would wait for its daemons for ever.
  await execute("timeout", ["--kill-after=1", "60", program, ...words], { signal });
}

function messageOf(error: unknown, startMaxMs: number): string {
  if (error instanceof Error && error.name === "AbortError") return `not within ${startMaxMs} ms`;
  return error instanceof Error ? error.message : String(error);
}

function logTail(folder: string): string {
  const logs = path.join(folder, "log");
  if (!fs.existsSync(logs)) return "";
  const names = fs.readdirSync(logs).sort();
  return names
    .map((name) => ({ name, text: fs.readFileSync(path.join(logs, name), "utf8").trimEnd() }))
    .filter(({ text }) => text !== "")
    .map(({ name, text }) => `--- ${name}\n${text.split("\n").slice(-LOG_TAIL_LINES).join("\n")}`)
    .join("\n");
}

function residentKib(pid: number | undefined): number {
  if (pid === undefined) return 0;
  return Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
}
