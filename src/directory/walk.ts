/**
 * One walk over all objects of a class, as the bucket lists them: each is asked to tell its row again, a bounded number at once.
 * What cannot tell it — its class code is broken, it is quarantined — is counted and passed over; what may pass is tried again.
 */
import { type Bucket, LIST_LIMIT_MAX } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import { type ObjectIdentity, PARTITION_COUNT, partitionOf } from "../identity.js";
import type { DirectoryWalk } from "../node-api.js";
import type { Settings } from "../settings/settings.js";
import { classPrefix, ObjectKeys, objectOfKey } from "../shipping/layout.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";

export interface WalkParts {
  readonly world: World;
  readonly bucket: Pick<Bucket, "list">;
  readonly settings: Pick<Settings, "DIRECTORY_WALK_CONCURRENCY" | "DIRECTORY_BACKOFF_MAX_MS">;
  readonly app: string;
  readonly className: string;
  readonly why: DirectoryWalk["why"];
  /** Which objects are asked. */
  includes(object: ObjectIdentity): boolean;
  /** Resolves when the directory has the object's row. @throws MoonportError */
  tellRow(object: ObjectIdentity): Promise<void>;
  readonly signal: AbortSignal;
}

const TRIES_MAX = 5;
const PAUSE_FIRST_MS = 100;

export class Walk {
  readonly #parts: WalkParts;
  #state: DirectoryWalk["state"] = "running";
  #objects = 0;
  #failed = 0;
  #progress = 0;
  #error: string | undefined;

  constructor(parts: WalkParts) {
    this.#parts = parts;
  }

  get report(): DirectoryWalk {
    return {
      why: this.#parts.why,
      state: this.#state,
      objects: this.#objects,
      failed: this.#failed,
      progress: this.#progress,
      ...(this.#error !== undefined && { error: this.#error }),
    };
  }

  /** Whether every object has told its row. */
  get isWhole(): boolean {
    return this.#state === "done" && this.#failed === 0;
  }

  fail(error: unknown): void {
    this.#state = "failed";
    this.#error = asMoonportError(error).message;
  }

  /** @throws MoonportError when the bucket cannot be listed, or the walk was broken off */
  async run(): Promise<void> {
    const running = new Set<Promise<void>>();
    for await (const object of this.#listed()) {
      const asked = this.#ask(object).finally(() => running.delete(asked));
      running.add(asked);
      if (running.size >= this.#parts.settings.DIRECTORY_WALK_CONCURRENCY) await Promise.race(running);
      this.#parts.signal.throwIfAborted();
    }
    await Promise.all(running);
    this.#parts.signal.throwIfAborted();
    this.#progress = 1;
    this.#state = "done";
  }

  async *#listed(): AsyncGenerator<ObjectIdentity> {
    const { bucket, app, className, includes } = this.#parts;
    for (let after: string | undefined; ; ) {
      const page = await bucket.list(classPrefix(app, className), {
        limit: LIST_LIMIT_MAX,
        ...(after !== undefined && { after }),
      });
      for (const key of page.keys) {
        const object = manifestOf(key);
        if (object === undefined || !includes(object)) continue;
        this.#progress = partitionOf(object.id) / PARTITION_COUNT;
        yield object;
      }
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  async #ask(object: ObjectIdentity): Promise<void> {
    const { world, settings, signal, tellRow } = this.#parts;
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        await tellRow(object);
        break;
      } catch (thrown) {
        const error = asMoonportError(thrown);
        if (!error.retryable || failures >= TRIES_MAX) {
          this.#failed++;
          world.log.warn({ object: object.id, error: error.message }, "an object could not tell its directory row");
          break;
        }
        const pauseMs = backoffMs(failures, PAUSE_FIRST_MS, settings.DIRECTORY_BACKOFF_MAX_MS, world.random.fraction());
        await sleep(world, pauseMs, signal).catch(() => {});
      }
    }
    this.#objects++;
  }
}

/** The object whose manifest it is. */
function manifestOf(key: string): ObjectIdentity | undefined {
  if (!key.endsWith("/manifest")) return undefined;
  const object = objectOfKey(key);
  return object !== undefined && new ObjectKeys(object).manifest === key ? object : undefined;
}
