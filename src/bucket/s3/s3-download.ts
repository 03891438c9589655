/**
 * Reads one S3 object in parts: ranges of one version, one of them ahead of the reader.
 *
 * Each range is a request of its own, repeated if its body breaks; so no connection waits on a slow reader, and two parts
 * are all that is in memory. An object that is replaced meanwhile ends the reading with an error, never with a mixture.
 */
import type { Version } from "../bucket.js";
import type { ReadRange, S3Api, StoredBytes } from "./s3-api.js";
import { S3RequestFailed } from "./s3-failure.js";
import type { S3Requests } from "./s3-requests.js";
import { endsMarked, MARK_BYTES } from "./write-mark.js";

const PART_BYTES = 4 * 1024 * 1024;
const RANGE_NOT_SATISFIABLE = 416;

/** @throws S3RequestFailed, also while the parts are read; `absent` when there is no such key */
export async function download(
  api: S3Api,
  requests: S3Requests,
  key: string,
): Promise<AsyncGenerator<Uint8Array, void>> {
  const read = (from: number, version?: Version): Promise<StoredBytes> => {
    const range: ReadRange = { kind: "part", from, bytes: PART_BYTES, version };
    return requests.repeated("get", async (call) => {
      const part = await api.get(key, range, call);
      requests.counts.bytesReceived += part.bytes.length;
      checkPart(part, from);
      return part;
    });
  };
  try {
    return withoutMark(await read(0), read);
  } catch (error) {
    // Of an empty object, which is none of ours, no range can be had.
    if (error instanceof S3RequestFailed && error.failure.status === RANGE_NOT_SATISFIABLE) return nothing();
    throw error;
  }
}

function checkPart({ bytes, totalBytes }: StoredBytes, from: number): void {
  const expected = Math.min(PART_BYTES, totalBytes - from);
  if (bytes.length !== expected) throw new Error(`a range has ${bytes.length} bytes instead of ${expected}`);
}

async function* withoutMark(
  first: StoredBytes,
  read: (from: number, version: Version) => Promise<StoredBytes>,
): AsyncGenerator<Uint8Array, void> {
  const { totalBytes, version } = first;
  const bodyBytes = Math.max(0, totalBytes - MARK_BYTES);
  let part = first;
  let from = 0;
  const tail: Buffer[] = [];
  for (;;) {
    const end = from + part.bytes.length;
    const next = end < totalBytes ? read(end, version) : undefined;
    // A failure is met at its turn, unless the reader has left.
    next?.catch(() => {});
    const kept = Math.min(Math.max(bodyBytes - from, 0), part.bytes.length);
    // An empty view would hold its whole part: a large object would be in memory at its end.
    if (kept < part.bytes.length) tail.push(part.bytes.subarray(kept));
    if (kept > 0) yield part.bytes.subarray(0, kept);
    if (next === undefined) break;
    part = await next;
    from = end;
  }
  const last = Buffer.concat(tail);
  if (last.length > 0 && !endsMarked(last)) yield last;
}

async function* nothing(): AsyncGenerator<Uint8Array, void> {}
