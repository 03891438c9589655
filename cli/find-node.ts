/**
 * Finds the node that a command talks to: the one that `--node` names, else the one that runs on the data folder, else the
 * folder itself, opened for the length of the command.
 */
import { HttpNodeClient } from "../src/client/http-node-client.js";
import { isOwn, MoonportError } from "../src/errors.js";
import { SYSTEM_APP } from "../src/identity.js";
import type { NodeApi } from "../src/node-api.js";
import { readNodeFile } from "../src/node-file.js";
import { silentLogger } from "../src/world/logger.js";
import { RealFolder } from "../src/world/real-folder.js";
import { realWorld } from "../src/world/real-world.js";
import { sleep } from "../src/world/world.js";
import { type Context, checkServable } from "./context.js";

export interface FoundNode {
  readonly node: NodeApi;
  /** `own`: opened for this command, so nothing runs on when it is done. */
  readonly kind: "running" | "own";
}

/** How long a node that stands in node.json may take to say that it is there. */
const GREETING_MS = 2_000;

/** Of a data folder whose node has just gone: another may be named in its place, or the same one come back. */
const LOOKS_MAX = 20;
const LOOK_MS = 100;
/** Nodes that may go away one after the other under one command. */
const NODES_LOST_MAX = 3;

export interface WithNodeOptions {
  /** Doing it twice is the same as doing it once: when the node goes away under it, the next one is asked. */
  readonly isRepeatable?: boolean;
}

/**
 * @param command its name, for `node.json`
 * @throws MoonportError what `use` throws, `node_unreachable`, `folder_locked`
 */
export async function withNode<T>(
  context: Context,
  command: string,
  use: (found: FoundNode) => Promise<T>,
  { isRepeatable = false }: WithNodeOptions = {},
): Promise<T> {
  if (context.nodeUrl !== undefined) return await withClient(context, context.nodeUrl, use);
  let url = await runningUrl(context);
  if (url === undefined) {
    try {
      return await withOwnNode(context, command, use);
    } catch (error) {
      url = isOwn(error, "folder_locked") ? await nextUrl(context) : undefined;
      if (url === undefined) throw error;
    }
  }
  let unknown: unknown;
  for (let lost = 1; ; lost++) {
    try {
      return await withClient(context, url, use);
    } catch (error) {
      if (hasLostNode(error)) unknown = error;
      const mayRepeat =
        isRepeatable && (isOwn(error, "node_unreachable") || hasLostNode(error)) && lost < NODES_LOST_MAX;
      const next = mayRepeat ? await nextUrl(context) : undefined;
      // That the next one did not come to it says nothing of what the first one did.
      if (next === undefined) throw error instanceof MoonportError && error.retryable ? (unknown ?? error) : error;
      url = next;
    }
  }
}

/** It went away under the request. Who waited long enough does not wait for another node. */
function hasLostNode(error: unknown): boolean {
  return error instanceof MoonportError && isOwn(error, "outcome_unknown") && error.details?.lost === "connection";
}

async function withClient<T>(context: Context, url: string, use: (found: FoundNode) => Promise<T>): Promise<T> {
  const client = clientOf(url, context);
  if (context.configured)
    context.output.talk("--set, --allow-host and --bucket do not change a node that already runs");
  try {
    return await use({ node: client, kind: "running" });
  } finally {
    client.close();
  }
}

/** Where the folder's node answers, as soon as one does; undefined where whoever has the folder answers nowhere. */
async function nextUrl(context: Context): Promise<string | undefined> {
  const world = realWorld(process.cwd(), silentLogger);
  for (let look = 0; look < LOOKS_MAX; look++) {
    if (readNodeFile(new RealFolder(context.data))?.url === undefined) return undefined;
    const url = await runningUrl(context);
    if (url !== undefined) return url;
    await sleep(world, LOOK_MS);
  }
  return undefined;
}

/**
 * For commands that need a node that goes on running.
 * @param use gets with it where it answers by now, asked again after it was lost: a node that restarts may have another port
 * @throws MoonportError what `use` throws, `node_unreachable`
 */
export async function withRunningNode<T>(
  context: Context,
  use: (client: HttpNodeClient, address: () => Promise<string>) => Promise<T>,
): Promise<T> {
  const { nodeUrl } = context;
  const address = nodeUrl === undefined ? () => runningAddress(context) : async () => nodeUrl;
  const client = clientOf(await address(), context);
  try {
    return await use(client, address);
  } finally {
    client.close();
  }
}

async function withOwnNode<T>(context: Context, command: string, use: (found: FoundNode) => Promise<T>): Promise<T> {
  checkServable(context);
  // Most commands find a running node and need neither engine nor SQLite.
  const { faultText, openOwnNode } = await import("./own-node.js");
  const own = await openOwnNode(context, {
    command,
    onClassError: "report",
    serves: context.app === SYSTEM_APP ? "nothing" : "release",
    observer: (observation) => {
      const { kind } = observation;
      const isFault = kind === "class_failed" || kind === "unit_failed" || kind === "module_failed";
      if (isFault) context.output.talk(`not loaded: ${faultText(observation)}`);
    },
    log: { format: "pretty", level: context.quiet ? "error" : "warn" },
  });
  try {
    return await use({ node: own.node, kind: "own" });
  } finally {
    await own.close();
  }
}

async function runningAddress(context: Context): Promise<string> {
  const url = await runningUrl(context);
  if (url !== undefined) return url;
  throw MoonportError.of("node_unreachable", `no node runs on ${context.data}`, {
    hint: "start one with `moonport dev` or `moonport start`, or name one with --node",
  });
}

/** The address in `node.json`, if a node answers there and is the one that wrote it: a port is soon another's. */
async function runningUrl({ data }: Context): Promise<string | undefined> {
  const file = readNodeFile(new RealFolder(data));
  if (file?.url === undefined) return undefined;
  // Without the token: a stranger must not learn it.
  const greeter = clientOf(file.url, { timeoutMs: GREETING_MS });
  try {
    return (await greeter.session()) === file.session ? file.url : undefined;
  } catch (error) {
    if (error instanceof MoonportError) return undefined;
    throw error;
  } finally {
    greeter.close();
  }
}

function clientOf(
  url: string,
  options: { readonly token?: string | undefined; readonly timeoutMs?: number },
): HttpNodeClient {
  const { token, timeoutMs } = options;
  return new HttpNodeClient({
    url,
    world: realWorld(process.cwd(), silentLogger),
    ...(token !== undefined && { token }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
}
