/**
 * The durable store, as the core sees it: keys, bytes, versions, and a compare-and-swap.
 *
 * Adapters (embedded SQLite, S3, memory) implement this; one conformance suite runs against each. A write ends in exactly
 * one of four ways: it landed, it cleanly lost its condition, it was refused (nothing happened), or nobody knows
 * (`outcome: "unknown"`): then the caller reads back before it believes anything (docs/architecture.md, the ambiguity rule).
 */
import { type ErrorOptionsBag, MoonportError } from "../errors.js";
import type { ProbeCheck } from "./probe-check.js";
import type { RequestCounts } from "./request-counts.js";

/** Opaque; changes with every write of a key. S3: the ETag. */
export type Version = string;

export interface BucketObject {
  readonly bytes: Uint8Array;
  readonly version: Version;
}

/** `absent`: the key must not exist. A version: the key must stand at it. Neither: whatever is there is replaced. */
export type WriteCondition = { readonly absent: true } | { readonly version: Version };

export interface BucketWrite {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly condition?: WriteCondition;
}

/** What a bucket may take into account. None of it changes what becomes of a write. */
export interface WriteHint {
  /** One caller waits for it, who is all that the node works for: nobody else is held up where it blocks. */
  readonly isLone?: boolean;
}

export type WriteOutcome =
  /** Durable. One version per write, in order. */
  | { readonly kind: "landed"; readonly versions: readonly Version[] }
  /** A condition did not hold; nothing of the batch was written. `key` is the first that failed. */
  | { readonly kind: "lost"; readonly key: string };

export interface ListPage {
  /** In ascending order of their UTF-8 bytes. */
  readonly keys: readonly string[];
  /** Pass as `after` for the next page; absent at the end. */
  readonly next?: string;
}

/** Many requests that travel as one. */
export interface BucketBulk {
  /** As so many calls of `get`, in their order. */
  get(keys: readonly string[]): Promise<readonly (BucketObject | undefined)[]>;
  /** As so many calls of `write`, one after the other: each lands or loses its condition for itself. What fails fails for all. */
  write(batches: readonly (readonly BucketWrite[])[]): Promise<readonly WriteOutcome[]>;
}

/** Which processes live, where all that share the bucket run on one machine. */
export interface ProcessMarks {
  /** The same at each call, held until the bucket is stopped. Undefined where no mark can be made. */
  hold(): string | undefined;
  /** Only if the process that held it has certainly ended: nothing that it began is still under way. Never throws. */
  hasEnded(mark: string): boolean;
}

export interface Bucket {
  /** For messages: `sqlite:PATH`, `s3://...`, `memory:`; never a secret. */
  readonly name: string;
  /** Whether several writes in one call land together or not at all. Without it `write` takes one at a time. */
  readonly atomic: boolean;
  /** Where many requests cost little more than one. Only an atomic bucket has it. */
  readonly bulk?: BucketBulk | undefined;
  readonly marks?: ProcessMarks | undefined;
  /** Where requests cost money: how many there were so far. */
  readonly requests?: RequestCounts;
  /** What an operator may try when the probe finds this promise broken, where the bucket knows more than that. */
  hintFor?(check: ProbeCheck): string | undefined;
  start(): Promise<void>;
  /** Ends what is under way and releases everything; idempotent. */
  stop(): Promise<void>;
  get(key: string): Promise<BucketObject | undefined>;
  write(writes: readonly BucketWrite[], hint?: WriteHint): Promise<WriteOutcome>;
  /** Writes one large object in parts with bounded memory; it becomes visible whole, at the end, or not at all. Replaces without condition. */
  writeStream(key: string, parts: AsyncIterable<Uint8Array>): Promise<Version>;
  /** Reads in parts; `undefined` when there is no such key. Works for objects written either way. */
  readStream(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  list(prefix: string, options?: { readonly after?: string; readonly limit?: number }): Promise<ListPage>;
  /** Absent keys are no error. */
  delete(keys: readonly string[]): Promise<void>;
}

/** What only reads: it changes nothing in the bucket, whoever else is at work on it. */
export type BucketReader = Pick<Bucket, "name" | "requests" | "start" | "stop" | "get" | "readStream" | "list">;

export const LIST_LIMIT_MAX = 1_000;

/** What is known about a request that failed. */
export type FailureOutcome = "refused" | "unknown";

/** Marks a `bucket_failed` error with what is known of the request; `outcome` stands in its details. */
export function bucketError(outcome: FailureOutcome, message: string, bag: ErrorOptionsBag = {}): MoonportError {
  return MoonportError.of("bucket_failed", message, { ...bag, details: { ...bag.details, outcome } });
}

/** Whether a failed write may have happened all the same: everything that is not known to be refused. */
export function mayHaveLanded(error: unknown): boolean {
  return !(error instanceof MoonportError && error.details?.outcome === "refused");
}
