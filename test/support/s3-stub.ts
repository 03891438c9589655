/**
 * A stub of S3 in memory, for the answers that no server on this machine gives: AWS's own, and those of stores that lie.
 *
 * Path style, one region, no signatures. What it knows: objects with conditions and ranges, DeleteObjects, ListObjectsV2,
 * multipart uploads, and the manners below, which a test may change while it runs. It proves nothing about a real store.
 */
import http from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { decodeAwsChunked } from "./aws-chunked.js";
import { s3ErrorDocument } from "./s3-error-document.js";
import { type S3RequestKind, s3Address, s3RequestKind } from "./s3-request-kind.js";
import { OPERATIONS, type StubManners } from "./s3-stub-operations.js";
import { errorReply, type StubReply } from "./s3-stub-replies.js";
import { StubBucket } from "./s3-stub-store.js";

export type { StubManners } from "./s3-stub-operations.js";

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
  /** Holds the next requests that match until so many have begun: they then overlap. */
  gather(match: StubMatch, count: number): void;
  stop(): Promise<void>;
}

export interface S3StubOptions {
  /** Buckets that exist from the start. Others answer NoSuchBucket. */
  readonly buckets?: readonly string[];
  readonly manners?: Partial<StubManners>;
}

export async function startS3Stub(options: S3StubOptions = {}): Promise<S3Stub> {
  const stub = new HttpS3Stub(options);
  await stub.listen();
  return stub;
}

interface Canned {
  readonly match: StubMatch;
  readonly answer: StubAnswer;
  times: number;
}

interface Gathering {
  readonly match: StubMatch;
  left: number;
  readonly go: () => void;
  readonly gone: Promise<void>;
}

const HOST = "127.0.0.1";
const SKEW_MAX_MS = 15 * 60_000;
/** Longer than any test waits between two requests. */
const KEEP_ALIVE_MS = 600_000;
/** The oldest are forgotten. */
const REQUESTS_MAX = 100_000;

class HttpS3Stub implements S3Stub {
  readonly requests: StubRequest[] = [];
  readonly manners: StubManners;
  readonly #buckets: Map<string, StubBucket>;
  readonly #canned: Canned[] = [];
  readonly #gatherings: Gathering[] = [];
  readonly #server: http.Server;
  port = 0;

  constructor({ buckets = [], manners = {} }: S3StubOptions) {
    this.manners = {
      conditions: "kept",
      ifMatchQuotes: "either",
      ifMatchAbsentStatus: 404,
      conflictsInRaces: false,
      clockAheadMs: 0,
      completesWithError: false,
      listing: "kept",
      ...manners,
    };
    this.#buckets = new Map(buckets.map((name) => [name, new StubBucket()]));
    this.#server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
      // A client that goes away in the middle of its request has no answer to get.
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  get endpoint(): string {
    return `http://${HOST}:${this.port}`;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, HOST, resolve));
    this.port = (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  bytes(bucket: string, key: string): Uint8Array | undefined {
    return this.#buckets.get(bucket)?.objects.get(key)?.bytes;
  }

  keys(bucket: string): readonly string[] {
    return this.#buckets.get(bucket)?.keys() ?? [];
  }

  openUploads(bucket: string): readonly { readonly key: string; readonly uploadId: string }[] {
    const uploads = [...(this.#buckets.get(bucket)?.uploads.values() ?? [])];
    return uploads.map(({ key, uploadId }) => ({ key, uploadId }));
  }

  next(match: StubMatch, answer: StubAnswer, times = 1): void {
    this.#canned.push({ match, answer, times });
  }

  always(match: StubMatch, answer: StubAnswer): () => void {
    const canned = { match, answer, times: Number.POSITIVE_INFINITY };
    this.#canned.push(canned);
    return () => {
      canned.times = 0;
    };
  }

  gather(match: StubMatch, count: number): void {
    let go = () => {};
    const gone = new Promise<void>((resolve) => {
      go = resolve;
    });
    this.#gatherings.push({ match, left: count, go, gone });
  }

  async #serve(message: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const request = this.#note(message);
    const canned = this.#take(request);
    const reply = canned && !canned.applies ? undefined : await this.#reply(request, message);
    message.resume();
    this.#send(response, canned ? cannedReply(canned) : (reply as StubReply));
  }

  #note({ method = "", url = "", headers }: http.IncomingMessage): StubRequest {
    const address = s3Address(url);
    const { bucket, key } = address;
    const request = { method, path: url, kind: s3RequestKind(method, address), bucket, key, headers };
    this.requests.push(request);
    if (this.requests.length > REQUESTS_MAX) this.requests.splice(0, REQUESTS_MAX / 2);
    return request;
  }

  #take(request: StubRequest): StubAnswer | undefined {
    const canned = this.#canned.find(({ match, times }) => times > 0 && matches(match, request));
    if (canned) canned.times -= 1;
    return canned?.answer;
  }

  async #untilGathered(request: StubRequest): Promise<void> {
    const gathering = this.#gatherings.find(({ match, left }) => left > 0 && matches(match, request));
    if (!gathering) return;
    gathering.left -= 1;
    if (gathering.left === 0) gathering.go();
    await gathering.gone;
  }

  async #reply(request: StubRequest, message: http.IncomingMessage): Promise<StubReply> {
    const { kind, bucket: name, key, path } = request;
    const { headers } = message;
    const changesAtBegin = this.#buckets.get(name)?.changesOf(key) ?? 0;
    const body = decodeAwsChunked(headers, await buffer(message));
    await this.#untilGathered(request);
    const nowMs = this.#nowMs();
    if (isSkewed(headers, nowMs)) return errorReply(403, "RequestTimeTooSkewed");
    if (kind === "create_bucket") return this.#createBucket(name);
    const bucket = this.#buckets.get(name);
    if (!bucket) return errorReply(404, "NoSuchBucket", "The specified bucket does not exist");
    const { query } = s3Address(path);
    return OPERATIONS[kind](bucket, { key, query, headers, body, manners: this.manners, nowMs, changesAtBegin });
  }

  #createBucket(name: string): StubReply {
    if (this.#buckets.has(name)) return errorReply(409, "BucketAlreadyOwnedByYou");
    this.#buckets.set(name, new StubBucket());
    return { status: 200 };
  }

  #send(response: http.ServerResponse, { status, headers, body = "" }: StubReply): void {
    response.sendDate = false;
    response.writeHead(status, {
      date: new Date(this.#nowMs()).toUTCString(),
      "x-amz-request-id": "stub",
      ...(status === 204 || status === 304 ? {} : { "content-length": Buffer.byteLength(body) }),
      ...headers,
    });
    response.end(body);
  }

  #nowMs(): number {
    return Date.now() + this.manners.clockAheadMs;
  }
}

function cannedReply({ status, code, headers = {} }: StubAnswer): StubReply {
  return { status, headers, body: code === undefined ? "" : s3ErrorDocument(code) };
}

function isSkewed(headers: http.IncomingHttpHeaders, nowMs: number): boolean {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers["x-amz-date"])) ?? [];
  if (year === undefined) return false;
  const sentMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Math.abs(sentMs - nowMs) > SKEW_MAX_MS;
}

function matches(match: StubMatch, request: StubRequest): boolean {
  if (typeof match === "function") return match(request);
  return match === "any" || match === request.kind;
}
