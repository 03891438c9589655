/**
 * What sessions owed when they ended: their owing lists are read, each object that stands there is put on this session's own
 * list and woken where it lives, and then the old list goes (W1).
 *
 * Of a fleet's nodes the one that the ring prefers for a session begins; the others look again a while later, in case it could
 * not. That two do the same does no harm.
 *
 * One that cannot be woken is tried again in its own time, and keeps none of the others asleep.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import { type ObjectIdentity, objectOfId, partitionOf } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { OWING_PREFIX } from "../shipping/layout.js";
import { PermitPool } from "../shipping/permits.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import { sleep, type Timer, type World } from "../world/world.js";

export interface OwedSessionsParts {
  readonly world: World;
  readonly settings: Pick<Settings, "NODE_TTL_MS" | "TAKEOVER_CONCURRENCY">;
  readonly bucket: Pick<Bucket, "get" | "list" | "delete">;
  /** Has it stand on this session's list until {@link letGo}: undefined when it stands there, else when it does. */
  readonly hold: (object: ObjectIdentity) => Promise<void> | undefined;
  /** What it owes is known to whoever is to see to it. */
  readonly letGo: (object: ObjectIdentity) => void;
  readonly session: () => string;
  /** @throws MoonportError `bucket_failed` */
  readonly isDead: (session: string) => Promise<boolean>;
  readonly isHome: (partition: number) => boolean;
  /** Has the object take up what it owes. @throws MoonportError */
  readonly wake: (object: ObjectIdentity) => Promise<void>;
}

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** An object that is held until it has been woken. */
interface Waking {
  /** Somebody has asked for it since the last try began. */
  isAskedAgain: boolean;
  /** The first try has ended. */
  readonly tried: Deferred<void>;
}

export class OwedSessions {
  readonly #parts: OwedSessionsParts;
  readonly #looking = new OneAtATime(() => this.#run());
  /** Of tries to wake an object. */
  readonly #permits: PermitPool;
  readonly #waking = new Map<string, Waking>();
  /** Whether the next look takes what other homes would have taken by then. */
  #takesAll = false;
  #later: Timer | undefined;
  #failures = 0;
  readonly #stopped = new AbortController();

  constructor(parts: OwedSessionsParts) {
    this.#parts = parts;
    this.#permits = new PermitPool(parts.settings.TAKEOVER_CONCURRENCY, 0);
  }

  /** The node began, or some session ended. */
  look = (): void => this.#look(false);

  /** Has an object take up what it owes, in its own time. */
  wake(object: ObjectIdentity): void {
    this.#parts.hold(object)?.catch(() => {});
    void this.#tried(object);
  }

  stop(): void {
    this.#stopped.abort();
    this.#later?.cancel();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
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
    const { hold, letGo, bucket } = this.#parts;
    const objects = namesIn(bytes).map(objectOfId);
    try {
      await Promise.all(objects.map(hold));
    } catch (error) {
      for (const object of objects) letGo(object);
      throw error;
    }
    try {
      await bucket.delete([key]);
    } finally {
      // Its answer may be all that was lost: nobody would find them there again.
      await Promise.all(objects.map((object) => this.#tried(object)));
    }
  }

  /** It is held. @returns when the first try has ended; what fails is tried again until it is woken */
  #tried(object: ObjectIdentity): Promise<void> {
    const other = this.#waking.get(object.id);
    if (other !== undefined) {
      // A try that is under way may have missed what is owed only now.
      other.isAskedAgain = true;
      this.#parts.letGo(object);
      return other.tried.promise;
    }
    const waking: Waking = { isAskedAgain: false, tried: deferred() };
    this.#waking.set(object.id, waking);
    void this.#untilWoken(object, waking);
    return waking.tried.promise;
  }

  async #untilWoken(object: ObjectIdentity, waking: Waking): Promise<void> {
    for (let failures = 0; ; ) {
      const isWoken = await this.#wake(object, waking);
      waking.tried.resolve();
      if (this.#isStopped && !isWoken) return;
      if (!isWoken) await sleep(this.#parts.world, this.#pauseMs(++failures), this.#stopped.signal);
      else if (waking.isAskedAgain) failures = 0;
      else {
        this.#waking.delete(object.id);
        return this.#parts.letGo(object);
      }
    }
  }

  async #wake(object: ObjectIdentity, waking: Waking): Promise<boolean> {
    const { wake, world } = this.#parts;
    const permit = this.#permits.request("background");
    await permit.granted;
    try {
      if (this.#isStopped) return false;
      waking.isAskedAgain = false;
      await wake(object);
      return true;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!this.#isStopped)
        world.log.warn({ object: object.id, code: error.code }, `what it owes waits: ${error.message}`);
      return false;
    } finally {
      permit.release();
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
