/** What the S3 stub holds: objects with their etags, uploads with their parts, in the order that S3 lists them. */
import { createHash } from "node:crypto";

export interface StoredObject {
  readonly bytes: Buffer;
  /** Bare. */
  readonly etag: string;
  readonly modifiedMs: number;
}

export interface OpenUpload {
  readonly key: string;
  readonly uploadId: string;
  readonly begunMs: number;
  readonly parts: Map<number, StoredObject>;
}

export class StubBucket {
  readonly objects = new Map<string, StoredObject>();
  readonly uploads = new Map<string, OpenUpload>();
  /** How often each key was written or deleted: tells whether that happened while a request was under way. */
  readonly #changes = new Map<string, number>();

  changesOf(key: string): number {
    return this.#changes.get(key) ?? 0;
  }

  put(key: string, object: StoredObject): void {
    this.objects.set(key, object);
    this.#changes.set(key, this.changesOf(key) + 1);
  }

  delete(key: string): void {
    if (this.objects.delete(key)) this.#changes.set(key, this.changesOf(key) + 1);
  }

  /** In ascending order of their UTF-8 bytes, as S3 lists them. */
  keys(prefix = "", after = ""): string[] {
    return [...this.objects.keys()]
      .filter((key) => key.startsWith(prefix) && compareBytes(key, after) > 0)
      .sort(compareBytes);
  }
}

export function objectOf(bytes: Buffer, modifiedMs: number): StoredObject {
  return { bytes, etag: createHash("md5").update(bytes).digest("hex"), modifiedMs };
}

/** As S3 puts it together: the etag tells the number of parts, and is not a digest of the bytes. */
export function objectOfParts(parts: readonly StoredObject[], modifiedMs: number): StoredObject {
  const digests = Buffer.concat(parts.map(({ etag }) => Buffer.from(etag, "hex")));
  const etag = `${createHash("md5").update(digests).digest("hex")}-${parts.length}`;
  return { bytes: Buffer.concat(parts.map(({ bytes }) => bytes)), etag, modifiedMs };
}

function compareBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}
