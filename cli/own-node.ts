/**
 * A node of this process on the data folder: for `start` and `dev`, and for commands that find none running.
 *
 * It owns the folder's lock until {@link OwnNode.close}, which ships what has not landed, and says in `node.json` who it is.
 */
import { readAppSource } from "../src/app-source.js";
import { openBucket } from "../src/bucket/open-bucket.js";
import { MoonportError } from "../src/errors.js";
import { MoonportNode } from "../src/node.js";
import type { NodeApi } from "../src/node-api.js";
import type { NodeOptions } from "../src/node-options.js";
import type { Observation, Observer } from "../src/observation.js";
import { type LogLevel, pinoLogger } from "../src/world/pino-logger.js";
import { RealFolder } from "../src/world/real-folder.js";
import { realWorld } from "../src/world/real-world.js";
import { sleep, type World } from "../src/world/world.js";
import type { Context } from "./context.js";
import { isAlive, type NodeFile, readNodeFile, removeNodeFile, writeNodeFile } from "./node-file.js";

export interface OwnNodeOptions {
  /** For `node.json`. */
  readonly command: string;
  readonly onClassError: NodeOptions["onClassError"];
  readonly observer: Observer;
  readonly log: { readonly format: "json" | "pretty"; readonly level: LogLevel };
}

export interface OwnNode {
  readonly node: NodeApi;
  readonly world: World;
  readonly session: string;
  /** Reads the app's folder again and makes its classes the ones that serve. @throws MoonportError */
  reload(): void;
  /** Says in `node.json` where the node answers. */
  announce(url: string): void;
  close(): Promise<void>;
}

const HOLDER_LOOKS = 15;
const HOLDER_LOOK_MS = 100;

type ClassFault = Extract<Observation, { kind: "class_failed" }>;

/** @throws MoonportError `folder_locked` naming the process that has the folder, `class_invalid` naming every broken file */
export async function openOwnNode(context: Context, options: OwnNodeOptions): Promise<OwnNode> {
  const { app, dir, data, settings, bucketUrl } = context;
  const appFolder = new RealFolder(dir);
  const world = realWorld(data, pinoLogger({ ...options.log, color: process.stderr.isTTY === true }));
  const node = await MoonportNode.open({
    world,
    bucket: openBucket(bucketUrl, world, settings),
    apps: [readAppSource(app, appFolder)],
    settings,
    onClassError: options.onClassError,
    observer: options.observer,
  }).catch(async (error: unknown) => {
    const isLocked = error instanceof MoonportError && error.code === "folder_locked";
    throw isLocked ? lockedError(error, data, await lockHolder(world, data)) : error;
  });
  const { session } = node;
  const note = { pid: process.pid, session, command: options.command };
  writeNodeFile(data, note);
  return {
    node,
    world,
    session,
    reload: () => node.reload([readAppSource(app, appFolder)]),
    announce: (url) => writeNodeFile(data, { ...note, url }),
    close: async () => {
      await node.stop();
      // Last, so that whoever finds the folder locked meanwhile learns by whom.
      removeNodeFile(data, session);
    },
  };
}

/** `classes/Auction.lua:12: what is wrong` */
export function faultText({ file, line, message }: ClassFault): string {
  if (message.startsWith(`${file}:`)) return message;
  return line === undefined ? `${file}: ${message}` : `${file}:${line}: ${message}`;
}

/** Who has the folder. A node that is just starting has the lock a moment before it says so. */
async function lockHolder(world: World, data: string): Promise<NodeFile | undefined> {
  for (let look = 0; look < HOLDER_LOOKS; look++) {
    const holder = readNodeFile(data);
    if (holder !== undefined && isAlive(holder.pid)) return holder;
    await sleep(world, HOLDER_LOOK_MS);
  }
  return undefined;
}

function lockedError(error: MoonportError, data: string, holder: NodeFile | undefined): MoonportError {
  if (holder === undefined) return error;
  const { pid, command, url } = holder;
  const who = `process ${pid} (moonport ${command}${url === undefined ? "" : ` at ${url}`})`;
  return MoonportError.of("folder_locked", `${who} uses ${data}`, {
    cause: error,
    hint: url === undefined ? "it lets go when its command is done" : "stop it, or call it with --node",
    details: { pid, command, ...(url !== undefined && { url }) },
  });
}
