/**
 * Gives up uploads in parts that nobody will end: a node that dies in the middle of one leaves its parts in the store, seen
 * by nobody and billed to somebody.
 *
 * What counts as stale is measured by the store's own clock. One sweep looks at a bounded number of uploads.
 */
import type { Settings } from "../../settings/settings.js";
import type { Timer, World } from "../../world/world.js";
import type { PendingUpload, S3Api } from "./s3-api.js";
import { S3RequestFailed } from "./s3-failure.js";
import type { S3Requests } from "./s3-requests.js";

const SWEEP_INTERVAL_MS = 3_600_000;
const PAGES_MAX = 10;

export type SweepWorld = Pick<World, "clock" | "timers" | "log">;

export class StaleUploads {
  readonly #world: SweepWorld;
  readonly #api: S3Api;
  readonly #requests: S3Requests;
  readonly #prefix: string;
  readonly #staleMs: number;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(
    world: SweepWorld,
    api: S3Api,
    requests: S3Requests,
    options: Pick<Settings, "BUCKET_UPLOAD_STALE_MS"> & { readonly prefix: string },
  ) {
    this.#world = world;
    this.#api = api;
    this.#requests = requests;
    this.#prefix = options.prefix;
    this.#staleMs = options.BUCKET_UPLOAD_STALE_MS;
  }

  start(): void {
    // To a bucket that only reads, no upload ever is stale.
    if (Number.isFinite(this.#staleMs)) this.#plan(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #plan(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#world.timers.after(delayMs, () => void this.#sweep());
  }

  async #sweep(): Promise<void> {
    try {
      await this.#giveUpStale();
    } catch (error) {
      // Some stores cannot list uploads, and some credentials may not: what is left behind costs space, never data.
      const fields = { error: (error as Error).message };
      this.#world.log.debug(fields, "uploads that were left behind could not be given up");
    } finally {
      this.#plan(SWEEP_INTERVAL_MS);
    }
  }

  async #giveUp(key: string, id: string): Promise<void> {
    try {
      await this.#requests.repeated("abort_upload", (call) => this.#api.abortUpload(key, id, call));
    } catch (error) {
      // Nodes that start together sweep together: another one was faster.
      if (!(error instanceof S3RequestFailed) || error.failure.code !== "NoSuchUpload") throw error;
    }
  }

  async #giveUpStale(): Promise<void> {
    let after: PendingUpload | undefined;
    for (let page = 0; page < PAGES_MAX && !this.#stopped; page += 1) {
      const { uploads, more } = await this.#requests.repeated("list_uploads", (call) =>
        this.#api.listUploads(this.#prefix, after, call),
      );
      const storeNowMs = this.#world.clock.wallMs() + this.#api.clockAheadMs;
      for (const { key, id, begunMs } of uploads) {
        if (this.#stopped) return;
        if (storeNowMs - begunMs < this.#staleMs) continue;
        await this.#giveUp(key, id);
      }
      after = uploads.at(-1);
      if (!more || after === undefined) return;
    }
  }
}
