/** A fleet's bucket and data folders, as one file: put away by one version, opened by every later one. */
import fs from "node:fs";
import path from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { packageRoot } from "../../cli/package-root.js";
import { identityOf } from "../../src/identity.js";
import { appIn } from "../../src/simulation/app-in.js";
import { SimulatedFleet } from "../../src/simulation/simulated-fleet.js";
import type { PlainValue } from "../../src/values.js";

/** One file for each version, `<version>.json.gz`. */
export const STORED = path.join(packageRoot, "test/fixtures/stored");
export const APP = path.join(packageRoot, "test/compatibility/app");
export const NODES = ["n0", "n1", "n2"] as const;

/** What a version put away. */
export interface StoredFleet {
  readonly version: string;
  /** Settings of all nodes. */
  readonly settings: Readonly<Record<string, number>>;
  /** Keys and bytes, base64. */
  readonly bucket: Readonly<Record<string, string>>;
  /** Of each node, by its path in the data folder; base64. */
  readonly folders: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly expected: Expected;
  /** The data folder of a node without a fleet, its bucket in it, and the lines of its objects. */
  readonly alone: {
    readonly files: Readonly<Record<string, string>>;
    readonly lines: Readonly<Record<string, PlainValue>>;
  };
}

/** What whoever opens it must find. */
export interface Expected {
  /** The lines of each object. */
  readonly lines: Readonly<Record<string, PlainValue>>;
  readonly destroyed: readonly string[];
  /** Timers, messages and commands that are due within two hours: ids, by the objects at which they arrive. */
  readonly due: Readonly<Record<string, readonly string[]>>;
  /** Two calls that were acknowledged, and what they were answered. */
  readonly acknowledged: readonly { readonly key: string; readonly id: string; readonly value: PlainValue }[];
  /** An object, a seq of its past that only a past manifest names, and its lines then. */
  readonly past: { readonly key: string; readonly seq: number; readonly lines: number };
}

export function fleetOf(settings: StoredFleet["settings"]): SimulatedFleet {
  return new SimulatedFleet({ apps: [appIn(APP)], settings });
}

export function keptObject(key: string) {
  return identityOf("default", "Kept", key);
}

export function putAway(
  fleet: SimulatedFleet,
  version: string,
  settings: StoredFleet["settings"],
  expected: Expected,
  alone: StoredFleet["alone"],
) {
  const keys = fleet.contents.list("", undefined, Number.POSITIVE_INFINITY).keys;
  const bucket = Object.fromEntries(keys.map((key) => [key, base64(fleet.contents.get(key)?.bytes)]));
  const folders = Object.fromEntries(NODES.map((name) => [name, filesIn(fleet.folderOf(name))]));
  const stored: StoredFleet = { version, settings, bucket, folders, expected, alone };
  fs.mkdirSync(STORED, { recursive: true });
  const file = path.join(STORED, `${version}.json.gz`);
  fs.writeFileSync(file, gzipSync(JSON.stringify(stored), { level: 9 }));
  return { file, keys };
}

/** Each version that put something away. */
export function storedFleets(): readonly StoredFleet[] {
  const files = fs.readdirSync(STORED).filter((name) => name.endsWith(".json.gz"));
  return files.map(
    (name) => JSON.parse(gunzipSync(fs.readFileSync(path.join(STORED, name))).toString()) as StoredFleet,
  );
}

/** A copy of it, its nodes not started yet. */
export function reopened({ settings, bucket, folders }: StoredFleet): SimulatedFleet {
  const fleet = fleetOf(settings);
  for (const [key, bytes] of Object.entries(bucket)) {
    fleet.contents.apply([{ key, bytes: Buffer.from(bytes, "base64") }]);
  }
  for (const [name, files] of Object.entries(folders)) {
    writeFiles(fleet.folderOf(name), files);
  }
  return fleet;
}

export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [file, bytes] of Object.entries(files)) {
    const whole = path.join(folder, file);
    fs.mkdirSync(path.dirname(whole), { recursive: true });
    fs.writeFileSync(whole, Buffer.from(bytes, "base64"));
  }
}

export function filesIn(folder: string): Record<string, string> {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => path.join(entry.parentPath, entry.name));
  return Object.fromEntries(paths.map((file) => [path.relative(folder, file), base64(fs.readFileSync(file))]));
}

function base64(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString("base64");
}
