/**
 * A bucket on S3, or on a store that speaks S3: for fleets, and for histories that outlive a machine.
 *
 * A write is one PUT; its condition travels as If-None-Match or If-Match, and the store decides. A PUT that carries a
 * condition is never repeated here after an answer that leaves doubt: its caller does that by the ambiguity rule
 * (ambiguous-write.ts). Versions are ETags, each write's own (write-mark.ts). Not atomic: one write at a time.
 */
import { assert, MoonportError } from "../../errors.js";
import type { Settings } from "../../settings/settings.js";
import { sleep, type World } from "../../world/world.js";
import {
  type Bucket,
  type BucketObject,
  type BucketWrite,
  bucketError,
  LIST_LIMIT_MAX,
  type ListPage,
  type Version,
  type WriteOutcome,
} from "../bucket.js";
import { checkWrites, compareUtf8 } from "../bucket-key.js";
import type { ProbeCheck } from "../probe-check.js";
import type { RequestCounts } from "../request-counts.js";
import { isEtag, type ListedKeys, type ListStart, S3Api } from "./s3-api.js";
import { download } from "./s3-download.js";
import { NO_CREDENTIALS_HINT, S3RequestFailed } from "./s3-failure.js";
import { fitsXml, S3Keys } from "./s3-keys.js";
import { type S3Location, s3Name } from "./s3-location.js";
import { S3Requests } from "./s3-requests.js";
import { upload } from "./s3-upload.js";
import { StaleUploads } from "./stale-uploads.js";
import { marked, newMark, unmarked } from "./write-mark.js";

const DELETE_KEYS_MAX = 1_000;
/** Pages without a key that a listing may have before one with keys. */
const EMPTY_PAGES_MAX = 20;

type State =
  | { readonly kind: "new" }
  | { readonly kind: "started"; readonly api: S3Api; readonly sweep: StaleUploads }
  | { readonly kind: "stopped" };

export class S3Bucket implements Bucket {
  readonly name: string;
  readonly atomic = false;
  readonly #world: World;
  readonly #settings: Settings;
  readonly #location: S3Location;
  readonly #keys: S3Keys;
  readonly #requests: S3Requests;
  #state: State = { kind: "new" };
  #stopping: Promise<void> | undefined;

  constructor(world: World, settings: Settings, location: S3Location) {
    this.name = s3Name(location);
    this.#world = world;
    this.#settings = settings;
    this.#location = location;
    this.#keys = new S3Keys(location.prefix);
    this.#requests = new S3Requests(world, settings, location, this.name);
  }

