/** Imports point one way (docs/architecture.md). A folder may import from its own layer's entry here and from those before. */
import fs from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { ERROR_CODES } from "../src/errors.js";

const LAYERS: readonly (readonly string[])[] = [
  ["errors", "nearest", "version"],
  // The ownership protocol's decisions (docs/cluster.md): no I/O, and nothing that could bring it in.
  [
    "cluster/quorum",
    "cluster/entry-run",
    "cluster/journal-rules",
    "cluster/ownership",
    "cluster/release-rule",
    "cluster/tail-choice",
    "cluster/ring",
  ],
  [
    "identity",
    "values",
    "check-options",
    "plain-copy",
    "item-queue",
    "recent-map",
    "typed-methods",
    "durations",
    "world",
    "settings",
    "wire",
  ],
  [
    "lua/contract",
    "observation",
    "node-api",
    "metrics/histogram",
    "metrics/outcomes",
    "metrics/delay-counters",
    "metrics/fleet-counters",
    "delay/contract",
    "metrics/node-counters",
    "realtime/contract",
    "auth/contract",
    "wire/frames",
    "wire/codec",
    "wire/client-frames",
    "links/contract",
    "journal/contract",
    "membership/contract",
    "release/contract",
  ],
  ["app-source", "lua", "lint", "store", "bucket"],
  ["links", "journal", "membership"],
  ["shipping"],
  ["object"],
  ["realtime", "units", "auth", "delay", "directory", "release"],
  ["node-options", "node-file", "folder-holder", "folder-bucket", "client", "testing", "metrics"],
  ["server", "node"],
  ["fleet"],
  ["announced-node", "simulation", "app-tests", "app-check", "verify", "embed", "moonport", "index"],
];

/** Folders of one layer that may not see each other. */
const STRANGERS = [["lua", "lint", "store", "bucket"]];

const files = fs
  .readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => file.slice(0, -".ts".length));

function partOf(file: string): string {
  const names = LAYERS.flat();
  const part = names.includes(file) ? file : (file.split("/")[0] as string);
  if (!names.includes(part)) throw new Error(`src/${file} belongs to no layer: add its folder to the list`);
  return part;
}

function layerOf(part: string): number {
  return LAYERS.findIndex((layer) => layer.includes(part));
}

function importsOf(file: string): string[] {
  const text = fs.readFileSync(`src/${file}.ts`, "utf8");
  const found = [...text.matchAll(/(?:from|import)\s+"(\.[^"]+)\.js"/g)];
  return found.map((match) => path.posix.normalize(path.posix.join(path.posix.dirname(file), match[1] as string)));
}

it("imports point one way", () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((imported) => {
        const [from, to] = [partOf(file), partOf(imported)];
        if (from === to) return false;
        const areStrangers = STRANGERS.some((group) => group.includes(from) && group.includes(to));
        return areStrangers || layerOf(to) > layerOf(from);
      })
      .map((imported) => `src/${file}.ts imports src/${imported}.ts`),
  );
  expect(wrong).toEqual([]);
});

it("only what opens a bucket, or simulates one, knows a concrete bucket", () => {
  const knowing = files.filter((file) =>
    importsOf(file).some((one) => /bucket\/(sqlite-bucket|memory-bucket)$/.test(one)),
  );
  expect(knowing.filter((file) => !/^(bucket|simulation)\//.test(file))).toEqual([]);
});

it("has no cycles among files", () => {
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) throw new Error([...trail.slice(trail.indexOf(file)), file].join(" → "));
    if (done.has(file)) return;
    for (const next of importsOf(file)) visit(next, [...trail, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
});

it("who decides by a code of Moonport's asks whose error it is: a class may throw any", () => {
  const codes = Object.keys(ERROR_CODES).join("|");
  const byCode = new RegExp(`\\bcode [!=]== "(${codes})"|\\.code\\.startsWith|\\.has\\((\\w+\\.)?code\\)`);
  const wrong = files
    // What a storage service says, and what the tables note of a try that is in doubt, which no error of a class leaves behind.
    .filter((file) => !file.startsWith("bucket/s3/") && file !== "delay/shard-tables")
    .flatMap((file) => {
      const lines = fs.readFileSync(`src/${file}.ts`, "utf8").split("\n");
      return lines.filter((line) => byCode.test(line)).map((line) => `src/${file}.ts: ${line.trim()}`);
    });
  expect(wrong).toEqual([]);
});
