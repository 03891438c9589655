/** Claims of one session beside each other: what it has given up is claimed anew, whatever is still under way. */
import { expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import type { ReplicaSet } from "../../src/cluster/ownership.js";
import { identityOf } from "../../src/identity.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { Claims } from "../../src/shipping/claims.js";
import { type FleetView, loneFleet } from "../../src/shipping/fleet-view.js";
import { ObjectKeys } from "../../src/shipping/layout.js";
import { decodeManifest, type Manifest } from "../../src/shipping/manifest.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const OBJECT = identityOf("default", "Counter", "one");
const SET: ReplicaSet = { set: [{ node: "a", journal: "journal of a" }], quorum: { copies: 1, acksToLand: 0 } };

async function stage() {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const bucket = new MemoryBucket(world);
  await bucket.start();
  const view: FleetView = { ...loneFleet("my session"), replicasFor: () => SET, mustRenew: () => true };
  const claims = new Claims(world, bucket, view, resolveSettings());
  const record = (): Manifest => {
    const stored = bucket.contents.get(new ObjectKeys(OBJECT).manifest);
    return decodeManifest(OBJECT.id, stored?.bytes ?? new Uint8Array());
  };
  return { time, bucket, claims, record };
}

it("an object that is given up while its set is changed is claimed in a new epoch by whoever asks meanwhile", async () => {
  const { time, bucket, claims, record } = await stage();
  await time.until(claims.claim(OBJECT));
  const renewal = bucket.gate();
  const renewed = claims.renewSets(() => false);
  await time.settle();
  const released = claims.release(OBJECT);
  const claiming = claims.claim(OBJECT);
  // A record that is read before the release lands, and told of after it, names this session as one that serves.
  const answers = bucket.faults.hold(["get"], "after");
  renewal.release();
  await time.settleOnce();
  const release = bucket.gate();
  await time.settle();
  release.release();
  await time.until(Promise.all([renewed, released]));
  await time.settle();
  answers.release();
  const claim = await time.until(claiming);
  expect(claim.manifest.epoch).toBe(2);
  expect(record()).toMatchObject({ epoch: 2, rid: claim.manifest.rid, replicas: { clean: false } });
});
