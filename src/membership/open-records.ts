/** Whether a bucket is a fleet's by now: asked by a node that is alone, and would answer beside the fleet what the fleet answers. */
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import type { World } from "../world/world.js";
import { RecordReader } from "./reading.js";

/**
 * @throws MoonportError `fleet_mismatch` when there is a node whose session has not ended as far as its record says;
 * `bucket_failed`
 */
export async function refuseFleetBucket(bucket: Bucket, world: World, patienceMs: number): Promise<void> {
  const { found, error } = await new RecordReader({ world, bucket, patienceMs }).fresh();
  if (error !== undefined) throw error;
  const records = [...found.values()].map(({ stored }) => stored);
  const open = records.filter(({ phase }) => phase.kind === "open" || phase.kind === "closing");
  if (open.length === 0) return;
  const names = [...new Set(open.map(({ record }) => record.node))].sort().join(", ");
  throw MoonportError.of(
    "fleet_mismatch",
    `${bucket.name} is the bucket of a fleet (${names}), and this node is alone`,
    {
      hint: "call one of its nodes (--node URL), or join it (--fleet-listen). A node that was killed is in it until it was started and stopped once more",
      details: { nodes: names },
    },
  );
}
