/** One node of the drill: a process of `moonport start` that can be armed, and what it leaves when it ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { packageRoot } from "../../cli/package-root.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { CallReply } from "../../src/node-api.js";
import { SETTING_NAMES } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { errorOf } from "../../src/wire/problem.js";
import { silentLogger } from "../../src/world/logger.js";
import { realWorld } from "../../src/world/real-world.js";
import { type Armed, type ArmMessage, REACHED } from "./armed.js";

export interface DrillNodeOptions {
  /** The app's folder; the node's data and log stand in it under the node's name. */
  readonly cwd: string;
  readonly name: string;
  readonly bucketUrl: string;
  readonly env: Readonly<Record<string, string>>;
  readonly sets: Readonly<Record<string, number>>;
  /** Where it listens; on loopback by default. */
  readonly host?: string;
  /** What it is started with in front: a namespace, another clock. */
  readonly prefix?: readonly string[];
}

interface Life {
  readonly child: ChildProcess;
  readonly client: HttpNodeClient;
  readonly url: string;
  readonly ended: Promise<unknown>;
}

const LOOPBACK = "127.0.0.1";
/** Asked for by a node that listens on more than loopback. */
export const TOKEN = "the-token-of-the-drill";

/** A node that takes longer is not going to come. */
const START_MAX_MS = 240_000;
const world = realWorld("/nonexistent", silentLogger);

export function drillObject(key: string): ObjectIdentity {
  return identityOf("default", "Drill", key);
}

export class DrillNode {
  readonly name: string;
  readonly #options: DrillNodeOptions;
  #life: Life | undefined;
  #prefix: readonly string[];

  constructor(options: DrillNodeOptions) {
    this.name = options.name;
    this.#options = options;
    this.#prefix = options.prefix ?? [];
  }

  get isUp(): boolean {
    return this.#life !== undefined;
  }

