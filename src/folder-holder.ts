/** Who has a data folder that is taken: so that a second process can be told which one to stop or call. */
import { isOwn, MoonportError } from "./errors.js";
import { type NodeFile, readNodeFile } from "./node-file.js";
import type { Folder } from "./world/folder.js";
import { sleep, type World } from "./world/world.js";

/** The command of a node inside another program. */
export const EMBEDDED = "embedded";

const HOLDER_LOOKS = 15;
const HOLDER_LOOK_MS = 100;

/** The error; one that says that the folder is taken says by whom. */
export async function namingHolder(error: unknown, world: World): Promise<unknown> {
  const isLocked = error instanceof MoonportError && isOwn(error, "folder_locked");
  return isLocked ? lockedError(error, world.folder, await lockHolder(world)) : error;
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
