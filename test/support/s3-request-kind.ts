/** What an S3 request is for, read from its method and path-style address alone; the fault proxy and the stub share it. */

export type S3RequestKind =
  | "put"
  | "get"
  | "head"
  | "delete"
  | "delete_many"
  | "list"
  | "create_upload"
  | "part"
  | "complete_upload"
  | "abort_upload"
  | "list_uploads"
  | "list_parts"
  | "create_bucket"
  | "head_bucket"
  | "other";

export interface S3Address {
  readonly bucket: string;
  /** Decoded; empty for the bucket itself. */
  readonly key: string;
  readonly query: URLSearchParams;
}

/** @param path the request target: path and query */
export function s3Address(path: string): S3Address {
  const { pathname, searchParams } = new URL(path, "http://s3.invalid");
  const slash = pathname.indexOf("/", 1);
  const [bucket, key] = slash < 0 ? [pathname.slice(1), ""] : [pathname.slice(1, slash), pathname.slice(slash + 1)];
  return { bucket: decodeURIComponent(bucket), key: decodeURIComponent(key), query: searchParams };
}

export function s3RequestKind(method: string, { key, query }: S3Address): S3RequestKind {
  if (key === "") return bucketKind(method, query);
  if (query.has("uploadId")) return uploadKind(method);
  if (method === "POST") return query.has("uploads") ? "create_upload" : "other";
  return OBJECT_KINDS[method] ?? "other";
}

const OBJECT_KINDS: Readonly<Record<string, S3RequestKind>> = {
  PUT: "put",
  GET: "get",
  HEAD: "head",
  DELETE: "delete",
};

const UPLOAD_KINDS: Readonly<Record<string, S3RequestKind>> = {
  PUT: "part",
  POST: "complete_upload",
  DELETE: "abort_upload",
  GET: "list_parts",
};

function uploadKind(method: string): S3RequestKind {
  return UPLOAD_KINDS[method] ?? "other";
}

function bucketKind(method: string, query: URLSearchParams): S3RequestKind {
  if (method === "GET") return query.has("uploads") ? "list_uploads" : "list";
  if (method === "POST" && query.has("delete")) return "delete_many";
  if (method === "PUT") return "create_bucket";
  return method === "HEAD" ? "head_bucket" : "other";
}
