/** What is fixed for the life of a fleet, kept in the bucket; a node whose own numbers differ refuses to start. */
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { PARTITION_COUNT } from "../identity.js";
import { FLEET_KEY } from "./layout.js";
import { MANIFEST_FORMAT } from "./manifest.js";

const DELAY_SHARDS = 16;

const FLEET = { format: 1, partitions: PARTITION_COUNT, delayShards: DELAY_SHARDS, manifestFormat: MANIFEST_FORMAT };

/** Writes the fleet's record if there is none, else compares. @throws MoonportError `fleet_mismatch` naming the field */
export async function joinFleet(bucket: Bucket): Promise<void> {
  const bytes = Buffer.from(JSON.stringify(FLEET), "utf8");
  const outcome = await bucket.write([{ key: FLEET_KEY, bytes, condition: { absent: true } }]);
  if (outcome.kind === "landed") return;
  const found = await bucket.get(FLEET_KEY);
  if (found === undefined) throw MoonportError.of("bucket_unusable", `${FLEET_KEY} exists and cannot be read`);
  const theirs = JSON.parse(Buffer.from(found.bytes).toString("utf8")) as Record<string, unknown>;
  for (const [field, ours] of Object.entries(FLEET)) {
    if (theirs[field] === ours) continue;
    throw MoonportError.of("fleet_mismatch", `the fleet has ${field} ${String(theirs[field])}, this node has ${ours}`, {
      hint: `${bucket.name} was made by another version; use the version that made it, or another bucket`,
    });
  }
}
