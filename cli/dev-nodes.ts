/**
 * `moonport dev --nodes N`: several nodes of one fleet on this machine, each a process with a data folder of its own below the
 * app's, all on one bucket.
 *
 * This process runs no node. It holds the app's data folder, names in its `node.json` one of the nodes that run, so that
 * commands find it, tells what the nodes say, and stops them all. A node that ends by itself stays away unless it is to be
 * restarted: what a fleet does without it is what one wants to see.
 */
import { randomBytes } from "node:crypto";
import path from "node:path";
import { sqliteLocation, sqliteUrl } from "../src/bucket/sqlite-location.js";
import { MoonportError } from "../src/errors.js";
import { rememberBucket } from "../src/folder-bucket.js";
import { namingHolder } from "../src/folder-holder.js";
import { removeNodeFile, writeNodeFile } from "../src/node-file.js";
import { backoffMs } from "../src/world/backoff.js";
import type { FolderLock } from "../src/world/folder.js";
import { pinoLogger } from "../src/world/pino-logger.js";
import { realWorld } from "../src/world/real-world.js";
import { sleep, type World } from "../src/world/world.js";
import type { Context } from "./context.js";
import type { ReadyMessage } from "./dev-parent.js";
import { exitCodeOf, type NodeEnd, NodeProcess } from "./node-process.js";
import type { ServeFlags } from "./serve-flags.js";
import { stopSignal } from "./stop-signal.js";

export interface DevNodesFlags extends ServeFlags {
  readonly nodes: number;
  readonly restart?: boolean;
}

const PORT_MAX = 65_535;
const SECRET_BYTES = 32;
const RESTART_FIRST_MS = 250;
const RESTART_MAX_MS = 10_000;
/** How long the nodes may take to see each other before it is said that they do not, in lengths of a session. */
const SEEING_TTLS = 3;

interface Place {
  readonly name: string;
  readonly words: readonly string[];
  process: NodeProcess;
  ready: ReadyMessage | undefined;
}

/** Resolves when all nodes have ended. @throws MoonportError `bad_option`, `folder_locked` */
export async function devNodes(context: Context, flags: DevNodesFlags): Promise<void> {
  const stopAsked = stopSignal(context.output);
  const world = realWorld(context.data, pinoLogger({ format: "pretty", level: context.quiet ? "error" : "warn" }));
  const bucketUrl = sharedBucket(context.bucketUrl);
  checkPorts(flags);
  const lock = await holdFolder(world);
  try {
    rememberBucket(world.folder, context.bucketUrl, world.log);
    await new DevNodes(context, flags, world, bucketUrl).run(stopAsked);
  } finally {
    lock.release();
  }
}

class DevNodes {
  readonly #context: Context;
  readonly #flags: DevNodesFlags;
  readonly #world: World;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #places: Place[] = [];
  readonly #stopping = new AbortController();
  /** Session of the node that `node.json` names. */
  #named: string | undefined;
  #exitCode = 0;

  constructor(context: Context, flags: DevNodesFlags, world: World, bucketUrl: string) {
    this.#context = context;
    this.#flags = flags;
    this.#world = world;
    const secret = randomBytes(SECRET_BYTES).toString("base64url");
    this.#environment = { ...process.env, MOONPORT_FLEET_SECRET: secret };
    for (let index = 0; index < flags.nodes; index++) {
      const name = `n${index + 1}`;
      const words = wordsOf(context, flags, name, index, bucketUrl);
      this.#places.push({ name, words, process: this.#start(name, words), ready: undefined });
    }
  }

