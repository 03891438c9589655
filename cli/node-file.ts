/**
 * `node.json` in the data folder: who uses the folder now, and where that process answers.
 *
 * Written by whoever holds the folder's lock and removed when it lets go. A crash leaves the file behind, so it is a hint and
 * never the truth: the lock decides who owns the folder, and an address counts only if the node behind it names the same
 * session.
 */
import fs from "node:fs";
import path from "node:path";
import { RealFolder } from "../src/world/real-folder.js";

export interface NodeFile {
  readonly pid: number;
  /** This life of the node. */
  readonly session: string;
  /** `start`, `dev`, `call`, ... */
  readonly command: string;
  /** Where it answers; commands that open the folder for themselves answer nowhere. */
  readonly url?: string;
}

const NAME = "node.json";

/** `undefined` when there is none, or none that makes sense. */
export function readNodeFile(data: string): NodeFile | undefined {
  try {
    const file: unknown = JSON.parse(fs.readFileSync(path.join(data, NAME), "utf8"));
    return isNodeFile(file) ? file : undefined;
  } catch {
    return undefined;
  }
}

export function writeNodeFile(data: string, file: NodeFile): void {
  new RealFolder(data).replaceFile(NAME, Buffer.from(`${JSON.stringify(file)}\n`));
}

/** Only the file of this very session: the next owner may have written its own already. */
export function removeNodeFile(data: string, session: string): void {
  if (readNodeFile(data)?.session === session) new RealFolder(data).remove(NAME);
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function isNodeFile(value: unknown): value is NodeFile {
  if (typeof value !== "object" || value === null) return false;
  const file = value as Record<string, unknown>;
  const strings = typeof file.session === "string" && typeof file.command === "string";
  return strings && Number.isInteger(file.pid) && (file.url === undefined || typeof file.url === "string");
}
