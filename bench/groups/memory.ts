/** Memory of a resident object, taken in a process of its own: what this one has allocated before must not count. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Amount } from "../support/case.js";
import type { ResidentMemory } from "./memory-child.js";

export interface MemoryRow {
  readonly name: string;
  readonly residents: number;
  readonly filesOpenMax: number | undefined;
}

export function memoryRows(residents: number): MemoryRow[] {
  return [
    { name: "memory default open files", residents, filesOpenMax: undefined },
    { name: "memory all files open", residents, filesOpenMax: residents },
  ];
}

export async function measureMemory(parent: string, row: MemoryRow): Promise<Amount> {
  const child = fileURLToPath(new URL("./memory-child.js", import.meta.url));
  const args = ["--expose-gc", child, parent, String(row.residents), String(row.filesOpenMax ?? "")];
  const told = JSON.parse(await output(process.execPath, args)) as ResidentMemory;
  return {
    name: row.name,
    value: told.rssBytes / told.residents / 1_024,
    unit: "KB/object",
    note: `${told.residents} residents, ${told.openFiles} files open, heap ${(told.heapBytes / told.residents / 1_024).toFixed(1)} KB/object`,
  };
}

function output(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    const parts: Buffer[] = [];
    child.stdout.on("data", (part: Buffer) => parts.push(part));
    child.on("error", reject);
    child.on("exit", (code) => {
      if (code === 0) resolve(Buffer.concat(parts).toString("utf8"));
      else reject(new Error(`the memory row's process ended with ${code}`));
    });
  });
}
