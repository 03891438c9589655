/**
 * One session of this node, from the write that made it until it is over (M1). It promises that once it was over for anybody it
 * is over for itself, and stays so.
 *
 * It is valid until ttl − margin after the *start* of the last renewal that is known to have landed, by the monotonic clock
 * at the very moment of the question: a process that was stopped gets its answer wrong neither before nor after its timers
 * have run. A renewal that becomes known only after that counts for nothing. Whoever reads an unchanged record ttl + margin
 * after it first saw that record therefore knows that no renewal on the way can bring the session back (docs/cluster.md).
 */
import { type ResolvableWrite, type ResolvedWrite, tryWrite } from "../bucket/ambiguous-write.js";
import type { Bucket, Version } from "../bucket/bucket.js";
import { isOwn } from "../errors.js";
import type { Timer, World } from "../world/world.js";
import type { NodeRecord } from "./contract.js";
import { decodeRecord, encodeRecord, stored } from "./node-record.js";

export interface OwnSessionOptions {
  readonly world: Pick<World, "clock" | "timers" | "random">;
  readonly bucket: Bucket;
  readonly marginMs: number;
  readonly record: NodeRecord;
  /** Where the record stands, since when, and when the write that put it there was begun. */
  readonly key: string;
  readonly version: Version;
  readonly startedMs: number;
  /** What the record says anew is known to stand: others can read it. */
  readonly changed: () => void;
  /** Called once, unless it was stopped: by a timer, or by whoever asked whether the session is valid. */
  readonly over: (why: OverReason) => void;
}

/** Its time was up, or something else stands in the bucket where its record should. */
export type OverReason = "time" | "record";

/** Renewals begin this share of the ttl after one another, and one without an answer is sent again after the other share. */
const RENEWALS_PER_TTL = 3;
const TRIES_PER_TTL = 12;

/** One write and all its tries. */
interface Renewal {
  readonly record: NodeRecord;
  readonly write: ResolvableWrite;
  /** Of its first try: which of them landed may never be known. */
  readonly startedMs: number;
  tries: number;
}

export class OwnSession {
  readonly key: string;
  readonly #options: OwnSessionOptions;
  #record: NodeRecord;
  /** What is known to stand in the bucket. */
  #standing: NodeRecord;
  #version: Version;
  #validUntilMs: number;
  #isOver = false;
  #renewal: Renewal | undefined;
  #renewTimer: Timer | undefined;
  #overTimer: Timer | undefined;

  constructor(options: OwnSessionOptions) {
    this.#record = options.record;
    this.#standing = options.record;
    this.key = options.key;
    this.#options = options;
    this.#version = options.version;
    this.#validUntilMs = this.#validFrom(options.startedMs);
  }

  get record(): NodeRecord {
    return this.#record;
  }

  /** What else the record is to say, as soon as it can. */
  change(fields: Partial<Pick<NodeRecord, "clientAddress" | "releases" | "weight">>): void {
    this.#record = { ...this.#record, ...fields };
    if (this.#isOver || this.#renewal !== undefined) return;
    this.#renewTimer?.cancel();
    this.#renew();
  }

  start(): void {
    this.#planRenewal(this.#options.startedMs);
    this.#watch();
  }

  /** Ends it without a word to `over`. */
  stop(): void {
    this.#isOver = true;
    this.#renewTimer?.cancel();
    this.#overTimer?.cancel();
  }

  isValid(): boolean {
    if (this.#isOver) return false;
    if (this.#nowMs() < this.#validUntilMs) return true;
    this.#end("time");
    return false;
  }

  /** How long it is still valid if no further renewal lands; not above 0 when it is over. */
  get leftMs(): number {
    return this.#isOver ? 0 : this.#validUntilMs - this.#nowMs();
  }

  #nowMs(): number {
    return this.#options.world.clock.monotonicMs();
  }

  #validFrom(startedMs: number): number {
    return startedMs + this.record.ttlMs - this.#options.marginMs;
  }

  #end(why: OverReason): void {
    if (this.#isOver) return;
    this.stop();
    this.#options.over(why);
  }

  /** Asks itself at the end of its time. */
  #watch(): void {
    if (!this.isValid()) return;
    const leftMs = Math.max(1, this.#validUntilMs - this.#nowMs());
    this.#overTimer = this.#options.world.timers.after(leftMs, () => this.#watch());
  }

  #planRenewal(lastStartedMs: number): void {
    const dueMs = lastStartedMs + this.record.ttlMs / RENEWALS_PER_TTL;
    this.#renewTimer = this.#options.world.timers.after(Math.max(0, dueMs - this.#nowMs()), () => this.#renew());
  }

  #renew(): void {
    if (!this.isValid()) return;
    const { world } = this.#options;
    const startedMs = this.#nowMs();
    const next = stored(this.record, { kind: "open" }, world);
    const write: ResolvableWrite = {
      key: this.key,
      bytes: encodeRecord(next),
      condition: { version: this.#version },
      recognise: (bytes) => decodeRecord(this.key, bytes).rid === next.rid,
    };
    this.#renewal = { record: this.record, write, startedMs, tries: 0 };
    this.#try(this.#renewal);
  }

  /**
   * The same write goes out again and again until it is known what became of it, also while an earlier try still waits for
   * its answer: a request that hangs must not cost a session that the next request would save. The end of the session's time
   * bounds them.
   */
  #try(renewal: Renewal): void {
    if (this.#renewal !== renewal || !this.isValid()) return;
    const isFirst = renewal.tries === 0;
    renewal.tries += 1;
    this.#renewTimer?.cancel();
    const pauseMs = this.record.ttlMs / TRIES_PER_TTL;
    this.#renewTimer = this.#options.world.timers.after(pauseMs, () => this.#try(renewal));
    tryWrite(this.#options.bucket, renewal.write, !isFirst).then(
      (result) => this.#known(renewal, result),
      (error: unknown) => this.#failed(renewal, error),
    );
  }

  #known(renewal: Renewal, result: ResolvedWrite): void {
    // Looked at before anything is believed: a renewal known too late must not bring back a session that others saw end.
    if (this.#renewal !== renewal || !this.isValid()) return;
    // The first try does not know that another of the same write may have landed before it.
    if (result.kind === "lost" && renewal.tries > 1) return this.#try(renewal);
    if (result.kind !== "landed") return this.#end("record");
    this.#renewal = undefined;
    this.#version = result.version;
    this.#validUntilMs = this.#validFrom(renewal.startedMs);
    this.#renewTimer?.cancel();
    if (renewal.record === this.record) this.#planRenewal(renewal.startedMs);
    else this.#renew();
    if (this.#standing === renewal.record) return;
    this.#standing = renewal.record;
    this.#options.changed();
  }

  /** The timer tries again. Any other error is a record that is none, or a fault of ours. */
  #failed(renewal: Renewal, error: unknown): void {
    if (this.#renewal !== renewal || isOwn(error, "bucket_failed")) return;
    this.#end("record");
  }
}
