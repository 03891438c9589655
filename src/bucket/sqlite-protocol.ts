/**
 * What the embedded bucket and its worker threads say to each other.
 *
 * Requests and answers are generic in how they carry bytes: as arrays on either side, as lengths on the wire. One
 * message holds a whole batch, its bytes copied once into one buffer that is transferred. Cloning an array would copy the
 * whole buffer below it, which for a small slice of a pool is far more.
 */
import type { FailureOutcome, Version, WriteCondition, WriteOutcome } from "./bucket.js";

/** Largest part of a large object: bounds what one message of a stream holds in memory. */
export const PART_BYTES_MAX = 1024 * 1024;

export interface StoreWrite {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly condition: WriteCondition | undefined;
}

/** Many of a kind, column by column: a thread is told a row of texts at a fraction of what it is told objects for. */
export interface StoreWrites<Bytes = Uint8Array> {
  readonly kind: "write_many";
  /** How many of the writes each batch has, in their order. */
  readonly sizes: readonly number[];
  readonly keys: readonly string[];
  readonly bytes: readonly Bytes[];
  /** The version that must stand there, `null` where nothing may. */
  readonly versions: readonly (Version | null | undefined)[];
}

/** A {@link StoreWrites} that is being put together. */
export interface WriteColumns<Bytes = Uint8Array> extends StoreWrites<Bytes> {
  readonly sizes: number[];
  readonly keys: string[];
  readonly bytes: Bytes[];
  readonly versions: (Version | null | undefined)[];
}

export function noWrites<Bytes>(): WriteColumns<Bytes> {
  return { kind: "write_many", sizes: [], keys: [], bytes: [], versions: [] };
}

/** One more batch. */
export function addWrites<Bytes>(
  { sizes, keys, bytes, versions }: WriteColumns<Bytes>,
  writes: readonly StoreWrite[],
  bytesAs: (bytes: Uint8Array) => Bytes,
): void {
  sizes.push(writes.length);
  for (const write of writes) {
    keys.push(write.key);
    bytes.push(bytesAs(write.bytes));
    versions.push(versionOf(write.condition));
  }
}

function versionOf(condition: WriteCondition | undefined): Version | null | undefined {
  if (condition === undefined) return undefined;
  return "absent" in condition ? null : condition.version;
}

/** What became of one batch of many: the versions it gave, or the key that lost. */
export type BatchOutcome = readonly Version[] | string;

export function writeOutcome(outcome: BatchOutcome): WriteOutcome {
  return typeof outcome === "string" ? { kind: "lost", key: outcome } : { kind: "landed", versions: outcome };
}

/** Requests that change the file, and go to the thread that writes. */
export type ChangeRequest<Bytes = Uint8Array> =
  | StoreWrites<Bytes>
  | { readonly kind: "delete"; readonly keys: readonly string[] }
  /** One more part of a large object that nobody sees yet. `body` 0 begins one. */
  | {
      readonly kind: "stage";
      readonly body: number;
      readonly part: number;
      readonly bytes: Bytes;
      readonly nowMs: number;
    }
  | { readonly kind: "publish"; readonly key: string; readonly body: number }
  | { readonly kind: "abandon"; readonly body: number }
  /** Frees a bounded amount of what nobody needs any more. */
  | { readonly kind: "sweep"; readonly nowMs: number };

/** Requests that only read, and go to the thread that reads. */
export type ReadRequest =
  | { readonly kind: "get"; readonly key: string }
  | { readonly kind: "get_many"; readonly keys: readonly string[] }
  | { readonly kind: "open"; readonly key: string }
  | { readonly kind: "part"; readonly body: number; readonly part: number }
  | { readonly kind: "list"; readonly prefix: string; readonly after: string | undefined; readonly limit: number };

export type StoreRequest<Bytes = Uint8Array> = ChangeRequest<Bytes> | ReadRequest;

/** One batch of writes. On its way to the thread it becomes part of a {@link StoreWrites}. */
export interface WriteRequest {
  readonly kind: "write";
  readonly writes: readonly StoreWrite[];
}

/** What the way to a thread is asked for. */
export type LaneRequest = StoreRequest | WriteRequest;

