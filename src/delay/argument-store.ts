/** Large argument lists: in the bucket, under their hash. Who refers to which is kept by the shard. */
import { createHash } from "node:crypto";
import type { Bucket } from "../bucket/bucket.js";
import { MoonportError } from "../errors.js";
import { delayArgumentsKey } from "../shipping/layout.js";

export class ArgumentStore {
  readonly #bucket: Pick<Bucket, "get" | "write" | "delete">;

  constructor(bucket: Pick<Bucket, "get" | "write" | "delete">) {
    this.#bucket = bucket;
  }

  nameOf(bytes: Uint8Array): string {
    return createHash("sha256").update(bytes).digest("hex");
  }

  async put(shard: number, hash: string, bytes: Uint8Array): Promise<void> {
    await this.#bucket.write([{ key: delayArgumentsKey(shard, hash), bytes }]);
  }

  /** @throws MoonportError `object_corrupt`, `bucket_failed` */
  async get(shard: number, hash: string): Promise<Uint8Array> {
    const key = delayArgumentsKey(shard, hash);
    const found = await this.#bucket.get(key);
    if (found !== undefined && this.nameOf(found.bytes) === hash) return found.bytes;
    throw MoonportError.of(
      "object_corrupt",
      `${key} ${found === undefined ? "is missing" : "is not what its name says"}`,
    );
  }

  async remove(shard: number, hashes: readonly string[]): Promise<void> {
    await this.#bucket.delete(hashes.map((hash) => delayArgumentsKey(shard, hash)));
  }
}
