/**
 * Writes of the embedded bucket on the thread that asks for them, for a caller who is all that the node works for.
 *
 * The bucket's own thread keeps the event loop free for others while the disk syncs, and commits together what a crowd asks
 * for. Who is alone has nothing of either, and pays for it: two threads are woken in turn, and what they say to each other is
 * copied (measured: 1.3 to 1.4 times the time of a write with one in flight).
 *
 * So a lone write may block, within bounds. What it takes beyond BUCKET_LONE_MS is followed by {@link REST_TIMES} as long in
 * which all writes go to the thread: however slow the disk is, no more than a tenth of the time is spent here beyond the
 * setting. A file that another process holds is not waited for, and the WAL is copied into the file by the thread, which gets
 * each {@link WRITES_HERE_MAX}th write for that.
 */
import type { Settings } from "../settings/settings.js";
import type { World } from "../world/world.js";
import { addWrites, noWrites, type StoreAnswer, type WriteRequest } from "./sqlite-protocol.js";
import { SqliteStore } from "./sqlite-store.js";

export type LoneSettings = Pick<Settings, "BUCKET_LONE_MS">;

const REST_TIMES = 9;
const REST_AFTER_FAILURE_MS = 10_000;
/** Of writes here before one goes to the thread. */
const WRITES_HERE_MAX = 63;
/** More takes its time to be written, too. */
const BYTES_MAX = 64 * 1024;

export class LoneWriter {
  readonly #world: Pick<World, "clock" | "log">;
  readonly #path: string;
  readonly #blockMs: number;
  #store: SqliteStore | undefined;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  #writesHere = 0;

  /** @param path of a file that is open on the bucket's thread */
  constructor(world: Pick<World, "clock" | "log">, settings: LoneSettings, path: string) {
    this.#world = world;
    this.#path = path;
    this.#blockMs = settings.BUCKET_LONE_MS;
  }

  /** Transactions that changed something. */
  get commits(): number {
    return this.#store?.commits ?? 0;
  }

  /**
   * Nothing is under way on the thread meanwhile: it would be overtaken.
   * @returns undefined where it did not happen, and belongs on the thread
   */
  write({ writes }: WriteRequest): StoreAnswer | undefined {
    const { clock } = this.#world;
    const begunMs = clock.monotonicMs();
    if (this.#blockMs === 0 || begunMs < this.#restUntilMs) return undefined;
    if (this.#writesHere >= WRITES_HERE_MAX) {
      this.#writesHere = 0;
      return undefined;
    }
    if (writes.reduce((sum, { bytes }) => sum + bytes.length, 0) > BYTES_MAX) return undefined;
    const store = this.#opened(begunMs);
    if (store === undefined) return undefined;
    this.#writesHere++;
    const columns = noWrites<Uint8Array>();
    addWrites(columns, writes, (bytes) => bytes);
    const [answer] = store.applyGroup([columns]);
    const nowMs = clock.monotonicMs();
    this.#restUntilMs = nowMs + Math.max(0, nowMs - begunMs - this.#blockMs) * REST_TIMES;
    if (answer?.kind !== "failed") return answer;
    this.#restUntilMs = nowMs + REST_AFTER_FAILURE_MS;
    return answer.outcome === "refused" ? undefined : answer;
  }

  /** Whether something is left to sweep, since this was last asked. */
  takeGarbage(): boolean {
    return this.#store?.takeGarbage() ?? false;
  }

  close(): void {
    this.#store?.close();
    this.#store = undefined;
    this.#restUntilMs = Number.POSITIVE_INFINITY;
  }

  /** On the first write: most processes that open a bucket never have a lone one. */
  #opened(nowMs: number): SqliteStore | undefined {
    try {
      this.#store ??= new SqliteStore(this.#path, 0, { isBeside: true });
    } catch (error) {
      this.#restUntilMs = nowMs + REST_AFTER_FAILURE_MS;
      this.#world.log.debug({ bucket: this.#path, error }, "lone writes go to the bucket's thread for a while");
    }
    return this.#store;
  }
}
