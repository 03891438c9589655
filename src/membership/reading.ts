/**
 * Reading all nodes' records: one listing, then each record, as far as the bucket answers in time.
 *
 * Whoever asks a question gets a reading that began after it, shared with those who ask meanwhile; there is one at a time, so
 * what a reading finds is never older than what the one before it found. An answer that comes too late is dropped, or a
 * request that hangs would hold up everything that is known of the other nodes.
 */
import { setMaxListeners } from "node:events";
import { type BucketReader, bucketError, type Version } from "../bucket/bucket.js";
import { asMoonportError, type MoonportError } from "../errors.js";
import type { World } from "../world/world.js";
import { decodeRecord, NODES_PREFIX, nodePrefix, type StoredRecord } from "./node-record.js";

export interface Found {
  readonly stored: StoredRecord;
  readonly version: Version;
  /** Before the request left. */
  readonly begunMs: number;
  /** After its answer had come. */
  readonly seenMs: number;
}

export interface Reading {
  /** Before the first request left. */
  readonly begunMs: number;
  /** All keys there were; undefined when the listing failed. */
  readonly keys: ReadonlySet<string> | undefined;
  readonly found: ReadonlyMap<string, Found>;
  /** Listed, and gone when they were read. */
  readonly absent: ReadonlySet<string>;
  /** The first thing that could not be read. Without one this is everything. */
  readonly error: MoonportError | undefined;
}

const GETS_AT_ONCE = 32;

export interface RecordReaderOptions {
  readonly world: Pick<World, "clock" | "timers">;
  readonly bucket: Pick<BucketReader, "get" | "list">;
  /** How long one request may take. */
  readonly patienceMs: number;
  /** Only this node's records. */
  readonly node?: string;
  /** Nobody waits for a reading any more: what is under way ends at once. */
  readonly signal?: AbortSignal;
  /** Told of each reading, before those who wait for it. */
  readonly read?: (reading: Reading) => void;
}

export class RecordReader {
  readonly #world: RecordReaderOptions["world"];
  readonly #bucket: RecordReaderOptions["bucket"];
  readonly #prefix: string;
  readonly #patienceMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #read: (reading: Reading) => void;
  #running: Promise<Reading> | undefined;
  #next: Promise<Reading> | undefined;

  constructor(options: RecordReaderOptions) {
    this.#world = options.world;
    this.#bucket = options.bucket;
    this.#prefix = options.node === undefined ? NODES_PREFIX : nodePrefix(options.node);
    this.#patienceMs = options.patienceMs;
    this.#signal = options.signal;
    // Each request under way listens, and there are more of them than a process takes for a leak.
    if (options.signal !== undefined) setMaxListeners(GETS_AT_ONCE + 1, options.signal);
    this.#read = options.read ?? (() => {});
  }

  /** A reading that begins now or later. Never fails: what could not be read stands in it. */
  fresh(): Promise<Reading> {
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#begin();
    const begin = (): Promise<Reading> => this.#begin();
    // Whoever was told of the one before may have thrown: that is no reason never to read again.
    this.#next = this.#running.then(begin, begin);
    return this.#next;
  }

  #begin(): Promise<Reading> {
    this.#next = undefined;
    const running = this.#readAll().then((reading) => {
      this.#running = undefined;
      this.#read(reading);
      return reading;
    });
    this.#running = running;
    return running;
  }

  async #readAll(): Promise<Reading> {
    const begunMs = this.#world.clock.monotonicMs();
    const found = new Map<string, Found>();
    const absent = new Set<string>();
    let error: MoonportError | undefined;
    let keys: readonly string[];
    try {
      keys = await this.#list();
    } catch (thrown) {
      return { begunMs, keys: undefined, found, absent, error: asMoonportError(thrown) };
    }
    const left = [...keys];
    const readLeft = async (): Promise<void> => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) {
        try {
          const one = await this.#get(key);
          if (one === undefined) absent.add(key);
          else found.set(key, one);
        } catch (thrown) {
          error ??= asMoonportError(thrown);
        }
      }
    };
    await Promise.all(Array.from({ length: GETS_AT_ONCE }, readLeft));
    return { begunMs, keys: new Set(keys), found, absent, error };
  }

  async #list(): Promise<readonly string[]> {
    const keys: string[] = [];
    for (let after: string | undefined; ; ) {
      const page = await this.#inTime(this.#bucket.list(this.#prefix, after === undefined ? {} : { after }));
      keys.push(...page.keys);
      if (page.next === undefined) return keys;
      after = page.next;
    }
  }

  async #get(key: string): Promise<Found | undefined> {
    const begunMs = this.#world.clock.monotonicMs();
    const object = await this.#inTime(this.#bucket.get(key));
    const seenMs = this.#world.clock.monotonicMs();
    return object && { stored: decodeRecord(key, object.bytes), version: object.version, begunMs, seenMs };
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      // Of a bucket that hangs no answer may come for long: nothing is kept until then.
      const over = (): void => {
        timer.cancel();
        signal?.removeEventListener("abort", stopped);
      };
      const refuse = (why: string): void => {
        over();
        reject(bucketError("refused", why));
      };
      const stopped = (): void => refuse("the node stops");
      const timer = this.#world.timers.after(this.#patienceMs, () =>
        refuse(`the bucket did not answer within ${this.#patienceMs} ms`),
      );
      answer.then(resolve, reject).finally(over);
      if (signal?.aborted) stopped();
      else signal?.addEventListener("abort", stopped, { once: true });
    });
  }
}
