/**
 * Which delay shard is whose: the partition of a command's target, or of an object with timers, chooses one of so many.
 *
 * How many there are stands in the fleet's record and only grows. After it has grown, what comes new goes by the newest count; what
 * a shard had taken before stays with it to its end. So an id may be known to the shard that an earlier count chose.
 */
import { partitionOf } from "../identity.js";

export class ShardMap {
  #counts: readonly number[];

  /** @param counts the numbers of shards that there were, in order, the one that there is last */
  constructor(counts: readonly number[]) {
    this.#counts = counts;
  }

  get count(): number {
    return this.#counts.at(-1) ?? 0;
  }

  get all(): readonly number[] {
    return Array.from({ length: this.count }, (_, shard) => shard);
  }

  /** @returns whether there are more than were known */
  adopt(counts: readonly number[]): boolean {
    const before = this.count;
    if ((counts.at(-1) ?? 0) <= before) return false;
    this.#counts = counts;
    return true;
  }

  /** Of what comes new. */
  shardOf(objectId: string): number {
    return partitionOf(objectId) % this.count;
  }

  /** Where what came before may be, besides. */
  earlierOf(objectId: string): readonly number[] {
    const partition = partitionOf(objectId);
    const earlier = new Set(this.#counts.map((count) => partition % count));
    earlier.delete(this.shardOf(objectId));
    return [...earlier];
  }
}
