/**
 * A node that says in its data folder's `node.json` who it is, so that a second one that finds the folder taken can name the
 * first, and commands find the node that runs.
 */
import type { AppSource } from "./app-source.js";
import { MoonportError } from "./errors.js";
import type { FleetOptions } from "./fleet/fleet-member.js";
import { FleetNode } from "./fleet/fleet-node.js";
import type { MeasuredNode } from "./metrics/measured.js";
import { MoonportNode } from "./node.js";
import type { NodeApi } from "./node-api.js";
import { type NodeFile, readNodeFile, removeNodeFile, writeNodeFile } from "./node-file.js";
import type { NodeOptions } from "./node-options.js";
import type { LiveApi } from "./realtime/contract.js";
import type { Folder } from "./world/folder.js";
import { sleep, type World } from "./world/world.js";

/** A node as its doors and its process see it, alone or of a fleet. */
export interface ServingNode extends NodeApi, LiveApi, MeasuredNode {
  /** This life of it. */
  readonly session: string;
  reload(apps: readonly AppSource[]): void;
  /** After it has stopped: why something that was committed has not landed, if so. */
  readonly unlanded: Error | undefined;
}

export interface AnnouncedNode {
  readonly node: ServingNode;
  /** Says where it answers, to commands and to the rest of its fleet. */
  announce(url: string): void;
  /** Stops the node. */
  close(): Promise<void>;
}

/** The command of a node inside another program. */
export const EMBEDDED = "embedded";

const HOLDER_LOOKS = 15;
const HOLDER_LOOK_MS = 100;

/**
 * @param fleet which the node joins; without it it is alone
 * @throws MoonportError what {@link MoonportNode.open} and {@link FleetNode.open} throw; `folder_locked` names the process that
 * has the folder
 */
export async function openAnnounced(
  options: NodeOptions,
  command: string,
  fleet?: FleetOptions,
): Promise<AnnouncedNode> {
  const { world } = options;
  const { folder } = world;
  const opening = fleet === undefined ? MoonportNode.open(options) : FleetNode.open(options, fleet);
  const node = await opening.catch(async (error: unknown) => {
    const isLocked = error instanceof MoonportError && error.code === "folder_locked";
    throw isLocked ? lockedError(error, folder, await lockHolder(world)) : error;
  });
  const file: NodeFile = { pid: process.pid, session: node.session, command };
  writeNodeFile(folder, file);
  return {
    node,
    announce: (url) => {
      writeNodeFile(folder, { ...file, url });
      if (node instanceof FleetNode) node.serveClientsAt(clientAddressOf(url, node.fleet.self.address));
    },
    close: async () => {
      await node.stop();
      // Last, so that whoever finds the folder locked meanwhile learns by whom.
      removeNodeFile(folder, node.session);
    },
  };
}

/** The door's address; where that is every address of the machine, by the host that other nodes dial. */
function clientAddressOf(url: string, linkAddress: string): string {
  const address = new URL(url);
  if (address.hostname === "0.0.0.0" || address.hostname === "[::]") address.hostname = new URL(linkAddress).hostname;
  return address.origin;
}

/** Who has the folder. A node that is just starting has the lock a moment before it says so. */
async function lockHolder(world: World): Promise<NodeFile | undefined> {
  for (let look = 0; look < HOLDER_LOOKS; look++) {
    const holder = readNodeFile(world.folder);
    if (holder !== undefined && isAlive(holder.pid)) return holder;
    await sleep(world, HOLDER_LOOK_MS);
  }
  return undefined;
}

function lockedError(error: MoonportError, folder: Folder, holder: NodeFile | undefined): MoonportError {
  if (holder === undefined) return error;
  const { pid, command, url } = holder;
  const which = pid === process.pid ? "this process" : `process ${pid}`;
  const what = command === EMBEDDED ? "an embedded node" : `moonport ${command}`;
  const who = `${which} (${what}${url === undefined ? "" : ` at ${url}`})`;
  return MoonportError.of("folder_locked", `${who} uses ${folder.absolute(".")}`, {
    cause: error,
    hint: hintFor(holder),
    details: { pid, command, ...(url !== undefined && { url }) },
  });
}

function hintFor({ pid, command, url }: NodeFile): string {
  if (pid === process.pid) return "a data folder has one node at a time: share it, or close it first";
  if (url !== undefined) return `stop it, or call it at ${url}`;
  return command === EMBEDDED ? "stop that program first" : "it lets go when its command is done";
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
