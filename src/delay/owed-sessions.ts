/**
 * What sessions owed when they ended: their owing lists are read, each object that stands there is put on this session's own
 * list and woken where it lives, and then the old list goes (W1).
 *
 * Of a fleet's nodes the one that the ring prefers for a session begins; the others look again a while later, in case it could
 * not. That two do the same does no harm.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import { objectOfId, partitionOf } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { OWING_PREFIX } from "../shipping/layout.js";
import { backoffMs } from "../world/backoff.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import type { Timer, World } from "../world/world.js";
import type { OwedKeeper } from "./owed-keeper.js";
import type { Wakings } from "./wakings.js";

export interface OwedSessionsParts {
  readonly world: Pick<World, "log" | "random" | "timers">;
  readonly settings: Pick<Settings, "NODE_TTL_MS">;
  readonly bucket: Pick<Bucket, "get" | "list" | "delete">;
  readonly keeper: Pick<OwedKeeper, "hold" | "letGo">;
  readonly wakings: Pick<Wakings, "tried">;
  readonly session: () => string;
  /** @throws MoonportError `bucket_failed` */
  readonly isDead: (session: string) => Promise<boolean>;
  readonly isHome: (partition: number) => boolean;
}

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

export class OwedSessions {
  readonly #parts: OwedSessionsParts;
  readonly #looking = new OneAtATime(() => this.#run());
  /** Whether the next look takes what other homes would have taken by then. */
  #takesAll = false;
  #later: Timer | undefined;
  #failures = 0;
  #isStopped = false;

  constructor(parts: OwedSessionsParts) {
    this.#parts = parts;
  }

  /** The node began, or some session ended. */
  look = (): void => this.#look(false);

  stop(): void {
    this.#isStopped = true;
    this.#later?.cancel();
  }

  #look(takesAll: boolean): void {
    if (this.#isStopped) return;
    this.#takesAll ||= takesAll;
    this.#looking.begin();
  }

  async #run(): Promise<void> {
    if (this.#isStopped) return;
    const takesAll = this.#takesAll;
    this.#takesAll = false;
    try {
      const left = await this.#takeOver(takesAll);
      this.#failures = 0;
      if (left > 0) this.#lookLater(this.#parts.settings.NODE_TTL_MS, true);
    } catch (thrown) {
      if (this.#isStopped) return;
      const error = asMoonportError(thrown);
      this.#parts.world.log.warn({ code: error.code }, `owing lists are not read yet: ${error.message}`);
      this.#lookLater(this.#pauseMs(++this.#failures), takesAll);
    }
  }

  /** @returns lists that are left for others */
  async #takeOver(takesAll: boolean): Promise<number> {
    const { bucket, isDead, isHome, session } = this.#parts;
    const verdicts = new Map<string, boolean>();
    let left = 0;
    for (const key of await this.#keys()) {
      const [of = ""] = key.slice(OWING_PREFIX.length).split("/");
      if (of === session()) continue;
      if (!verdicts.has(of)) verdicts.set(of, await isDead(of));
      if (verdicts.get(of) !== true) continue;
      if (!takesAll && !isHome(partitionOf(of))) left++;
      else {
        const found = await bucket.get(key);
        if (found !== undefined) await this.#takePart(key, found.bytes);
      }
      if (this.#isStopped) return left;
    }
    return left;
  }

  async #keys(): Promise<string[]> {
    const keys: string[] = [];
    for (let after: string | undefined; ; ) {
      const page = await this.#parts.bucket.list(OWING_PREFIX, after === undefined ? {} : { after });
      keys.push(...page.keys);
      if (page.next === undefined) return keys;
      after = page.next;
    }
  }

  async #takePart(key: string, bytes: Uint8Array): Promise<void> {
    const { keeper, wakings, bucket } = this.#parts;
    const objects = namesIn(bytes).map(objectOfId);
    try {
      await Promise.all(objects.map((object) => keeper.hold(object)));
    } catch (error) {
      for (const object of objects) keeper.letGo(object);
      throw error;
    }
    try {
      await bucket.delete([key]);
    } finally {
      // Its answer may be all that was lost: nobody would find them there again.
      await Promise.all(objects.map((object) => wakings.tried(object)));
    }
  }

  #lookLater(delayMs: number, takesAll: boolean): void {
    this.#later?.cancel();
    if (!this.#isStopped) this.#later = this.#parts.world.timers.after(delayMs, () => this.#look(takesAll));
  }

  #pauseMs(failures: number): number {
    return backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#parts.world.random.fraction());
  }
}

function namesIn(bytes: Uint8Array): string[] {
  const parsed: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
  return Array.isArray(parsed) ? parsed.filter((name) => typeof name === "string") : [];
}
