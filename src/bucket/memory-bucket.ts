/**
 * A bucket in memory for tests and simulation: it keeps every promise of the interface, takes as long as it is told to,
 * and fails in the ways real stores fail: refused, answer lost, landed late, throttled, hanging.
 *
 * All waiting goes through the world's timers, so the same seed gives the same run.
 */
import { assert } from "../errors.js";
import { SETTINGS } from "../settings/settings.js";
import { sleep, type World, yieldTurn } from "../world/world.js";
import {
  type Bucket,
  type BucketBulk,
  type BucketObject,
  type BucketWrite,
  bucketError,
  LIST_LIMIT_MAX,
  type ListPage,
  type ProcessMarks,
  type Version,
  type WriteOutcome,
} from "./bucket.js";
import { checkBucketKey, checkWrites } from "./bucket-key.js";
import { MemoryContents } from "./memory-contents.js";
import {
  BUCKET_OPERATIONS,
  type BucketOperation,
  CHANGING_OPERATIONS,
  type Fault,
  type Hold,
  MemoryFaults,
} from "./memory-faults.js";

/** One way of one request, milliseconds; a function may draw from the world's randomness. */
export type LatencyMs = number | ((operation: BucketOperation, world: MemoryBucketWorld) => number);

export type MemoryBucketWorld = Pick<World, "clock" | "timers" | "random">;

export interface MemoryBucketOptions {
  /** Default true. False behaves like S3: one write at a time. */
  readonly atomic?: boolean;
  /** Each way, so a request takes it twice. Default 0: a turn of the loop each way. */
  readonly latencyMs?: LatencyMs;
  /** How long a request may take before its caller is told that nobody knows. Default BUCKET_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** What is stored; give several buckets the same to let several nodes share it. */
  readonly contents?: MemoryContents;
  /** Which of the processes that share the contents live. Default: nothing is known of that. */
  readonly marks?: ProcessMarks;
  /** Largest part that `readStream` gives. Default 64 KiB. */
  readonly partBytes?: number;
}

export class MemoryBucket implements Bucket {
  readonly name = "memory:";
  readonly atomic: boolean;
  readonly bulk: BucketBulk | undefined;
  readonly contents: MemoryContents;
  readonly marks: ProcessMarks | undefined;
  readonly faults = new MemoryFaults();
  readonly #world: MemoryBucketWorld;
  readonly #latencyMs: LatencyMs;
  readonly #timeoutMs: number;
  readonly #partBytes: number;
  readonly #counts = new Map<BucketOperation, number>();
  readonly #abandon = new Set<() => void>();
  #state: "new" | "started" | "stopped" = "new";

  constructor(world: MemoryBucketWorld, options: MemoryBucketOptions = {}) {
    this.#world = world;
    this.atomic = options.atomic ?? true;
    this.bulk = this.atomic ? this.#bulk() : undefined;
    this.contents = options.contents ?? new MemoryContents();
    this.marks = options.marks;
    this.#latencyMs = options.latencyMs ?? 0;
    this.#timeoutMs = options.timeoutMs ?? SETTINGS.BUCKET_TIMEOUT_MS.default;
    this.#partBytes = options.partBytes ?? 64 * 1024;
  }

