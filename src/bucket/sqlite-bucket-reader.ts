/**
 * The embedded bucket's reading side, by itself: one thread with a connection that can change nothing. It may stand on a file
 * that other processes are writing to, and sees every write that landed.
 */
import { assert, MoonportError } from "../errors.js";
import { type BucketObject, type BucketReader, LIST_LIMIT_MAX, type ListPage } from "./bucket.js";
import { checkBucketKey } from "./bucket-key.js";
import type { StoreAnswer } from "./sqlite-protocol.js";
import { type LaneSettings, type LaneWorld, WorkerLane } from "./worker-lane.js";

export class SqliteBucketReader implements BucketReader {
  readonly name: string;
  readonly #lane: WorkerLane;

  /** @param path of a file that is there, absolute or relative to the working directory */
  constructor(world: LaneWorld, settings: LaneSettings, path: string) {
    this.name = `sqlite:${path}`;
    this.#lane = new WorkerLane(world, settings, path, "reader");
  }

  /** @throws MoonportError `storage_failed`, or `bucket_unusable` for a file that is not ours */
  start(): Promise<void> {
    return this.#lane.start();
  }

  stop(): Promise<void> {
    return this.#lane.stop();
  }

  async get(key: string): Promise<BucketObject | undefined> {
    checkBucketKey(key);
    const answer = await this.#lane.request({ kind: "get", key });
    if (answer.kind === "absent") return undefined;
    if (answer.kind === "object") return { bytes: answer.bytes, version: answer.version };
    throw unexpectedAnswer(answer);
  }

  async getMany(keys: readonly string[]): Promise<readonly (BucketObject | undefined)[]> {
    for (const key of keys) checkBucketKey(key);
    const found: (BucketObject | undefined)[] = [];
    while (found.length < keys.length) {
      const answer = await this.#lane.request({ kind: "get_many", keys: keys.slice(found.length) });
      if (answer.kind !== "objects" || answer.versions.length === 0) throw unexpectedAnswer(answer);
      let at = 0;
      for (const version of answer.versions) {
        found.push(version === undefined ? undefined : { bytes: answer.bytes[at++] as Uint8Array, version });
      }
    }
    return found;
  }

  async readStream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    checkBucketKey(key);
    const answer = await this.#lane.request({ kind: "open", key });
    if (answer.kind === "absent") return undefined;
    if (answer.kind === "object") return onePart(answer.bytes);
    if (answer.kind === "body") return this.#parts(answer.body);
    throw unexpectedAnswer(answer);
  }

  async list(prefix: string, options: { readonly after?: string; readonly limit?: number } = {}): Promise<ListPage> {
    const limit = Math.min(options.limit ?? LIST_LIMIT_MAX, LIST_LIMIT_MAX);
    assert(limit >= 1, "a listing asks for at least one key");
    const answer = await this.#lane.request({ kind: "list", prefix, after: options.after, limit });
    if (answer.kind !== "keys") throw unexpectedAnswer(answer);
    const next = answer.more ? answer.keys.at(-1) : undefined;
    return next === undefined ? { keys: answer.keys } : { keys: answer.keys, next };
  }

  async *#parts(body: number): AsyncGenerator<Uint8Array> {
    for (let part = 0; ; part += 1) {
      const answer = await this.#lane.request({ kind: "part", body, part });
      if (answer.kind !== "part") throw unexpectedAnswer(answer);
      yield answer.bytes;
      if (answer.last) return;
    }
  }
}

export function unexpectedAnswer(answer: StoreAnswer): MoonportError {
  return MoonportError.of("internal", `the bucket's thread gave an answer to another question: ${answer.kind}`);
}

async function* onePart(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
