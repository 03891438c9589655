/**
 * `node.json` in the data folder: who uses the folder now, and where that process answers.
 *
 * Written by whoever holds the folder's lock and removed when it lets go. A crash leaves the file behind, so it is a hint and
 * never the truth: the lock decides who owns the folder, and an address counts only if the node behind it names the same
 * session.
 */
import type { Folder } from "./world/folder.js";

export interface NodeFile {
  readonly pid: number;
  /** This life of the node. */
  readonly session: string;
  /** `start`, `call`, ... of the `moonport` command, or `embedded` for a node inside another program. */
  readonly command: string;
  /** Where it answers; commands that open the folder for themselves answer nowhere. */
  readonly url?: string;
}

const NAME = "node.json";
/** `undefined` when there is none, or none that makes sense. */
export function readNodeFile(folder: Folder): NodeFile | undefined {
  try {
    const file: unknown = JSON.parse(Buffer.from(folder.readFile(NAME) ?? []).toString("utf8"));
    return isNodeFile(file) ? file : undefined;
  } catch {
    return undefined;
  }
}

export function writeNodeFile(folder: Folder, file: NodeFile): void {
  folder.replaceFile(NAME, Buffer.from(`${JSON.stringify(file)}\n`));
}

/** Only the file of this very session: the next owner may have written its own already. */
export function removeNodeFile(folder: Folder, session: string): void {
  if (readNodeFile(folder)?.session === session) folder.remove(NAME);
}

function isNodeFile(value: unknown): value is NodeFile {
  if (typeof value !== "object" || value === null) return false;
  const file = value as Record<string, unknown>;
  const strings = typeof file.session === "string" && typeof file.command === "string";
  return strings && Number.isInteger(file.pid) && (file.url === undefined || typeof file.url === "string");
}
