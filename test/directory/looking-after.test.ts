/** A node looks after the shards that are at home with it, and nodes come and go while it does. */
import { expect, test } from "vitest";
import type { Bucket } from "../../src/bucket/bucket.js";
import { Directories } from "../../src/directory/directories.js";
import { identityOf } from "../../src/identity.js";
import type { DirectoryDeclaration } from "../../src/lua/contract.js";
import { NodeCounters } from "../../src/metrics/node-counters.js";
import type { InnerCall } from "../../src/object/inner-call.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import { deferred } from "../../src/world/deferred.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const DECLARED: DirectoryDeclaration = { columns: { top: "integer" }, index: [] };
const LOTS = ["a", "b", "c", "d", "e", "f", "g", "h"].map(
  (key) => new ObjectKeys(identityOf("default", "Lot", key)).manifest,
);

test("shards that come home while those of before are brought over are brought over too", async () => {
  const time = new VirtualTime();
  const settled = new Map<string, PlainValue>();
  let homes = ["0-of-4", "1-of-4"];
  const walked = deferred();
  const directories = new Directories({
    world: new VirtualWorld({ time, root: temporaryFolder() }),
    settings: resolveSettings(),
    counters: new NodeCounters(),
    bucket: { list: async () => ({ keys: LOTS }) } as Partial<Bucket> as Bucket,
    classes: () => [{ app: "default", name: "Lot" }],
    declarationOf: () => DECLARED,
    call: async ({ object, method, args }: InnerCall) => {
      if (method === "settle") settled.set(shardOf(object), (args[0] as PlainValue[])[0] ?? null);
      return { rows: 1, current: 1, stale: 0, settled: settled.get(shardOf(object)) ?? null };
    },
    tellRow: () => walked.promise,
    debts: { offered() {}, told() {} },
    isHome: (object) => homes.includes(shardOf(object)),
  });
  directories.changed();
  await time.advance(1_000);
  homes = ["0-of-4", "1-of-4", "2-of-4", "3-of-4"];
  directories.changed();
  await time.advance(1_000);
  walked.resolve();
  await time.advance(10_000);
  expect([...settled.keys()].sort()).toEqual(homes);
  directories.stop();
});

function shardOf({ key }: { readonly key: string }): string {
  return key.slice(key.lastIndexOf("/") + 1);
}
