/** One signed request to an S3 server, without an SDK: for making buckets, and for looking at what really stands there. */
import { createHash, createHmac } from "node:crypto";
import http from "node:http";

export interface S3Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Request {
  readonly method: string;
  /** Path and query as they go over the wire, percent-encoded. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Default: not signed. */
  readonly keys?: S3Keys;
  readonly agent?: http.Agent;
  readonly signal?: AbortSignal;
}

export interface S3Response {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

export const S3_REGION = "us-east-1";

export async function s3Request(endpoint: string, request: S3Request): Promise<S3Response> {
  const { host } = new URL(endpoint);
  const body = Buffer.from(request.body ?? "");
  const plain = { ...request.headers, host };
  const headers = request.keys ? signed(request, plain, body, request.keys, new Date()) : plain;
  return new Promise((resolve, reject) => {
    const sent = http.request(endpoint, {
      method: request.method,
      path: request.path,
      headers: { ...headers, "content-length": String(body.length) },
      ...(request.agent ? { agent: request.agent } : {}),
      ...(request.signal ? { signal: request.signal } : {}),
    });
    sent.on("error", reject);
    sent.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
      });
    });
    sent.end(body);
  });
}

/** AWS Signature Version 4; header names come in lower case. */
function signed(
  { method, path }: S3Request,
  plain: Readonly<Record<string, string>>,
  body: Uint8Array,
  { accessKeyId, secretAccessKey }: S3Keys,
  now: Date,
): Record<string, string> {
  const time = now.toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = `${time.slice(0, 8)}/${S3_REGION}/s3/aws4_request`;
  const headers: Record<string, string> = { ...plain, "x-amz-date": time, "x-amz-content-sha256": sha256(body) };
  const names = Object.keys(headers).sort();
  const { pathname, search } = new URL(path, "http://s3.invalid");
  const canonical = [
    method,
    pathname,
    search.slice(1).split("&").filter(Boolean).map(withValue).sort().join("&"),
    ...names.map((name) => `${name}:${headers[name]?.trim()}`),
    "",
    names.join(";"),
    headers["x-amz-content-sha256"],
  ].join("\n");
  const toSign = ["AWS4-HMAC-SHA256", time, scope, sha256(Buffer.from(canonical))].join("\n");
  const key = scope
    .split("/")
    .reduce<Uint8Array | string>((secret, part) => hmac(secret, part), `AWS4${secretAccessKey}`);
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${hmac(key, toSign).toString("hex")}`;
  return { ...headers, authorization };
}

function withValue(parameter: string): string {
  return parameter.includes("=") ? parameter : `${parameter}=`;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function hmac(key: Uint8Array | string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
