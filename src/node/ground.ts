/**
 * What a node stands on before it serves anything: the lock of its folder, a bucket that keeps its promises, its fleet, what is known
 * of stalls, and the files that it begins with. It takes all of that, or nothing.
 */
import type { Bucket } from "../bucket/bucket.js";
import { probeBucket } from "../bucket/probe.js";
import { ShardMap } from "../delay/shard-map.js";
import { refuseFleetBucket } from "../membership/open-records.js";
import type { JoinedFleet, NodeOptions } from "../node-options.js";
import { Quarantine } from "../object/quarantine.js";
import { type BegunApps, begunApps } from "../release/node-releases.js";
import { joinFleet } from "../shipping/fleet.js";
import type { FolderLock } from "../world/folder.js";

export interface Ground {
  readonly lock: FolderLock;
  readonly bucket: Bucket;
  readonly quarantine: Quarantine;
  /** Absent where the node is alone. */
  readonly joined: JoinedFleet | undefined;
  readonly begun: BegunApps;
  readonly shards: ShardMap;
}

const LOCK_FILE = "lock";

/**
 * @throws MoonportError `folder_locked`, `bucket_unusable`, `bucket_failed`, `fleet_mismatch`, `app_not_found`, `release_damaged`,
 * `storage_*`
 */
export async function takeGround(options: NodeOptions): Promise<Ground> {
  const { world, bucket, settings, followsReleases: follows = [] } = options;
  world.folder.ensureDirectory(".");
  const lock = world.folder.lock(LOCK_FILE);
  let joined: JoinedFleet | undefined;
  try {
    await bucket.start();
    await probeBucket(bucket, world);
    const { fleet, delayShards } = await joinFleet({
      bucket,
      world,
      delayShards: settings.DELAY_SHARDS,
      ...(options.fleet && { settings }),
    });
    if (options.fleet === undefined) await refuseFleetBucket(bucket, world, settings.BUCKET_TIMEOUT_MS);
    const quarantine = await Quarantine.open(world, bucket, settings);
    joined = await options.fleet?.({ world, bucket, settings, fleet });
    const begun = await begunApps({ world, bucket, settings, follows }, options.apps);
    return { lock, bucket, quarantine, joined, begun, shards: new ShardMap(delayShards) };
  } catch (error) {
    await giveBackGround({ joined, bucket, lock });
    throw error;
  }
}

export async function giveBackGround({
  joined,
  bucket,
  lock,
}: Pick<Ground, "joined" | "bucket" | "lock">): Promise<void> {
  await joined?.stop();
  await bucket.stop();
  lock.release();
}
