/**
 * Damage between two lives of a node. The local files are a cache: whatever is done to them, the bucket makes it good. What is
 * damaged in the bucket is refused, never served by half, and harms no other object.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { readAppSource } from "../../src/app-source.js";
import type { Bucket } from "../../src/bucket/bucket.js";
import { openBucket } from "../../src/bucket/open-bucket.js";
import { identityOf } from "../../src/identity.js";
import { MoonportNode } from "../../src/node.js";
import type { CallReply } from "../../src/node-api.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { PlainValue } from "../../src/values.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import { ledgerApp } from "./ledger-app.js";
import { argumentsOf, LedgerHistory } from "./ledger-model.js";
import { callOf, type Draft } from "./ledger-plans.js";

const KEYS = ["a", "b"];
const DRAFTS: readonly Draft[] = [
  { method: "add", rows: 3, units: 300 },
  { method: "add", rows: 6, units: 4 },
  { method: "rewrite", back: 2, units: 700 },
  { method: "add", rows: 1, units: 1_200 },
  { method: "drop", back: 3 },
  { method: "rewrite", back: 2, units: 1 },
];
const settings = resolveSettings();

let appFolder: string;
/** The data folder of a node that was stopped as an operator stops it, so that its local files would be trusted. */
let stopped: string;
const histories = new Map(KEYS.map((key) => [key, new LedgerHistory(`Ledger/${key}`)]));

function bucketOf(data: string): Bucket {
  return openBucket(`sqlite:${path.join(data, "bucket.db")}`, realWorld(data, silentLogger), settings);
}

function openNode(data: string): Promise<MoonportNode> {
  return MoonportNode.open({
    world: realWorld(data, silentLogger),
    bucket: bucketOf(data),
    apps: [readAppSource("default", new RealFolder(appFolder))],
    settings,
    onClassError: "refuse",
  });
}

function call(node: MoonportNode, key: string, method: string, args: readonly PlainValue[]): Promise<CallReply> {
  return node.call({ object: identityOf("default", "Ledger", key), method, args, caller: { kind: "client" } });
}

beforeAll(async () => {
  appFolder = ledgerApp(fs.mkdtempSync(path.join(os.tmpdir(), "moonport-damage-")));
  stopped = path.join(appFolder, "data");
  const node = await openNode(stopped);
  for (const [key, history] of histories) {
    for (const [index, wanted] of DRAFTS.entries()) {
      const one = callOf(index + 1, wanted, undefined);
      const asked = history.asked(one);
      asked.acknowledged(await call(node, key, wanted.method, argumentsOf(one)));
    }
  }
  await node.stop();
});
afterAll(() => fs.rmSync(appFolder, { recursive: true }));

/** The data folder of a node between two lives, this test's own. */
function stoppedData(): string {
  const data = temporaryFolder();
  fs.cpSync(stopped, data, { recursive: true });
  return data;
}

async function restarted(data: string): Promise<MoonportNode> {
  const node = await openNode(data);
  onTestFinished(() => node.stop());
  return node;
}

async function expectWhole(node: MoonportNode, key: string): Promise<void> {
  const { value } = await call(node, key, "everything", []);
  expect(histories.get(key)?.check(value)).toHaveLength(DRAFTS.length);
}

async function expectRefused(node: MoonportNode, key: string): Promise<void> {
  const object = `default/Ledger/${key}`;
  const refusal = expect.objectContaining({ code: "object_corrupt", object });
  await expect(call(node, key, "everything", [])).rejects.toEqual(refusal);
  await expect(call(node, key, "add", [99, 1, 1])).rejects.toEqual(refusal);
  await expect(node.sql(identityOf("default", "Ledger", key), "SELECT 1", [])).rejects.toEqual(refusal);
}

function localFile(data: string, key: string): string {
  const files = fs.readdirSync(path.join(data, "objects"), { recursive: true, encoding: "utf8" });
  const found = files.find((file) => file.endsWith(`~Ledger~${key}.db`));
  if (found === undefined) throw new Error(`${key} has no local file among ${files}`);
  return path.join(data, "objects", found);
}

function edit(file: string, change: (bytes: Uint8Array) => Uint8Array): void {
  fs.writeFileSync(file, change(fs.readFileSync(file)));
}