/** What was wrong with the storage, when that is known. */
export type StorageFault = "full" | "readonly" | "busy" | "corrupt" | "failed";

export interface StoreFailure {
  readonly kind: "failed";
  readonly outcome: FailureOutcome;
  readonly message: string;
  readonly storage: StorageFault | undefined;
}

export type StoreAnswer<Bytes = Uint8Array> =
  | { readonly kind: "landed"; readonly versions: readonly Version[] }
  | { readonly kind: "lost"; readonly key: string }
  | { readonly kind: "done" }
  | { readonly kind: "staged"; readonly body: number }
  | { readonly kind: "swept"; readonly more: boolean }
  | { readonly kind: "absent" }
  | { readonly kind: "object"; readonly bytes: Bytes; readonly version: Version }
  /** Of the first keys that were asked for, at least one; the bytes of those that are there. */
  | { readonly kind: "objects"; readonly versions: readonly (Version | undefined)[]; readonly bytes: readonly Bytes[] }
  /** Of each batch, in their order. */
  | { readonly kind: "outcomes"; readonly outcomes: readonly BatchOutcome[] }
  /** A large object, whose parts are asked for one by one. */
  | { readonly kind: "body"; readonly body: number }
  | { readonly kind: "part"; readonly bytes: Bytes; readonly last: boolean }
  | { readonly kind: "keys"; readonly keys: readonly string[]; readonly more: boolean }
  | StoreFailure;

export type WorkerRole = "writer" | "reader";

export interface WorkerStart {
  readonly role: WorkerRole;
  readonly path: string;
  /** How long SQLite waits for another process's write. */
  readonly busyTimeoutMs: number;
  /** Whether writers of several processes take turns. */
  readonly isShared: boolean;
}

export type ToWorker =
  | {
      readonly kind: "batch";
      readonly batch: number;
      readonly requests: readonly StoreRequest<number>[];
      readonly blob: ArrayBuffer;
    }
  | { readonly kind: "stop" };

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "unopened"; readonly message: string; readonly storage: StorageFault | undefined }
  | {
      readonly kind: "answers";
      readonly batch: number;
      /** In the order of the requests; a batch's answers may come in several messages. */
      readonly answers: readonly StoreAnswer<number>[];
      readonly blob: ArrayBuffer;
      readonly last: boolean;
      /** Transactions that this thread has committed so far. */
      readonly commits: number;
      /** Whether something waits to be swept. */
      readonly garbage: boolean;
    };

export function mapRequestBytes<A, B>(request: StoreRequest<A>, change: (bytes: A) => B): StoreRequest<B> {
  if (request.kind === "write_many") return { ...request, bytes: request.bytes.map(change) };
  if (request.kind === "stage") return { ...request, bytes: change(request.bytes) };
  return request;
}

export function mapAnswerBytes<A, B>(answer: StoreAnswer<A>, change: (bytes: A) => B): StoreAnswer<B> {
  if (answer.kind === "object" || answer.kind === "part") return { ...answer, bytes: change(answer.bytes) };
  if (answer.kind === "objects") return { ...answer, bytes: answer.bytes.map(change) };
  return answer;
}

/** Collects byte arrays for one message; each is then known by its length, in order. */
export class Packer {
  readonly #arrays: Uint8Array[] = [];
  sizeBytes = 0;

  readonly add = (bytes: Uint8Array): number => {
    this.#arrays.push(bytes);
    this.sizeBytes += bytes.length;
    return bytes.length;
  };

  blob(): ArrayBuffer {
    // Not filled with zeros first, and no part of a pool: it is given away whole.
    const packed = Buffer.allocUnsafeSlow(this.sizeBytes);
    let offset = 0;
    for (const bytes of this.#arrays) {
      packed.set(bytes, offset);
      offset += bytes.length;
    }
    return packed.buffer as ArrayBuffer;
  }
}

/** Gives back the arrays of a {@link Packer}, in order, as views of the one buffer. */
export function unpacker(blob: ArrayBuffer): (length: number) => Uint8Array {
  let offset = 0;
  return (length) => {
    const bytes = new Uint8Array(blob, offset, length);
    offset += length;
    return bytes;
  };
}
