/**
 * Writes one S3 object from a stream, in parts of one size, with bounded memory: the part that is being filled and those
 * on their way. The object is seen whole, when the upload is completed, or not at all.
 *
 * Until then a failure means that nothing happened, and the upload is aborted. Whether a completion whose answer was lost
 * took effect is read from the object itself: it ends with this write's own mark, or it is not this write's.
 */
import { assert, MoonportError } from "../../errors.js";
import { bucketError, type Version } from "../bucket.js";
import { rechunked } from "../rechunked.js";
import type { S3Api, UploadedPart } from "./s3-api.js";
import { outcomeOf, S3RequestFailed } from "./s3-failure.js";
import type { S3Requests } from "./s3-requests.js";
import { markedParts, type WriteMark } from "./write-mark.js";

const PARTS_UNDER_WAY = 2;
/**
 * S3's. Parts do not grow towards the end of a long stream, because some stores (R2) take only parts of one size: a stream
 * that would need more is refused.
 */
const PARTS_MAX = 10_000;

export interface UploadOptions {
  readonly key: string;
  readonly parts: AsyncIterable<Uint8Array>;
  readonly mark: WriteMark;
  readonly partBytes: number;
}

/** @throws S3RequestFailed, MoonportError, or what the source threw */
export async function upload(api: S3Api, requests: S3Requests, options: UploadOptions): Promise<Version> {
  const { key, mark, partBytes } = options;
  const chunks = rechunked(markedParts(options.parts, mark), partBytes);
  let started: PartedUpload | undefined;
  let short: Uint8Array | undefined;
  try {
    for await (const { bytes, last } of chunks) {
      if (started === undefined && last) {
        short = bytes;
        break;
      }
      started ??= await PartedUpload.begin(api, requests, key, mark);
      await started.add(bytes);
    }
    await started?.allAdded();
  } catch (error) {
    await started?.abort();
    throw notPublished(error);
  }
  if (short !== undefined) return putWhole(api, requests, key, Buffer.from(short));
  assert(started !== undefined, "a stream has a last part");
  return started.complete();
}

/** The same bytes and the same mark at every try: to repeat it changes nothing. */
function putWhole(api: S3Api, requests: S3Requests, key: string, body: Buffer): Promise<Version> {
  return requests.repeated("put", async (call) => {
    requests.counts.bytesSent += body.length;
    return api.put(key, body, undefined, call);
  });
}

class PartedUpload {
  readonly #api: S3Api;
  readonly #requests: S3Requests;
  readonly #key: string;
  readonly #mark: WriteMark;
  readonly #id: string;
  readonly #underWay = new Set<Promise<void>>();
  readonly #done: UploadedPart[] = [];
  #begun = 0;
  #failure: { readonly error: unknown } | undefined;

  private constructor(api: S3Api, requests: S3Requests, key: string, mark: WriteMark, id: string) {
    this.#api = api;
    this.#requests = requests;
    this.#key = key;
    this.#mark = mark;
    this.#id = id;
  }

  /** An upload whose answer is lost stays behind, and is given up when it is stale. */
  static async begin(api: S3Api, requests: S3Requests, key: string, mark: WriteMark): Promise<PartedUpload> {
    const id = await requests.repeated("create_upload", (call) => api.createUpload(key, call));
    return new PartedUpload(api, requests, key, mark, id);
  }

  /** Takes a part; resolves when another may come. */
  async add(bytes: Uint8Array): Promise<void> {
    if (this.#begun >= PARTS_MAX) throw tooManyParts(this.#begun * bytes.length);
    const number = ++this.#begun;
    const sending = this.#send(number, bytes).catch((error: unknown) => {
      this.#failure ??= { error };
    });
    this.#underWay.add(sending);
    void sending.then(() => this.#underWay.delete(sending));
    while (this.#underWay.size >= PARTS_UNDER_WAY) await Promise.race(this.#underWay);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async allAdded(): Promise<void> {
    await Promise.all(this.#underWay);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async complete(): Promise<Version> {
    const parts = this.#done.toSorted((left, right) => left.number - right.number);
    const dueMs = this.#requests.dueMs();
    let inDoubt: S3RequestFailed | undefined;
    for (let tries = 1; ; tries += 1) {
      try {
        const version = await this.#requests.once("complete_upload", dueMs, (call) =>
          this.#api.completeUpload(this.#key, this.#id, parts, call),
        );
        return version ?? (await this.#versionOfOurs()) ?? failUnnamed();
      } catch (error) {
        if (!(error instanceof S3RequestFailed)) throw inDoubt ?? error;
        if (outcomeOf(error.failure) === "unknown") inDoubt = error;
        const landed = inDoubt && (await this.#versionOfOurs());
        if (landed !== undefined) return landed;
        const settled = inDoubt === undefined && error.failure.kind === "refused";
        if (!settled && (await this.#requests.pause(tries, dueMs))) continue;
        // Whatever is still on its way then finds no upload.
        await this.abort();
        throw inDoubt ?? error;
      }
    }
  }

  /** What cannot be aborted now is given up when it is stale. */
  async abort(): Promise<void> {
    // Parts that arrive after the abort would be kept, and billed.
    await Promise.all(this.#underWay);
    try {
      await this.#requests.repeated("abort_upload", (call) => this.#api.abortUpload(this.#key, this.#id, call));
    } catch (error) {
      if (!(error instanceof S3RequestFailed) && !(error instanceof MoonportError)) throw error;
    }
  }

  async #send(number: number, bytes: Uint8Array): Promise<void> {
    const etag = await this.#requests.repeated("part", (call) => {
      this.#requests.counts.bytesSent += bytes.length;
      return this.#api.uploadPart(this.#key, this.#id, number, bytes, call);
    });
    this.#done.push({ number, etag });
  }

  /** The version that stands at the key, if it is this write's. */
  async #versionOfOurs(): Promise<Version | undefined> {
    try {
      const tail = await this.#requests.repeated("get", (call) =>
        this.#api.get(this.#key, { kind: "tail", bytes: this.#mark.length }, call),
      );
      return tail.bytes.equals(this.#mark) ? tail.version : undefined;
    } catch (error) {
      if (error instanceof S3RequestFailed || error instanceof MoonportError) return undefined;
      throw error;
    }
  }
}

function failUnnamed(): never {
  throw bucketError("unknown", "the store completed an upload, named no version, and what stands there is another's");
}

function tooManyParts(bytes: number): MoonportError {
  return MoonportError.of("too_large", `a stream of more than ${bytes} bytes needs more than ${PARTS_MAX} parts`, {
    hint: "a larger BUCKET_PART_BYTES allows longer streams",
  });
}

/** Parts are seen by nobody: whatever went wrong with them, nothing happened. */
function notPublished(error: unknown): unknown {
  if (!(error instanceof S3RequestFailed) || outcomeOf(error.failure) === "refused") return error;
  return new S3RequestFailed({ ...error.failure, kind: "refused" }, error);
}