  get dataFolder(): string {
    return path.join(this.#options.cwd, this.name);
  }

  get logFile(): string {
    return path.join(this.#options.cwd, `${this.name}.log`);
  }

  /** The process, or the one that it was started with in front. */
  get pid(): number {
    return this.#life?.child.pid ?? 0;
  }

  get url(): string {
    return this.#alive().url;
  }

  /** Of its next life. */
  startWith(prefix: readonly string[]): void {
    this.#prefix = prefix;
  }

  /** Resolves when it serves. @throws Error when it ends before, with what it said */
  async start(): Promise<void> {
    const { cwd, env, sets, bucketUrl, host = LOOPBACK } = this.#options;
    const settings = Object.entries(sets).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
    const words = [
      path.join(packageRoot, "dist/test/crash-drill/node.js"),
      ...["start", "--port", "0", "--json", "--log-level", "warn", "--bucket", bucketUrl, "--data", this.name],
      // A node of its own network is found at the same port again.
      ...["--node", this.name, "--fleet-listen", host === LOOPBACK ? `${host}:0` : `${host}:7071`],
      ...(host === LOOPBACK ? [] : ["--host", host, "--auth", this.#tokenFile()]),
      ...settings,
    ];
    const inherited = Object.entries(process.env).filter(([name]) => !SETTING_NAMES.some((one) => one === name));
    const [program, ...rest] = [...this.#prefix, process.execPath, ...words] as [string, ...string[]];
    const log = fs.openSync(this.logFile, "a");
    const child = spawn(program, rest, {
      cwd,
      env: { ...Object.fromEntries(inherited), ...env },
      stdio: ["ignore", "pipe", log, "ipc"],
    });
    fs.closeSync(log);
    const ended = once(child, "exit").then(() => this.#ended(child));
    let error = "";
    const heard = (message: string): void => {
      error = message;
    };
    const url = await Promise.race([urlOf(child, heard), ended.then(() => undefined), timeout(START_MAX_MS)]);
    if (url === undefined) {
      child.kill("SIGKILL");
      throw new Error(`${this.name} did not start: ${error} ${this.logTail()}`);
    }
    const client = new HttpNodeClient({ url, world, token: TOKEN });
    this.#life = { child, client, url, ended };
  }

  logTail(): string {
    return fs.readFileSync(this.logFile, "utf8").split("\n").slice(-12).join("\n");
  }

  /** The points at which lives of this node ended, the last at the end. */
  reached(): readonly string[] {
    const lines = fs.readFileSync(this.logFile, "utf8").split("\n");
    return lines.filter((line) => line.startsWith(REACHED)).map((line) => line.slice(REACHED.length));
  }

  signal(signal: NodeJS.Signals): void {
    this.#life?.child.kill(signal);
  }

  /** Resolves when the process is gone, however it ended. */
  async ended(): Promise<void> {
    await this.#life?.ended;
  }

  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended();
  }

  /** @returns the exit code, null when a signal ended it */
  async stop(): Promise<number | null> {
    const { child, ended } = this.#alive();
    child.kill("SIGTERM");
    await ended;
    return child.exitCode;
  }

  /** Resolves when the node heeds it. A node that has ended meanwhile is armed for nothing. */
  async arm(armed: Armed | null): Promise<void> {
    const life = this.#life;
    if (life === undefined) return;
    const { child, ended } = life;
    if (!child.connected) return;
    const heeded = once(child, "message");
    const message: ArmMessage = { arm: armed };
    child.send(message, () => {});
    await Promise.race([heeded, ended]);
  }

  /** @throws MoonportError; `node_unreachable` when the answer never came */
  async call(key: string, method: string, args: readonly PlainValue[], callId?: string): Promise<CallReply> {
    if (this.#life === undefined) throw MoonportError.of("node_unreachable", `${this.name} is down`);
    if (callId === undefined) return await callWithoutId(this.#life.url, key, method, args);
    const request = { object: drillObject(key), method, args, caller: { kind: "client" }, callId } as const;
    return await this.#life.client.call(request);
  }

  async read(key: string, method: string): Promise<PlainValue> {
    const read = { method, args: [], caller: { kind: "client" }, mustRead: true } as const;
    return (await this.client.call({ object: drillObject(key), ...read })).value;
  }

  /** @throws MoonportError `node_unreachable` */
  get client(): HttpNodeClient {
    if (this.#life === undefined) throw MoonportError.of("node_unreachable", `${this.name} is down`);
    return this.#life.client;
  }

  /** What its clock says, to the second. */
  async timeMs(): Promise<number> {
    const { headers } = await fetch(this.url, { headers: { connection: "close" } });
    return Date.parse(headers.get("date") ?? "");
  }

  /** Of the node itself. */
  usage(): { readonly rssKib: number; readonly descriptors: number } | undefined {
    try {
      const status = fs.readFileSync(`/proc/${this.pid}/status`, "utf8");
      const rssKib = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
      return { rssKib, descriptors: fs.readdirSync(`/proc/${this.pid}/fd`).length };
    } catch {
      return undefined;
    }
  }

  #tokenFile(): string {
    const file = path.join(this.#options.cwd, "tokens.json");
    const rights = ["read", "call", "subscribe", "unit", "admin", "query", "send"];
    const tokens = [{ id: "drill", token: TOKEN, allow: [{ rights }] }];
    fs.writeFileSync(file, JSON.stringify({ tokens }), { mode: 0o600 });
    return file;
  }

  #alive(): Life {
    if (this.#life === undefined) throw new Error(`${this.name} is down`);
    return this.#life;
  }

  #ended(child: ChildProcess): void {
    if (this.#life?.child !== child) return;
    this.#life.client.close();
    this.#life = undefined;
  }
}

/** Our own client gives every call an id; this is a caller who gives none. */
async function callWithoutId(
  url: string,
  key: string,
  method: string,
  args: readonly PlainValue[],
): Promise<CallReply> {
  let response: Response;
  let body: PlainValue;
  try {
    response = await fetch(`${url}/v1/default/Drill/${encodeURIComponent(key)}/${method}`, {
      method: "POST",
      headers: { "content-type": "application/json", connection: "close", authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify(args),
    });
    body = (await response.json()) as PlainValue;
  } catch (cause) {
    throw MoonportError.of("node_unreachable", "no answer", { cause });
  }
  if (!response.ok) throw errorOf(body) ?? new Error(`${response.status}: ${JSON.stringify(body)}`);
  const seq = response.headers.get("moonport-seq");
  return seq === null ? { value: body } : { value: body, seq: Number(seq) };
}

/** @param heard told of an error that it says in the place of where it answers */
async function urlOf(child: ChildProcess, heard: (error: string) => void): Promise<string | undefined> {
  if (child.stdout === null) return undefined;
  // Nobody else reads what it says: it must not stand still for that.
  const lines = readline.createInterface({ input: child.stdout });
  return new Promise((resolve) => {
    lines.on("line", (line) => {
      const { url, error } = JSON.parse(line) as { url?: string; error?: { message: string } };
      if (url !== undefined) resolve(url);
      if (error !== undefined) heard(error.message);
    });
  });
}

function timeout(ms: number): Promise<undefined> {
  return new Promise((resolve) => void setTimeout(resolve, ms, undefined).unref());
}
