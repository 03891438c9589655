/** Where the package lies, from its source and from its build alike, and what stands in it. */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The folder with Moonport's package.json. */
export const packageRoot = rootAbove(path.dirname(fileURLToPath(import.meta.url)));

export function packageVersion(): string {
  return readPackage(packageRoot)?.version ?? "unknown";
}

function rootAbove(folder: string): string {
  if (readPackage(folder)?.name === "moonport") return folder;
  const parent = path.dirname(folder);
  if (parent === folder) throw new Error("Moonport's package.json is missing from its installation");
  return rootAbove(parent);
}

function readPackage(folder: string): { name?: string; version?: string } | undefined {
  const file = path.join(folder, "package.json");
  if (!fs.existsSync(file)) return undefined;
  return JSON.parse(fs.readFileSync(file, "utf8")) as { name?: string; version?: string };
}
