/** The framing in which the SDK streams a body with its checksum behind it. Signatures and checksums are not looked at. */
import type { IncomingHttpHeaders } from "node:http";

/** The body itself, of a request that may be framed so. */
export function decodeAwsChunked(headers: IncomingHttpHeaders, body: Buffer): Buffer {
  if (!String(headers["x-amz-content-sha256"]).startsWith("STREAMING-")) return body;
  const chunks: Buffer[] = [];
  for (let start = 0; ; ) {
    const lineEnd = body.indexOf("\r\n", start);
    const size = Number.parseInt(String(body.subarray(start, lineEnd)), 16);
    if (lineEnd < 0 || Number.isNaN(size)) throw new Error("the body is not framed as its headers say");
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(body.subarray(lineEnd + 2, lineEnd + 2 + size));
    start = lineEnd + 2 + size + 2;
  }
}