  /** Loads the SDK and finds credentials; asks nothing of the store. @throws MoonportError `bucket_unusable` */
  async start(): Promise<void> {
    assert(this.#state.kind === "new", "a bucket is started once");
    const api = await this.#open();
    if (this.#stopping !== undefined) {
      api.close();
      throw bucketError("refused", `${this.name} was stopped while it was opened`);
    }
    const { prefix } = this.#location;
    const { BUCKET_UPLOAD_STALE_MS } = this.#settings;
    const sweep = new StaleUploads(this.#world, api, this.#requests, { BUCKET_UPLOAD_STALE_MS, prefix });
    this.#state = { kind: "started", api, sweep };
    sweep.start();
  }

  /** What is under way ends within its time; what waits is refused. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  get requests(): RequestCounts {
    return { ...this.#requests.counts };
  }

  /** What to try when a promise turns out broken. */
  hintFor(check: ProbeCheck): string | undefined {
    return check === "update" ? this.#quotesHint() : CHECK_HINTS[check];
  }

  async get(key: string): Promise<BucketObject | undefined> {
    const [api, full] = [this.#api(), this.#keys.toS3(key)];
    return this.#reading(`get of ${key}`, async () => {
      const { bytes, version } = await this.#requests.repeated("get", (call) => api.get(full, undefined, call));
      this.#requests.counts.bytesReceived += bytes.length;
      return { bytes: unmarked(bytes), version };
    });
  }

  async write(writes: readonly BucketWrite[]): Promise<WriteOutcome> {
    checkWrites(writes, this.atomic);
    const write = writes[0] as BucketWrite;
    const { condition } = write;
    const [api, full] = [this.#api(), this.#keys.toS3(write.key)];
    if (condition !== undefined && "version" in condition && !isEtag(condition.version)) return lost(write);
    // Copied here and now: what the caller does with its bytes afterwards changes nothing.
    const body = marked(write.bytes, newMark(this.#world.random));
    try {
      return { kind: "landed", versions: [await this.#put(api, full, body, condition)] };
    } catch (error) {
      if (isLost(error, condition)) return lost(write);
      throw this.#requests.toError(error, `write of ${write.key}`, "writes");
    }
  }

  async writeStream(key: string, parts: AsyncIterable<Uint8Array>): Promise<Version> {
    const [api, full] = [this.#api(), this.#keys.toS3(key)];
    const options = {
      key: full,
      parts,
      mark: newMark(this.#world.random),
      partBytes: this.#settings.BUCKET_PART_BYTES,
    };
    try {
      return await upload(api, this.#requests, options);
    } catch (error) {
      throw this.#requests.toError(error, `write of ${key}`, "writes");
    }
  }

  async readStream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const [api, full] = [this.#api(), this.#keys.toS3(key)];
    const what = `read of ${key}`;
    const parts = await this.#reading(what, () => download(api, this.#requests, full));
    return parts && this.#translated(parts, what);
  }

  async list(prefix: string, options: { readonly after?: string; readonly limit?: number } = {}): Promise<ListPage> {
    const limit = Math.min(options.limit ?? LIST_LIMIT_MAX, LIST_LIMIT_MAX);
    assert(limit >= 1, "a listing asks for at least one key");
    const api = this.#api();
    const fullPrefix = this.#keys.textToS3(prefix);
    const after = options.after === undefined ? undefined : this.#keys.textToS3(options.after);
    try {
      return this.#listPage(await this.#listKeys(api, fullPrefix, after, limit), options.after);
    } catch (error) {
      throw this.#requests.toError(error, `list of ${prefix}`, "reads");
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    const full = keys.map((key) => this.#keys.toS3(key));
    const api = this.#api();
    const many = full.filter(fitsXml);
    const single = full.filter((key) => !fitsXml(key));
    try {
      for (let start = 0; start < many.length; start += DELETE_KEYS_MAX) {
        await this.#deleteMany(api, many.slice(start, start + DELETE_KEYS_MAX));
      }
      for (const key of single) await this.#deleteMany(api, [key]);
    } catch (error) {
      throw this.#requests.toError(error, `delete of ${keys.length} keys`, "writes");
    }
  }

  async #open(): Promise<S3Api> {
    let api: S3Api | undefined;
    try {
      api = await S3Api.open(this.#location, this.#settings);
      await this.#withinTime(api.findCredentials());
      return api;
    } catch (error) {
      api?.close();
      const message = error instanceof Error ? error.message : String(error);
      const noRegion = message.includes("Region is missing");
      throw MoonportError.of("bucket_unusable", `cannot open ${this.name}: ${message}`, {
        hint: noRegion ? "name the bucket's region: region=… in its URL, or AWS_REGION" : NO_CREDENTIALS_HINT,
        cause: error,
      });
    }
  }

  /** The chain of credentials may ask a machine that never answers. */
  async #withinTime<T>(work: Promise<T>): Promise<T> {
    const done = new AbortController();
    const { BUCKET_TIMEOUT_MS } = this.#settings;
    const late = sleep(this.#world, BUCKET_TIMEOUT_MS, done.signal).then(() => {
      throw new Error(`no credentials were found within ${BUCKET_TIMEOUT_MS} ms`);
    });
    late.catch(() => {});
    try {
      return await Promise.race([work, late]);
    } finally {
      done.abort();
    }
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    if (state.kind === "started") state.sweep.stop();
    await this.#requests.stop();
    this.#state = { kind: "stopped" };
    if (state.kind === "started") state.api.close();
  }

  #api(): S3Api {
    const state = this.#state;
    assert(state.kind !== "new", "the bucket is started before it is used");
    if (state.kind === "stopped" || this.#stopping) throw bucketError("refused", `${this.name} is stopped`);
    return state.api;
  }

  /** A race (409) had no effect, so the same request goes out again; after the last one it is known that nothing happened. */
  async #put(api: S3Api, key: string, body: Buffer, condition: BucketWrite["condition"]): Promise<Version> {
    const dueMs = this.#requests.dueMs();
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#requests.once("put", dueMs, (call) => {
          this.#requests.counts.bytesSent += body.length;
          return api.put(key, body, condition, call);
        });
      } catch (error) {
        const raced = error instanceof S3RequestFailed && error.failure.kind === "conflict";
        if (!raced || !(await this.#requests.pause(tries, dueMs))) throw error;
      }
    }
  }

  /** A store may give a page without keys and say that there is more. */
  async #listKeys(api: S3Api, prefix: string, after: string | undefined, limit: number): Promise<ListedKeys> {
    let start: ListStart = { after };
    for (let pages = 0; pages < EMPTY_PAGES_MAX; pages += 1) {
      const page: ListedKeys = await this.#requests.repeated("list", (call) => api.list(prefix, start, limit, call));
      if (page.keys.length > 0 || !page.hasMore) return page;
      if (page.token === undefined) break;
      start = { token: page.token };
    }
    throw bucketError("refused", `${this.name} says that a listing goes on, and gives no key of it`);
  }

  /** @param after where it was to begin: a store that begins elsewhere would be asked for ever */
  #listPage({ keys: full, hasMore }: ListedKeys, after: string | undefined): ListPage {
    const keys = full.map((key) => this.#keys.fromS3(key));
    const last = keys.at(-1);
    if (!isAscending(after === undefined ? keys : [after, ...keys])) {
      throw bucketError("refused", `${this.name} does not list keys in the order of their bytes`, {
        hint: "directory buckets and the like cannot keep a history; use a general-purpose bucket",
        details: { needsOperator: true },
      });
    }
    return hasMore && last !== undefined ? { keys, next: last } : { keys };
  }

  #deleteMany(api: S3Api, keys: readonly string[]): Promise<void> {
    const [only] = keys;
    if (only !== undefined && keys.length === 1)
      return this.#requests.repeated("delete", (call) => api.delete(only, call));
    return this.#requests.repeated("delete", (call) => api.deleteMany(keys, call));
  }

  async #reading<T>(what: string, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      if (error instanceof S3RequestFailed && error.failure.kind === "absent") return undefined;
      throw this.#requests.toError(error, what, "reads");
    }
  }

  async *#translated(parts: AsyncIterable<Uint8Array>, what: string): AsyncGenerator<Uint8Array, void> {
    try {
      yield* parts;
    } catch (error) {
      throw this.#requests.toError(error, what, "reads");
    }
  }

  #quotesHint(): string {
    const other = !this.#location.ifMatchQuotes;
    return `this store may compare etags ${other ? "with" : "without"} their quotes: try ifMatchQuotes=${other} in its URL`;
  }
}

const NO_CONDITIONS =
  "this store ignores conditional writes (If-None-Match, If-Match) and cannot keep a history; use another";

const CHECK_HINTS: Readonly<Partial<Record<ProbeCheck, string>>> = {
  reject_create: NO_CONDITIONS,
  reject_stale: NO_CONDITIONS,
  one_winner: NO_CONDITIONS,
};

function isAscending(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || compareUtf8(keys[index - 1] as string, key) < 0);
}

function lost({ key }: BucketWrite): WriteOutcome {
  return { kind: "lost", key };
}

/** S3 answers If-Match on a key that is not there with 404, others with 412. */
function isLost(error: unknown, condition: BucketWrite["condition"]): boolean {
  if (!(error instanceof S3RequestFailed) || condition === undefined) return false;
  const { kind } = error.failure;
  return kind === "condition" || (kind === "absent" && "version" in condition);
}
