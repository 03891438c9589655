/** Verifying what a node under virtual time has in its bucket, and what the tests of that change there. */
import fs from "node:fs";
import { expect } from "vitest";
import type { BucketReader } from "../../src/bucket/bucket.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, encodeManifest, type Manifest } from "../../src/shipping/manifest.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { VerifyReport } from "../../src/verify/report.js";
import { type VerifyOptions, verifyBucket } from "../../src/verify/verify-bucket.js";
import { temporaryFolder } from "../support/temporary-folder.js";
import type { VirtualNode } from "../support/virtual-node.js";

export const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)", "CREATE INDEX lines_text ON lines (text)" }
function Note:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) return text end
function Note:refuse() error { code = "refused", message = "no" } end
function Note:grow(bytes) state.sql.exec("INSERT INTO lines (text) VALUES (?)", ("x"):rep(bytes)) return bytes end
function Note:bye() destroy() return "gone" end
function Note.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
function Note.read:count() return state.sql.one("SELECT count(*) AS n FROM lines").n end
return Note
`;

export type HowToVerify = Partial<Omit<VerifyOptions, "world" | "settings">> & {
  readonly world?: VirtualWorld;
};

/** Verifies the node's bucket in a folder of its own, which is left empty, and leaves every key as it was. */
export async function verified(node: VirtualNode, how: HowToVerify = {}): Promise<VerifyReport> {
  const root = temporaryFolder();
  const world = how.world ?? new VirtualWorld({ time: node.time, root });
  const report = await node.time.until(verifying(node, world, how));
  expect(fs.readdirSync(root)).toEqual([]);
  return report;
}

export function verifying(node: VirtualNode, world: VirtualWorld, how: HowToVerify = {}): Promise<VerifyReport> {
  const bucket: BucketReader = node.bucket;
  return verifyBucket({
    bucket,
    settings: resolveSettings(),
    scope: { kind: "all" },
    past: true,
    jobs: 4,
    ...how,
    world,
  });
}

/** What a report says of a bucket in which nothing is wrong and nothing left over. */
export function wellWith(
  objects: Partial<Record<"restorable" | "unwritten" | "destroyed", number>>,
): Record<keyof VerifyReport, unknown> {
  const none = { count: 0, first: [] };
  const counts = { restorable: 0, unwritten: 0, destroyed: 0, ...objects };
  return {
    complete: true,
    objects: Object.values(counts).reduce((sum, count) => sum + count, 0),
    ...counts,
    damaged: none,
    unread: none,
    past: { restorable: expect.any(Number), damaged: none, unread: none },
    databaseBytes: expect.any(Number),
    garbage: { bodies: 0, bytes: 0, objects: none },
    underWay: 0,
    strays: none,
  };
}

export function keysOf(node: VirtualNode, target: string): ObjectKeys {
  return new ObjectKeys(node.identity(target));
}

export function standing(node: VirtualNode, target: string): Manifest {
  const found = node.bucket.contents.get(keysOf(node, target).manifest);
  if (found === undefined) throw new Error(`${target} has no manifest`);
  return decodeManifest(node.identity(target).id, found.bytes);
}

/** Replaces the manifest by one that is sound in itself. */
export function rewrite(node: VirtualNode, target: string, change: (manifest: Manifest) => Manifest): void {
  put(node, keysOf(node, target).manifest, encodeManifest(change(standing(node, target))));
}

export function put(node: VirtualNode, key: string, bytes: Uint8Array): void {
  node.bucket.contents.apply([{ key, bytes }]);
}
