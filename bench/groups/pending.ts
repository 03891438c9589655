/** Very many delayed commands: what those that wait cost in memory, and how late the last is of those that fall due together. */

import type { PendingCommands } from "../load/pending-child.js";
import { removeFolder, scratchFolder } from "../support/bench-node.js";
import type { Amount } from "../support/case.js";
import { Child } from "../support/child.js";

export interface PendingRow {
  readonly name: string;
  readonly commands: number;
}

export function pendingRow(commands: number): PendingRow {
  return { name: `memory with ${commands} pending commands`, commands };
}

export function dueRow(commands: number): PendingRow {
  return { name: `commands ${commands} due in one second`, commands };
}

export async function measurePending(parent: string, { name, commands }: PendingRow): Promise<Amount> {
  const { rssBytes, heapBytes } = await inChild(parent, (child) => child.ask("pending", commands));
  const each = (bytes: number): string => (bytes / commands).toFixed(1);
  return {
    name,
    value: rssBytes / 2 ** 20,
    unit: "MB more",
    note: `${each(rssBytes)} bytes a command, of the heap ${each(heapBytes)}`,
  };
}

export async function measureDue(parent: string, { name, commands }: PendingRow): Promise<Amount[]> {
  const { seconds, p50Ms, p99Ms, lost, cpuUs } = await inChild(parent, (child) => child.ask("due", commands));
  const note = `late by ${p50Ms.toFixed(0)} ms in the median, p99 ${p99Ms.toFixed(0)} ms, ${lost} lost`;
  return [
    { name, value: commands / seconds, unit: "a second", digits: 0, note },
    { name: `${name}: one`, value: cpuUs, unit: "µs CPU", note: "of the process, its timer and its effect included" },
  ];
}

async function inChild<T>(parent: string, ask: (child: Child<PendingCommands>) => Promise<T>): Promise<T> {
  const folder = scratchFolder(parent);
  const child = new Child<PendingCommands>("load/pending-child.js", ["--expose-gc"]);
  try {
    await child.ask("open", folder);
    return await ask(child);
  } finally {
    await child.close();
    removeFolder(folder);
  }
}