/** One bit of the byte at this share of the whole. */
const flipped =
  (share: number) =>
  (bytes: Uint8Array): Uint8Array => {
    const at = Math.floor((bytes.length - 1) * share);
    const copy = Uint8Array.from(bytes);
    copy[at] = (copy[at] ?? 0) ^ 0x20;
    return copy;
  };

describe("local files", () => {
  it("are all made anew from the bucket when they are gone", async () => {
    const data = stoppedData();
    fs.rmSync(path.join(data, "objects"), { recursive: true });
    const node = await restarted(data);
    for (const key of KEYS) await expectWhole(node, key);
  });

  it.each([
    ["with one bit flipped in the first page", flipped(0.001)],
    ["with one bit flipped in the middle", flipped(0.5)],
    ["with its last byte changed", flipped(1)],
    ["cut short by a page", (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 1_024)],
    ["cut short within a page", (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 100)],
    ["with a page too many", (bytes: Uint8Array) => Buffer.concat([bytes, new Uint8Array(1_024)])],
    ["emptied", () => new Uint8Array(0)],
  ])("%s are made anew too", async (_what, change) => {
    const data = stoppedData();
    const before = fs.readFileSync(localFile(data, "a"));
    edit(localFile(data, "a"), change);
    const node = await openNode(data);
    for (const key of KEYS) await expectWhole(node, key);
    await node.stop();
    expect(fs.readFileSync(localFile(data, "a")).equals(before)).toBe(true);
  });

  it("of another object, or of an earlier time, are made anew too", async () => {
    const data = stoppedData();
    fs.copyFileSync(localFile(data, "b"), localFile(data, "a"));
    const node = await openNode(data);
    for (const key of KEYS) await expectWhole(node, key);
    await call(node, "a", "add", [100, 2, 300]);
    const { value } = await call(node, "a", "everything", []);
    await node.stop();
    fs.copyFileSync(localFile(stopped, "a"), localFile(data, "a"));
    expect((await call(await restarted(data), "a", "everything", [])).value).toEqual(value);
  });
});

describe("the bucket", () => {
  /** Changes the bucket's values of object `a` whose key ends so; the local files are gone. */
  async function damaged(
    data: string,
    ending: string,
    change: (bytes: Uint8Array) => Uint8Array | undefined,
  ): Promise<void> {
    fs.rmSync(path.join(data, "objects"), { recursive: true, force: true });
    const bucket = bucketOf(data);
    await bucket.start();
    const { keys } = await bucket.list("objects/default/Ledger/");
    const [target] = keys.filter((key) => key.includes("/a/") && key.endsWith(ending));
    const found = target === undefined ? undefined : await bucket.get(target);
    if (target === undefined || found === undefined) throw new Error(`no ${ending} among ${keys}`);
    const bytes = change(found.bytes);
    if (bytes === undefined) await bucket.delete([target]);
    else await bucket.write([{ key: target, bytes }]);
    await bucket.stop();
  }

  it.each([
    ["a segment with one bit flipped in its head", ".seg", flipped(0.001)],
    ["a segment with one bit flipped in a page", ".seg", flipped(0.5)],
    ["a segment with its checksum changed", ".seg", flipped(1)],
    ["a segment cut short", ".seg", (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 1)],
    ["a segment that is gone", ".seg", () => undefined],
    ["a manifest that is no manifest", "manifest", (bytes: Uint8Array) => bytes.subarray(0, bytes.length >> 1)],
  ] as const)("%s: the object is refused, the others are served", async (_what, ending, change) => {
    const data = stoppedData();
    await damaged(data, ending, change);
    const node = await restarted(data);
    await expectRefused(node, "a");
    await expectWhole(node, "b");
    await expectRefused(node, "a");
  });

  it("whose damage is repaired serves the object again, with nothing lost", async () => {
    const data = stoppedData();
    let good: Uint8Array = new Uint8Array();
    await damaged(data, ".seg", (bytes) => {
      good = bytes;
      return flipped(0.5)(bytes);
    });
    const node = await openNode(data);
    await expectRefused(node, "a");
    await node.stop();
    await damaged(data, ".seg", () => good);
    await expectWhole(await restarted(data), "a");
  });
});
