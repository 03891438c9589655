/** A stall: what it is, how it is told, and the file it is kept in until a node has taken note of it. */
import type { Running } from "./running-record.js";

export interface Stall extends Running {
  /** Tells it from every other. */
  readonly id: string;
  /** Wall clock, milliseconds. */
  readonly atMs: number;
  readonly silentMs: number;
  readonly pid: number;
}

/** In the data folder. */
export const STALLS_FOLDER = "stalls";
/** As a shell shows it: killed by SIGKILL. */
export const STALL_EXIT_CODE = 137;

export function stallFileName({ id }: Stall): string {
  return `${id}.json`;
}

/** `undefined` for what no watchdog wrote, or did not write to its end. */
export function parseStall(bytes: Uint8Array): Stall | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    return isStall(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** In one sentence. */
export function stallText({ object, entry, statement, silentMs }: Stall): string {
  const whose = object === undefined ? entry : `${object} ${entry ?? ""}`.trimEnd();
  const seconds = `the main thread has been silent for ${(silentMs / 1_000).toFixed(1)} s`;
  if (whose === undefined && statement === undefined) return `${seconds}; no class code was running`;
  const what = statement === undefined ? "outside SQL" : `in the statement: ${statement}`;
  return `${seconds}, in ${whose ?? "the node itself"}, ${what}`;
}

function isStall(value: unknown): value is Stall {
  if (typeof value !== "object" || value === null) return false;
  const { id, atMs, silentMs, pid, object, entry, statement } = value as Record<string, unknown>;
  const texts = [object, entry, statement].every((text) => text === undefined || typeof text === "string");
  return texts && typeof id === "string" && [atMs, silentMs, pid].every(Number.isFinite);
}