  async start(): Promise<void> {
    assert(this.#state === "new", "a bucket is started once");
    this.#state = "started";
  }

  /** Requests under way fail; what they do may still take effect, as with any store. */
  async stop(): Promise<void> {
    this.#state = "stopped";
    for (const abandon of this.#abandon) abandon();
  }

  /** Requests so far, by kind. */
  counts(): Readonly<Record<BucketOperation, number>> {
    const counts = BUCKET_OPERATIONS.map((operation) => [operation, this.#counts.get(operation) ?? 0]);
    return Object.fromEntries(counts) as Record<BucketOperation, number>;
  }

  /** Holds every changing request before it takes effect, until released. */
  gate(): Hold {
    return this.faults.hold(CHANGING_OPERATIONS, "before");
  }

  /** Damages what is stored under `key`: by default one bit in the middle. */
  corrupt(key: string, change: (bytes: Uint8Array) => Uint8Array = flipBit): void {
    this.contents.corrupt(key, change);
  }

  async get(key: string): Promise<BucketObject | undefined> {
    checkBucketKey(key);
    return this.#request("get", () => this.contents.get(key));
  }

  async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    checkWrites(writes, this.atomic);
    const copies = writes.map((write) => ({ ...write, bytes: new Uint8Array(write.bytes) }));
    return this.#request("write", () => this.contents.apply(copies));
  }

  #bulk(): BucketBulk {
    return {
      get: async (keys) => {
        for (const key of keys) checkBucketKey(key);
        return this.#request("get", () => keys.map((key) => this.contents.get(key)));
      },
      write: async (batches) => {
        for (const writes of batches) checkWrites(writes, this.atomic);
        const copies = batches.map((writes) =>
          writes.map((write) => ({ ...write, bytes: new Uint8Array(write.bytes) })),
        );
        return this.#request("write", () => copies.map((writes) => this.contents.apply(writes)));
      },
    };
  }

  async writeStream(key: string, parts: AsyncIterable<Uint8Array>): Promise<Version> {
    checkBucketKey(key);
    const collected: Uint8Array[] = [];
    for await (const part of parts) collected.push(new Uint8Array(part));
    const bytes = Buffer.concat(collected);
    const outcome = await this.#request("write_stream", () => this.contents.apply([{ key, bytes }]));
    assert(outcome.kind === "landed" && outcome.versions[0] !== undefined, "a write without a condition lands");
    return outcome.versions[0];
  }

  async readStream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    checkBucketKey(key);
    const stored = await this.#request("read_stream", () => this.contents.get(key));
    return stored && slices(stored.bytes, this.#partBytes);
  }

  async list(prefix: string, options: { readonly after?: string; readonly limit?: number } = {}): Promise<ListPage> {
    const limit = Math.min(options.limit ?? LIST_LIMIT_MAX, LIST_LIMIT_MAX);
    assert(limit >= 1, "a listing asks for at least one key");
    return this.#request("list", () => this.contents.list(prefix, options.after, limit));
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkBucketKey(key);
    return this.#request("delete", () => this.contents.delete(keys));
  }

  #request<T>(operation: BucketOperation, effect: () => T): Promise<T> {
    assert(this.#state !== "new", "the bucket is started before it is used");
    this.#counts.set(operation, (this.#counts.get(operation) ?? 0) + 1);
    if (this.#state === "stopped") return Promise.reject(bucketError("refused", "the memory bucket is stopped"));
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        timer.cancel();
        this.#abandon.delete(abandon);
      };
      const fail = (error: unknown): void => {
        settle();
        reject(error);
      };
      const abandon = (): void => fail(noAnswer(operation, "the bucket was stopped"));
      const timer = this.#world.timers.after(this.#timeoutMs, () =>
        fail(noAnswer(operation, `no answer within ${this.#timeoutMs} ms`)),
      );
      this.#abandon.add(abandon);
      this.#travel(operation, effect).then((result) => {
        settle();
        resolve(result);
      }, fail);
    });
  }

  /** The way of one request: there, its effect, and back, with whatever fault was planned for it. */
  async #travel<T>(operation: BucketOperation, effect: () => T): Promise<T> {
    const fault = this.faults.take(operation);
    const throttledForMs = this.faults.throttledForMs(this.#world.clock.monotonicMs());
    await this.#delay(operation);
    if (throttledForMs !== undefined) {
      throw bucketError("refused", "the memory bucket is throttled", {
        retryAfterMs: Math.ceil(throttledForMs),
        details: { throttled: true },
      });
    }
    if (fault?.kind === "refused")
      throw bucketError("refused", `the memory bucket was told to refuse this ${operation}`);
    await this.faults.pass(operation, "before");
    if (fault?.kind === "late") this.#world.timers.after(fault.landsAfterMs, effect);
    if (fault?.kind === "late" || fault?.kind === "lost_request") throw lost(operation, fault);
    const result = effect();
    await this.faults.pass(operation, "after");
    await this.#delay(operation);
    if (fault?.kind === "lost_answer") throw lost(operation, fault);
    return result;
  }

  #delay(operation: BucketOperation): Promise<void> {
    const latencyMs = typeof this.#latencyMs === "number" ? this.#latencyMs : this.#latencyMs(operation, this.#world);
    return latencyMs > 0 ? sleep(this.#world, latencyMs) : yieldTurn(this.#world);
  }
}

function lost(operation: BucketOperation, fault: Fault): Error {
  return noAnswer(operation, `the memory bucket was told to lose it (${fault.kind})`);
}

/** A read without an answer did nothing, so it is refused; a change without one may have happened. */
function noAnswer(operation: BucketOperation, reason: string): Error {
  return bucketError(CHANGING_OPERATIONS.includes(operation) ? "unknown" : "refused", `${operation}: ${reason}`);
}

function flipBit(bytes: Uint8Array): Uint8Array {
  const middle = Math.floor(bytes.length / 2);
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  return bytes;
}

async function* slices(bytes: Uint8Array, partBytes: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += partBytes) yield bytes.subarray(start, start + partBytes);
}
