/** The operations of the S3 stub on one bucket: each takes a whole request and gives the reply. */
import { createHash, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { S3RequestKind } from "./s3-request-kind.js";
import { element, elementsIn, errorReply, objectReply, type StubReply, xmlReply } from "./s3-stub-replies.js";
import { objectOf, objectOfParts, type StoredObject, type StubBucket } from "./s3-stub-store.js";

export interface StubManners {
  /**
   * `ignored`: every condition of a write holds (a store that lies). `create_only`: If-None-Match is kept, If-Match ignored.
   * `not_implemented`: a write with a condition is answered with 501. Default `kept`.
   */
  conditions: "kept" | "ignored" | "create_only" | "not_implemented";
  /** What a write's If-Match must look like to match: AWS takes the etag in quotes and bare. Default `either`. */
  ifMatchQuotes: "either" | "required" | "forbidden";
  /** A write with If-Match on a key that does not exist: AWS says 404 NoSuchKey, others 412. Default 404. */
  ifMatchAbsentStatus: 404 | 412;
  /**
   * A conditional write during which somebody else's write of its key came to its end gets 409 ConditionalRequestConflict.
   * Default false.
   */
  conflictsInRaces: boolean;
  /** The stub's clock against this machine's; beyond 15 minutes requests get 403 RequestTimeTooSkewed. Default 0. */
  clockAheadMs: number;
  /** CompleteMultipartUpload answers 200, the body is an error, and nothing was completed. Default false. */
  completesWithError: boolean;
  /**
   * `without_token`: a page behind which there are more keys does not name where to go on. `from_the_start`: each page is the
   * first. Default `kept`.
   */
  listing: "kept" | "without_token" | "from_the_start";
}

export interface Operation {
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly manners: StubManners;
  readonly nowMs: number;
  /** {@link StubBucket.changesOf} the key when the request began. */
  readonly changesAtBegin: number;
}

type Handler = (bucket: StubBucket, operation: Operation) => StubReply;

export const OPERATIONS: Readonly<Record<Exclude<S3RequestKind, "create_bucket">, Handler>> = {
  put,
  get: read,
  head: read,
  delete: remove,
  delete_many: removeMany,
  list,
  create_upload: createUpload,
  part: uploadPart,
  complete_upload: completeUpload,
  abort_upload: abortUpload,
  list_uploads: listUploads,
  list_parts: notImplemented,
  head_bucket: () => ({ status: 200 }),
  other: notImplemented,
};

function notImplemented(): StubReply {
  return errorReply(501, "NotImplemented", "A header you provided implies functionality that is not implemented");
}

function put(bucket: StubBucket, operation: Operation): StubReply {
  if (operation.headers["x-amz-copy-source"]) return notImplemented();
  const wrong = wrongDigest(operation) ?? brokenCondition(bucket, operation);
  if (wrong) return wrong;
  const object = objectOf(operation.body, operation.nowMs);
  bucket.put(operation.key, object);
  return { status: 200, headers: { etag: `"${object.etag}"` } };
}

function read(bucket: StubBucket, { key, headers }: Operation): StubReply {
  const object = bucket.objects.get(key);
  if (!object) return noSuchKey();
  const { "if-match": ifMatch, "if-none-match": ifNoneMatch } = headers;
  if (ifMatch !== undefined && bare(ifMatch) !== object.etag) return preconditionFailed();
  if (ifNoneMatch !== undefined && bare(ifNoneMatch) === object.etag) return { status: 304 };
  return objectReply(object, headers.range);
}

function remove(bucket: StubBucket, operation: Operation): StubReply {
  const broken = brokenCondition(bucket, operation);
  if (broken) return broken;
  bucket.delete(operation.key);
  return { status: 204 };
}

function removeMany(bucket: StubBucket, operation: Operation): StubReply {
  const { headers, body } = operation;
  const hasChecksum = Object.keys(headers).some((name) => /^content-md5$|^x-amz-checksum-/.test(name));
  if (!hasChecksum) return errorReply(400, "InvalidRequest", "Missing required header for this request: Content-MD5");
  const wrong = wrongDigest(operation);
  if (wrong) return wrong;
  const keys = elementsIn(String(body), "Key");
  if (keys.length > 1_000) return errorReply(400, "MalformedXML");
  for (const key of keys) bucket.delete(key);
  const isQuiet = elementsIn(String(body), "Quiet")[0] === "true";
  const deleted = keys.map((key) => `<Deleted>${element("Key", key)}</Deleted>`);
  return xmlReply("DeleteResult", isQuiet ? "" : deleted.join(""));
}

function list(bucket: StubBucket, { query, manners }: Operation): StubReply {
  if (query.get("list-type") !== "2" || query.has("delimiter")) return notImplemented();
  const token = query.get("continuation-token");
  const asked = token === null ? (query.get("start-after") ?? "") : String(Buffer.from(token, "base64url"));
  const after = manners.listing === "from_the_start" ? "" : asked;
  const limit = Math.min(Number(query.get("max-keys") ?? 1_000), 1_000);
  const keys = bucket.keys(query.get("prefix") ?? "", after);
  const page = keys.slice(0, limit);
  const isTruncated = page.length < keys.length && page.length > 0;
  const isEncoded = query.get("encoding-type") === "url";
  const contents = page.map((key) => {
    const { etag, bytes, modifiedMs } = bucket.objects.get(key) as StoredObject;
    const name = isEncoded ? encodeURIComponent(key).replaceAll("%2F", "/") : key;
    const modified = new Date(modifiedMs).toISOString();
    const fields = [element("Key", name), element("LastModified", modified), element("ETag", `"${etag}"`)];
    return `<Contents>${fields.join("")}${element("Size", bytes.length)}</Contents>`;
  });
  const fields = [
    element("KeyCount", page.length),
    element("MaxKeys", limit),
    element("IsTruncated", isTruncated),
    ...(isEncoded ? [element("EncodingType", "url")] : []),
    ...(isTruncated && manners.listing !== "without_token"
      ? [element("NextContinuationToken", Buffer.from(page.at(-1) ?? "").toString("base64url"))]
      : []),
  ];
  return xmlReply("ListBucketResult", fields.join("") + contents.join(""));
}

function createUpload(bucket: StubBucket, { key, nowMs }: Operation): StubReply {
  const uploadId = randomUUID();
  bucket.uploads.set(uploadId, { key, uploadId, begunMs: nowMs, parts: new Map() });
  return xmlReply("InitiateMultipartUploadResult", element("Key", key) + element("UploadId", uploadId));
}

function uploadPart(bucket: StubBucket, operation: Operation): StubReply {
  const upload = bucket.uploads.get(operation.query.get("uploadId") ?? "");
  if (!upload || upload.key !== operation.key) return noSuchUpload();
  const wrong = wrongDigest(operation);
  if (wrong) return wrong;
  const number = Number(operation.query.get("partNumber"));
  if (!(number >= 1 && number <= 10_000)) return errorReply(400, "InvalidArgument");
  const part = objectOf(operation.body, operation.nowMs);
  upload.parts.set(number, part);
  return { status: 200, headers: { etag: `"${part.etag}"` } };
}

const PART_BYTES_MIN = 5 * 1024 * 1024;

function completeUpload(bucket: StubBucket, operation: Operation): StubReply {
  const { key, query, body, manners, nowMs } = operation;
  const uploadId = query.get("uploadId") ?? "";
  const upload = bucket.uploads.get(uploadId);
  if (!upload || upload.key !== key) return noSuchUpload();
  if (manners.completesWithError) return { ...errorReply(500, "InternalError"), status: 200 };
  const numbers = elementsIn(String(body), "PartNumber").map(Number);
  const etags = elementsIn(String(body), "ETag").map(bare);
  const parts: readonly (StoredObject | undefined)[] = numbers.map((number) => upload.parts.get(number));
  if (numbers.some((number, index) => number <= (numbers[index - 1] ?? 0))) return errorReply(400, "InvalidPartOrder");
  if (!areThere(parts) || parts.length === 0 || parts.some(({ etag }, index) => etag !== etags[index]))
    return errorReply(400, "InvalidPart");
  if (parts.slice(0, -1).some(({ bytes }) => bytes.length < PART_BYTES_MIN)) return errorReply(400, "EntityTooSmall");
  const broken = brokenCondition(bucket, operation);
  if (broken) return broken;
  const object = objectOfParts(parts, nowMs);
  bucket.put(key, object);
  bucket.uploads.delete(uploadId);
  return xmlReply("CompleteMultipartUploadResult", element("Key", key) + element("ETag", `"${object.etag}"`));
}

function areThere(parts: readonly (StoredObject | undefined)[]): parts is readonly StoredObject[] {
  return parts.every((part) => part !== undefined);
}

function abortUpload(bucket: StubBucket, { query }: Operation): StubReply {
  return bucket.uploads.delete(query.get("uploadId") ?? "") ? { status: 204 } : noSuchUpload();
}

function listUploads(bucket: StubBucket, { query }: Operation): StubReply {
  const prefix = query.get("prefix") ?? "";
  const uploads = [...bucket.uploads.values()].filter(({ key }) => key.startsWith(prefix));
  const entries = uploads.map(({ key, uploadId, begunMs }) => {
    const initiated = element("Initiated", new Date(begunMs).toISOString());
    return `<Upload>${element("Key", key)}${element("UploadId", uploadId)}${initiated}</Upload>`;
  });
  return xmlReply("ListMultipartUploadsResult", element("IsTruncated", false) + entries.join(""));
}

/** The refusal of a write whose condition does not hold, by what the stub's manners are. */
function brokenCondition(bucket: StubBucket, operation: Operation): StubReply | undefined {
  const { key, headers, manners, changesAtBegin } = operation;
  const { "if-match": ifMatch, "if-none-match": ifNoneMatch } = headers;
  if (ifMatch === undefined && ifNoneMatch === undefined) return undefined;
  if (manners.conditions === "not_implemented") return notImplemented();
  if (manners.conditions === "ignored") return undefined;
  if (manners.conflictsInRaces && bucket.changesOf(key) !== changesAtBegin) return conflict();
  const object = bucket.objects.get(key);
  if (ifNoneMatch !== undefined && object) return preconditionFailed();
  if (ifMatch === undefined || manners.conditions === "create_only") return undefined;
  if (!object) return manners.ifMatchAbsentStatus === 404 ? noSuchKey() : preconditionFailed();
  return isMatch(ifMatch, object.etag, manners) ? undefined : preconditionFailed();
}

function isMatch(ifMatch: string, etag: string, { ifMatchQuotes }: StubManners): boolean {
  const forms = { required: [`"${etag}"`], forbidden: [etag], either: [`"${etag}"`, etag] };
  return forms[ifMatchQuotes].includes(ifMatch);
}

function wrongDigest({ headers, body }: Operation): StubReply | undefined {
  const claimed = headers["content-md5"];
  if (claimed === undefined || claimed === createHash("md5").update(body).digest("base64")) return undefined;
  return errorReply(400, "BadDigest");
}

function bare(etag: string): string {
  return etag.replace(/^"(.*)"$/, "$1");
}

const noSuchKey = () => errorReply(404, "NoSuchKey", "The specified key does not exist.");
const noSuchUpload = () => errorReply(404, "NoSuchUpload");
const preconditionFailed = () =>
  errorReply(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
const conflict = () =>
  errorReply(409, "ConditionalRequestConflict", "A conflicting conditional operation is in progress");
