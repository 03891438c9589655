/**
 * The SDK behind the few requests that a bucket makes: the one file that knows its commands.
 *
 * It is loaded when a bucket is opened, so that a node on another kind of bucket never reads its code. Its own retries are
 * off: repeating a conditional write whose answer was lost turns our own success into somebody else's. Its sockets, its
 * reading of credentials and the clock it signs by are its own; everything that this project decides — how long, how many,
 * when again — is decided outside, by the world's clock.
 */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";
import type { Settings } from "../../settings/settings.js";
import type { Version, WriteCondition } from "../bucket.js";
import type { S3Location } from "./s3-location.js";

/** One try of a request, as seen from outside while it is under way. */
export class Call {
  readonly #abort = new AbortController();
  /** Whether it was handed to a connection: before that, nothing can have happened. */
  sent = false;
  timedOut = false;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  timeOut(): void {
    this.timedOut = true;
    this.#abort.abort();
  }
}

export interface StoredBytes {
  readonly bytes: Buffer;
  readonly version: Version;
  /** Of the whole object, also when a range of it was asked for. */
  readonly totalBytes: number;
}

export interface UploadedPart {
  readonly number: number;
  readonly etag: string;
}

export interface PendingUpload {
  /** With the bucket's prefix. */
  readonly key: string;
  readonly id: string;
  readonly begunMs: number;
}

export interface ListedKeys {
  readonly keys: readonly string[];
  /** Whether others follow. */
  readonly hasMore: boolean;
  /** For the page that follows; some stores give none. */
  readonly token: string | undefined;
}

/** Where a page of a listing starts: after a key, or where the page before ended. */
export type ListStart = { readonly after: string | undefined } | { readonly token: string };

export type ReadRange =
  | { readonly kind: "part"; readonly from: number; readonly bytes: number; readonly version: Version | undefined }
  | { readonly kind: "tail"; readonly bytes: number };

export type ApiSettings = Pick<Settings, "BUCKET_CONNECT_MS" | "BUCKET_REQUESTS_MAX">;

/** Keys are whole S3 keys here, with the prefix. Whatever fails is thrown as the SDK gives it: s3-failure.ts reads it. */
export class S3Api {
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #location: S3Location;

  private constructor(sdk: Sdk, client: S3Client, location: S3Location) {
    this.#sdk = sdk;
    this.#client = client;
    this.#location = location;
  }

  /** @throws whatever the SDK says of a region or a profile that it cannot find */
  static async open(location: S3Location, settings: ApiSettings): Promise<S3Api> {
    const sdk = await loadSdk();
    const client = await newClient(sdk, location, settings);
    return new S3Api(sdk, client, location);
  }

  close(): void {
    this.#client.destroy();
  }

  /** Finds the credentials, which are found again whenever they run out. @throws when there are none */
  async findCredentials(): Promise<void> {
    await this.#client.config.credentials();
  }

  /** The store's time against this machine's, as its answers tell. */
  get clockAheadMs(): number {
    return this.#client.config.systemClockOffset;
  }

