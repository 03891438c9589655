/**
 * The embedded bucket: one SQLite file with synchronous=FULL, written and read by a thread each.
 *
 * Writes that arrive together commit together. Several processes may use one file, and take turns where it is said to be
 * shared. A write that landed survives a crash of the machine; reads see every landed write and wait for none that is under way.
 */
import { isOwn, MoonportError } from "../errors.js";
import { RealFolder } from "../world/real-folder.js";
import type { Timer, World } from "../world/world.js";
import {
  type Bucket,
  type BucketBulk,
  type BucketObject,
  type BucketWrite,
  bucketError,
  type ListPage,
  type Version,
  type WriteHint,
  type WriteOutcome,
} from "./bucket.js";
import { checkBucketKey, checkWrites } from "./bucket-key.js";
import { LockedMarks } from "./process-marks.js";
import { rechunked } from "./rechunked.js";
import { SqliteBucketReader, unexpectedAnswer } from "./sqlite-bucket-reader.js";
import {
  addWrites,
  type LaneRequest,
  noWrites,
  PART_BYTES_MAX,
  type StoreAnswer,
  type StoreWrite,
  writeOutcome,
} from "./sqlite-protocol.js";
import { type LaneSettings, WorkerLane } from "./worker-lane.js";

/** How often a bucket looks for what dead processes left half staged. */
const SWEEP_INTERVAL_MS = 60_000;

export interface SqliteBucketStats {
  /** Requests that changed something, since the start. */
  readonly changes: number;
  /** Transactions they were committed in. */
  readonly commits: number;
  /** Those of them that were made on the thread that asked. */
  readonly loneCommits: number;
}

export class SqliteBucket implements Bucket {
  readonly name: string;
  readonly atomic = true;
  readonly marks: LockedMarks;
  readonly #world: World;
  readonly #writer: WorkerLane;
  readonly #reader: SqliteBucketReader;
  #changes = 0;
  #sweepTimer: Timer | undefined;
  #sweep: "waiting" | "soon" | "running" = "waiting";
  #stopped = false;

  /** @param path of the file, absolute or relative to the working directory; it and its folder are created when missing */
  constructor(
    world: World,
    settings: LaneSettings,
    path: string,
    { isShared = false }: { readonly isShared?: boolean } = {},
  ) {
    this.name = `sqlite:${path}`;
    this.#world = world;
    this.#writer = new WorkerLane(world, settings, path, "writer", isShared);
    this.#reader = new SqliteBucketReader(world, settings, path);
    this.marks = new LockedMarks(world, new RealFolder(`${path}-processes`));
  }

  /** @throws MoonportError `storage_readonly`, `storage_full`, `storage_failed`, or `bucket_unusable` for a file that is not ours */
  async start(): Promise<void> {
    await this.#writer.start();
    try {
      // Second, because the writer creates the file.
      await this.#reader.start();
    } catch (error) {
      await this.#writer.stop();
      throw error;
    }
    this.#planSweep(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sweepTimer?.cancel();
    await this.#reader.stop();
    // Last, and alone on the file: its close then moves the whole WAL into the file and removes it.
    await this.#writer.stop();
    this.marks.release();
  }

  stats(): SqliteBucketStats {
    const { commits, loneCommits } = this.#writer;
    return { changes: this.#changes, commits, loneCommits };
  }

  get(key: string): Promise<BucketObject | undefined> {
    return this.#reader.get(key);
  }

  async write(writes: readonly BucketWrite[], hint?: WriteHint): Promise<WriteOutcome> {
    checkWrites(writes, this.atomic);
    const answer = await this.#change({ kind: "write", writes: writes.map(asStored) }, hint);
    if (answer.kind === "landed" || answer.kind === "lost") return answer;
    throw unexpectedAnswer(answer);
  }

  readonly bulk: BucketBulk = {
    get: (keys) => this.#reader.getMany(keys),
    write: (batches) => this.#writeMany(batches),
  };

  async #writeMany(batches: readonly (readonly BucketWrite[])[]): Promise<readonly WriteOutcome[]> {
    for (const writes of batches) checkWrites(writes, this.atomic);
    const columns = noWrites<Uint8Array>();
    for (const writes of batches) addWrites(columns, writes.map(asStored), (bytes) => bytes);
    const answer = await this.#change(columns);
    if (answer.kind !== "outcomes") throw unexpectedAnswer(answer);
    return answer.outcomes.map(writeOutcome);
  }

  async writeStream(key: string, parts: AsyncIterable<Uint8Array>): Promise<Version> {
    checkBucketKey(key);
    let body = 0;
    let part = 0;
    let small: Uint8Array | undefined;
    try {
      for await (const { bytes, last } of rechunked(parts, PART_BYTES_MAX)) {
        if (last && part === 0) small = bytes;
        else body = await this.#stage(body, part++, bytes);
      }
    } catch (error) {
      if (body !== 0) this.#abandon(body);
      throw notPublished(error);
    }
    const answer = small
      ? await this.#change({ kind: "write", writes: [{ key, bytes: small, condition: undefined }] })
      : await this.#change({ kind: "publish", key, body });
    if (answer.kind === "landed" && answer.versions[0] !== undefined) return answer.versions[0];
    throw unexpectedAnswer(answer);
  }

  readStream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.#reader.readStream(key);
  }

  list(prefix: string, options: { readonly after?: string; readonly limit?: number } = {}): Promise<ListPage> {
    return this.#reader.list(prefix, options);
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkBucketKey(key);
    if (keys.length > 0) await this.#change({ kind: "delete", keys: [...keys] });
  }

  async #change(request: LaneRequest, hint?: WriteHint): Promise<StoreAnswer> {
    this.#changes += 1;
    const answer = await this.#writer.request(request, hint);
    if (this.#writer.garbage && this.#sweep === "waiting") this.#planSweep(0);
    return answer;
  }

  async #stage(body: number, part: number, bytes: Uint8Array): Promise<number> {
    const answer = await this.#change({ kind: "stage", body, part, bytes, nowMs: this.#world.clock.wallMs() });
    if (answer.kind === "staged") return answer.body;
    throw unexpectedAnswer(answer);
  }

  #abandon(body: number): void {
    this.#change({ kind: "abandon", body }).catch((error: unknown) => {
      this.#world.log.debug({ bucket: this.name, error }, "an abandoned upload stays until it is swept as idle");
    });
  }

  #planSweep(delayMs: number): void {
    if (this.#stopped) return;
    this.#sweep = delayMs === 0 ? "soon" : "waiting";
    this.#sweepTimer?.cancel();
    this.#sweepTimer = this.#world.timers.after(delayMs, () => void this.#sweepAll());
  }

  async #sweepAll(): Promise<void> {
    this.#sweep = "running";
    try {
      let more = true;
      while (more && !this.#stopped) {
        const answer = await this.#writer.request({ kind: "sweep", nowMs: this.#world.clock.wallMs() });
        more = answer.kind === "swept" && answer.more;
      }
    } catch (error) {
      this.#world.log.debug({ bucket: this.name, error }, "the bucket was not swept; the next sweep tries again");
    } finally {
      this.#planSweep(SWEEP_INTERVAL_MS);
    }
  }
}

function asStored({ key, bytes, condition }: BucketWrite): StoreWrite {
  return { key, bytes, condition };
}

/** Parts that were staged, or failed to be, are seen by nobody: whatever went wrong, nothing happened. */
function notPublished(error: unknown): unknown {
  if (!(error instanceof MoonportError) || !isOwn(error, "bucket_failed")) return error;
  return bucketError("refused", error.message, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.details === undefined ? {} : { details: error.details }),
    cause: error,
  });
}