  async run(stopAsked: Promise<void>): Promise<void> {
    void stopAsked.then(() => this.#stop());
    const lives = this.#places.map((place) => this.#live(place));
    const isUp = await this.#allReady();
    for (const place of this.#places) place.process.release();
    if (isUp) await this.#tellReady();
    else this.#stop();
    await Promise.all(lives);
    if (this.#named !== undefined) removeNodeFile(this.#world.folder, this.#named);
    this.#context.output.talk("stopped");
    process.exitCode = this.#exitCode;
  }

  #start(name: string, words: readonly string[]): NodeProcess {
    return new NodeProcess({
      name,
      words,
      environment: this.#environment,
      nodes: this.#flags.nodes,
      output: this.#context.output,
    });
  }

  /** One node, for as often as it is started. */
  async #live(place: Place): Promise<void> {
    for (let failures = 0; ; failures++) {
      const end = await this.#oneLife(place, () => {
        failures = 0;
      });
      const isAsked = this.#stopping.signal.aborted;
      // One that was not up yet just ends by the signal.
      if (isAsked && end.signal !== "SIGTERM") this.#ends(end);
      if (!isAsked && place.ready === undefined) this.#ends(end);
      place.ready = undefined;
      if (isAsked) return;
      this.#nameOne();
      this.#tellEnd(place, end);
      if (this.#flags.restart !== true) return this.#leftAlone(end);
      const pauseMs = backoffMs(failures + 1, RESTART_FIRST_MS, RESTART_MAX_MS, this.#world.random.fraction());
      await sleep(this.#world, pauseMs, this.#stopping.signal);
      if (this.#stopping.signal.aborted) return;
      place.process = this.#start(place.name, place.words);
      place.process.release();
    }
  }

  async #oneLife(place: Place, isReady: () => void): Promise<NodeEnd> {
    const { process } = place;
    void process.ready.then((ready) => {
      if (!process.isRunning) return;
      place.ready = ready;
      isReady();
      this.#nameOne();
    });
    return await process.ended;
  }

  /** False when one of them ends before all serve. */
  async #allReady(): Promise<boolean> {
    const ready = Promise.all(this.#places.map(({ process }) => process.ready)).then(() => true);
    return await Promise.race([ready, ...this.#places.map(({ process }) => process.ended.then(() => false))]);
  }

  /** `node.json` is to name a node that runs; it goes on naming the one that it does as long as that is so. */
  #nameOne(): void {
    const running = this.#places.flatMap(({ ready }) => (ready === undefined ? [] : [ready]));
    if (running.some(({ session }) => session === this.#named)) return;
    const [first] = running;
    if (first === undefined) return;
    const { url, session } = first;
    this.#named = session;
    writeNodeFile(this.#world.folder, { pid: process.pid, session, command: "dev", url });
  }

  /** When all see each other: a call then finds its way from whichever node it comes to. */
  async #tellReady(): Promise<void> {
    const over = new AbortController();
    const isAsked = this.#stopping.signal;
    isAsked.addEventListener("abort", () => over.abort(), { once: true });
    const seeing = Promise.all(this.#places.map(({ process }) => process.seesAll)).then(() => true);
    const { NODE_TTL_MS } = this.#context.settings;
    const late = sleep(this.#world, SEEING_TTLS * NODE_TTL_MS, over.signal).then(() => false);
    const ended = this.#places.map(({ process }) => process.ended.then(() => false));
    const doAllSee = await Promise.race([seeing, late, ...ended]);
    over.abort();
    if (isAsked.aborted) return;
    if (!doAllSee)
      this.#context.output.talk("the nodes do not all see each other yet: `moonport nodes` shows who does");
    const nodes = this.#places.map(({ name, process, ready }) => ({ node: name, pid: process.pid, url: ready?.url }));
    const pids = nodes.map(({ node, pid }) => `${node} is process ${pid}`).join(", ");
    this.#context.output.result(`${nodes.length} nodes on one bucket: ${pids}`, { serving: nodes, seeing: doAllSee });
  }

  #tellEnd({ name }: Place, end: NodeEnd): void {
    const how = end.signal === null ? `ended with exit code ${end.code}` : `was killed (${end.signal})`;
    const rest = this.#places.filter(({ process }) => process.isRunning).map((place) => place.name);
    const others = rest.length === 0 ? "none is left" : `${rest.join(", ")} ${rest.length === 1 ? "goes" : "go"} on`;
    const next = this.#flags.restart === true ? "it is started again" : "it is not started again (--restart does that)";
    this.#context.output.result(`${name} | ${how}: ${others}; ${next}`, { node: name, ended: { ...end } });
  }

  /** Where nobody is left to serve, there is nothing to wait for. */
  #leftAlone(end: NodeEnd): void {
    if (!this.#places.some(({ process }) => process.isRunning)) this.#ends(end);
  }

  #ends(end: NodeEnd): void {
    this.#exitCode = Math.max(this.#exitCode, exitCodeOf(end));
  }

  #stop(): void {
    this.#stopping.abort();
    for (const { process } of this.#places) process.signal("SIGTERM");
  }
}

/** What the command line said to this process and holds for each node, and what is each one's own. */
function wordsOf(context: Context, flags: DevNodesFlags, name: string, index: number, bucketUrl: string): string[] {
  const { app, dir, data, allowHosts, output, quiet, given } = context;
  const { host, port, auth, allowOrigin = [], flights, logLevel } = flags;
  return [
    ...["dev", "--dir", dir, "--app", app, "--data", path.join(data, "nodes", name), "--bucket", bucketUrl],
    ...["--node", name, "--fleet-listen", "127.0.0.1:0", "--host", host, "--port", `${port === 0 ? 0 : port + index}`],
    ...["--log-level", logLevel],
    ...given.flatMap((assignment) => ["--set", assignment]),
    ...allowHosts.flatMap((allowed) => ["--allow-host", allowed]),
    ...allowOrigin.flatMap((origin) => ["--allow-origin", origin]),
    ...(auth === undefined ? [] : ["--auth", path.resolve(auth)]),
    ...(flights === true ? ["--flights"] : []),
    ...(output.json ? ["--json"] : []),
    ...(quiet ? ["--quiet"] : []),
  ];
}

function sharedBucket(url: string): string {
  if (url.startsWith("memory:")) {
    throw MoonportError.of("bad_option", "--nodes: the nodes are processes, and share no bucket in memory");
  }
  const location = sqliteLocation(url);
  return location === undefined ? url : sqliteUrl({ path: path.resolve(location.path), isShared: true });
}

function checkPorts({ port, nodes }: DevNodesFlags): void {
  if (port === 0 || port + nodes - 1 <= PORT_MAX) return;
  throw MoonportError.of("bad_option", `--port ${port} leaves no ports for ${nodes} nodes`);
}

async function holdFolder(world: World): Promise<FolderLock> {
  world.folder.ensureDirectory(".");
  try {
    return world.folder.lock("lock");
  } catch (error) {
    throw await namingHolder(error, world);
  }
}