  async get(key: string, range: ReadRange | undefined, call: Call): Promise<StoredBytes> {
    const command = new this.#sdk.GetObjectCommand({
      ...this.#at(key),
      ...(range !== undefined && { Range: rangeText(range) }),
      ...(range?.kind === "part" && range.version !== undefined && { IfMatch: quoted(range.version) }),
    });
    const answer = await this.#client.send(command, { abortSignal: tracked(call) });
    const bytes = await bodyOf(answer.Body as Readable | undefined, answer.ContentLength);
    const version = checkedEtag(answer.ETag);
    return { bytes, version, totalBytes: totalOf(answer.ContentRange) ?? bytes.length };
  }

  async put(key: string, body: Buffer, condition: WriteCondition | undefined, call: Call): Promise<Version> {
    const command = new this.#sdk.PutObjectCommand({ ...this.#at(key), Body: body, ...this.#header(condition) });
    return checkedEtag((await this.#client.send(command, { abortSignal: tracked(call) })).ETag);
  }

  async list(prefix: string, start: ListStart, limit: number, call: Call): Promise<ListedKeys> {
    const command = new this.#sdk.ListObjectsV2Command({
      Bucket: this.#location.bucket,
      Prefix: prefix,
      MaxKeys: limit,
      // Without it keys with control characters make a document that no parser reads.
      EncodingType: "url",
      ...("token" in start ? { ContinuationToken: start.token } : {}),
      ...("after" in start && start.after !== undefined ? { StartAfter: start.after } : {}),
    });
    const answer = await this.#client.send(command, { abortSignal: tracked(call) });
    const isEncoded = answer.EncodingType === "url";
    const keys = (answer.Contents ?? []).map(({ Key = "" }) => (isEncoded ? urlDecoded(Key) : Key));
    return { keys, hasMore: answer.IsTruncated === true, token: answer.NextContinuationToken };
  }

  async delete(key: string, call: Call): Promise<void> {
    await this.#client.send(new this.#sdk.DeleteObjectCommand(this.#at(key)), { abortSignal: tracked(call) });
  }

  /** @throws the first failure of a single key */
  async deleteMany(keys: readonly string[], call: Call): Promise<void> {
    const command = new this.#sdk.DeleteObjectsCommand({
      Bucket: this.#location.bucket,
      Delete: { Quiet: true, Objects: keys.map((Key) => ({ Key })) },
    });
    const { Errors } = await this.#client.send(command, { abortSignal: tracked(call) });
    const [first] = Errors ?? [];
    if (first !== undefined) throw keyError(first.Code, first.Message);
  }

  async createUpload(key: string, call: Call): Promise<string> {
    const command = new this.#sdk.CreateMultipartUploadCommand(this.#at(key));
    const { UploadId } = await this.#client.send(command, { abortSignal: tracked(call) });
    if (UploadId === undefined) throw new Error("the store began an upload without an id");
    return UploadId;
  }

  async uploadPart(key: string, uploadId: string, number: number, body: Uint8Array, call: Call): Promise<string> {
    const command = new this.#sdk.UploadPartCommand({
      ...this.#at(key),
      UploadId: uploadId,
      PartNumber: number,
      Body: body,
    });
    return checkedEtag((await this.#client.send(command, { abortSignal: tracked(call) })).ETag);
  }

  /** @returns undefined where the store does not say: Ceph's gateway leaves the etag empty */
  async completeUpload(
    key: string,
    uploadId: string,
    parts: readonly UploadedPart[],
    call: Call,
  ): Promise<Version | undefined> {
    const command = new this.#sdk.CompleteMultipartUploadCommand({
      ...this.#at(key),
      UploadId: uploadId,
      MultipartUpload: { Parts: parts.map(({ number, etag }) => ({ PartNumber: number, ETag: quoted(etag) })) },
    });
    const etag = bare((await this.#client.send(command, { abortSignal: tracked(call) })).ETag ?? "");
    return etag === "" ? undefined : etag;
  }

  async abortUpload(key: string, uploadId: string, call: Call): Promise<void> {
    const command = new this.#sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: uploadId });
    await this.#client.send(command, { abortSignal: tracked(call) });
  }

  async listUploads(
    prefix: string,
    after: PendingUpload | undefined,
    call: Call,
  ): Promise<{ readonly uploads: readonly PendingUpload[]; readonly more: boolean }> {
    const command = new this.#sdk.ListMultipartUploadsCommand({
      Bucket: this.#location.bucket,
      Prefix: prefix,
      EncodingType: "url",
      ...(after !== undefined && { KeyMarker: after.key, UploadIdMarker: after.id }),
    });
    const answer = await this.#client.send(command, { abortSignal: tracked(call) });
    const isEncoded = answer.EncodingType === "url";
    const uploads = (answer.Uploads ?? []).flatMap(({ Key, UploadId, Initiated }): PendingUpload[] => {
      if (Key === undefined || UploadId === undefined || Initiated === undefined) return [];
      return [{ key: isEncoded ? urlDecoded(Key) : Key, id: UploadId, begunMs: Initiated.getTime() }];
    });
    return { uploads, more: answer.IsTruncated === true };
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#location.bucket, Key: key };
  }

  #header(condition: WriteCondition | undefined): { IfNoneMatch?: string; IfMatch?: string } {
    if (condition === undefined) return {};
    if ("absent" in condition) return { IfNoneMatch: "*" };
    return { IfMatch: this.#location.ifMatchQuotes ? quoted(condition.version) : condition.version };
  }
}

/** What an etag may be, without its quotes. Anything else never was a version, and must not become a header. */
export function isEtag(version: Version): boolean {
  return /^[\x21\x23-\x7e]{1,256}$/.test(version);
}

function bare(etag: string): string {
  return etag.replace(/^"(.*)"$/, "$1");
}

function quoted(etag: string): string {
  return `"${etag}"`;
}

/** @throws Error, read as an answer that is none: a write with such an answer may have happened */
function checkedEtag(etag: string | undefined): Version {
  const version = bare(etag ?? "");
  if (!isEtag(version)) throw new Error("the store's answer has no etag that could be a version");
  return version;
}

