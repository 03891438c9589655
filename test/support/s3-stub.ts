/**
 * A stub of S3 in memory, for the answers that no server on this machine gives: AWS's own, and those of stores that lie.
 *
 * Path style, one region, no signatures. What it knows: objects with conditions and ranges, DeleteObjects, ListObjectsV2,
 * multipart uploads, and the manners below, which a test may change while it runs. It proves nothing about a real store.
 */
import type { S3RequestKind } from "./s3-request-kind.js";

export interface StubManners {
  /**
   * `ignored`: every condition holds (a store that lies). `create_only`: If-None-Match is kept, If-Match ignored.
   * `not_implemented`: a request with a condition is answered with 501. Default `kept`.
   */
  conditions: "kept" | "ignored" | "create_only" | "not_implemented";
  /** What If-Match must look like to match: AWS takes the etag in quotes and bare. Default `either`. */
  ifMatchQuotes: "either" | "required" | "forbidden";
  /** If-Match on a key that does not exist: AWS says 404 NoSuchKey, others 412. Default 404. */
  ifMatchAbsentStatus: 404 | 412;
  /** A conditional write that overlaps with another write of its key gets 409 ConditionalRequestConflict. Default false. */
  conflictsInRaces: boolean;
  /** The stub's clock against this machine's; beyond 15 minutes requests get 403 RequestTimeTooSkewed. Default 0. */
  clockAheadMs: number;
  /** CompleteMultipartUpload answers 200, and the body is an error. Default false. */
  completesWithError: boolean;
}

export interface StubAnswer {
  readonly status: number;
  /** Code of the S3 error document; without it the body is empty. */
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The request is carried out all the same. */
  readonly applies?: boolean;
}

export interface StubRequest {
  readonly method: string;
  readonly path: string;
  readonly kind: S3RequestKind;
  readonly bucket: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export type StubMatch = S3RequestKind | "any" | ((request: StubRequest) => boolean);

export interface S3Stub {
  readonly port: number;
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string;
  /** As they came. */
  readonly requests: readonly StubRequest[];
  /** May be changed at any time. */
  readonly manners: StubManners;
  /** The bytes at a key. */
  bytes(bucket: string, key: string): Uint8Array | undefined;
  keys(bucket: string): readonly string[];
  /** Uploads that were begun, and neither completed nor aborted. */
  openUploads(bucket: string): readonly { readonly key: string; readonly uploadId: string }[];
  /** Answers the next `times` (default 1) requests that match so. */
  next(match: StubMatch, answer: StubAnswer, times?: number): void;
  /** Answers all that match so, until the function given back is called. */
  always(match: StubMatch, answer: StubAnswer): () => void;
  stop(): Promise<void>;
}

export interface S3StubOptions {
  /** Buckets that exist from the start. Others answer NoSuchBucket. */
  readonly buckets?: readonly string[];
  readonly manners?: Partial<StubManners>;
}

export function startS3Stub(_options: S3StubOptions = {}): Promise<S3Stub> {
  throw new Error("not built yet");
}