function rangeText(range: ReadRange): string {
  return range.kind === "tail" ? `bytes=-${range.bytes}` : `bytes=${range.from}-${range.from + range.bytes - 1}`;
}

function totalOf(contentRange: string | undefined): number | undefined {
  const total = /\/(\d+)$/.exec(contentRange ?? "")?.[1];
  return total === undefined ? undefined : Number(total);
}

/** S3 writes a space as `+` there, others as `%20`; a plus is `%2B` with all. */
function urlDecoded(text: string): string {
  return decodeURIComponent(text.replaceAll("+", "%20"));
}

/** @throws Error when it is not as long as it was said to be */
async function bodyOf(body: Readable | undefined, lengthBytes: number | undefined): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk as Buffer);
  const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  if (lengthBytes !== undefined && bytes.length !== lengthBytes) {
    throw new Error(`the body has ${bytes.length} bytes instead of ${lengthBytes}`);
  }
  return bytes;
}

/** Shaped as the SDK shapes a whole request's failure. */
function keyError(code = "InternalError", message = "a key could not be deleted"): Error {
  const status = code === "SlowDown" || code === "ServiceUnavailable" ? 503 : code === "InternalError" ? 500 : 403;
  return Object.assign(new Error(message), { name: code, $metadata: { httpStatusCode: status } });
}

type Sdk = typeof import("@aws-sdk/client-s3");

/** Its warning about versions of Node concerns later versions of it; ours is pinned. */
const QUIET = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";

function loadSdk(): Promise<Sdk> {
  return import("@aws-sdk/client-s3");
}

/** Where there is an endpoint, a region is only part of the signature: this one is what all such stores take. */
const REGION_OF_ENDPOINTS = "us-east-1";

async function newClient(sdk: Sdk, location: S3Location, settings: ApiSettings): Promise<S3Client> {
  const requestHandler = await newHandler(settings);
  const client = constructed(sdk, location, requestHandler, location.region);
  try {
    await client.config.region();
    return client;
  } catch (error) {
    if (location.endpoint === undefined) throw error;
    return constructed(sdk, location, requestHandler, REGION_OF_ENDPOINTS);
  }
}

function constructed(
  sdk: Sdk,
  location: S3Location,
  requestHandler: Awaited<ReturnType<typeof newHandler>>,
  region: string | undefined,
): S3Client {
  const before = process.env[QUIET];
  process.env[QUIET] = "true";
  try {
    const checksums = location.checksums === "when-required" ? "WHEN_REQUIRED" : "WHEN_SUPPORTED";
    const client = new sdk.S3Client({
      requestHandler,
      maxAttempts: 1,
      forcePathStyle: location.pathStyle,
      requestChecksumCalculation: checksums,
      responseChecksumValidation: checksums,
      ...(location.endpoint !== undefined && { endpoint: location.endpoint }),
      ...(region !== undefined && { region }),
    });
    addContentMd5(client);
    return client;
  } finally {
    if (before === undefined) delete process.env[QUIET];
    else process.env[QUIET] = before;
  }
}

/** Stores that are older than S3's checksum headers refuse DeleteObjects without it. */
function addContentMd5(client: S3Client): void {
  client.middlewareStack.add(
    (next, context) => (args) => {
      const request = args.request as { body?: unknown; headers: Record<string, string> };
      if (context.commandName === "DeleteObjectsCommand" && typeof request.body === "string") {
        request.headers["content-md5"] = createHash("md5").update(request.body).digest("base64");
      }
      return next(args);
    },
    { step: "build", priority: "low", name: "contentMd5" },
  );
}

/** Which call a request belongs to: the SDK passes the signal through to its handler. */
const callsBySignal = new WeakMap<object, Call>();

function tracked(call: Call): AbortSignal {
  callsBySignal.set(call.signal, call);
  return call.signal;
}

/** Stores close connections that nobody uses; one that is about to be closed must not be given a write. */
const SOCKET_IDLE_MS = 10_000;

async function newHandler(settings: ApiSettings) {
  const { NodeHttpHandler } = await import("@smithy/node-http-handler");
  const agent = { keepAlive: true, maxSockets: settings.BUCKET_REQUESTS_MAX, noDelay: true, timeout: SOCKET_IDLE_MS };
  class TellingHandler extends NodeHttpHandler {
    override handle(...[request, options]: Parameters<InstanceType<typeof NodeHttpHandler>["handle"]>) {
      const call = options?.abortSignal && callsBySignal.get(options.abortSignal);
      if (call) call.sent = true;
      return super.handle(request, options);
    }
  }
  return new TellingHandler({ connectionTimeout: settings.BUCKET_CONNECT_MS, httpAgent: agent, httpsAgent: agent });
}
