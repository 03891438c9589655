/**
 * Objects of which this session is to find out what they owe: each is woken where it lives, and stands on this session's owing
 * list from when it is asked for until it has been (W1). A claimer asks for what only journals held, which nobody else may know
 * of; who ends a session for what stood on its list; who lands restored content for what that obliges to.
 *
 * It promises to try again until the object is woken, and once more when somebody has asked since the last try began. An object
 * has one try at a time, and so many of all are under way; one that cannot be woken keeps none of the others asleep. What is
 * claimed together is all claimed first: else callers would wait for owners behind files that nobody has asked for.
 */
import { asMoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { sleep, type World } from "../world/world.js";
import type { OwedKeeper } from "./owed-keeper.js";

export interface WakingsParts {
  readonly world: Pick<World, "log" | "random" | "timers">;
  /** Each object that is woken opens its file, and callers want to open others meanwhile. */
  readonly settings: Pick<Settings, "TAKEOVER_CONCURRENCY">;
  readonly keeper: Pick<OwedKeeper, "hold" | "letGo">;
  /** Has the object take up what it owes, wherever it lives. @throws MoonportError */
  readonly wake: (object: ObjectIdentity) => Promise<void>;
}

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** An object that is held until it has been woken. */
interface Waking {
  readonly object: ObjectIdentity;
  /** Tries that came to nothing, in a row. */
  failures: number;
  isAskedAgain: boolean;
  /** The first try has ended. */
  readonly tried: Deferred<void>;
}

export class Wakings {
  readonly #parts: WakingsParts;
  readonly #wakings = new Map<string, Waking>();
  /** Those to be tried now. */
  readonly #due: Waking[] = [];
  #underWay = 0;
  /** Runs of claims that go first. */
  #claimsUnderWay = 0;
  readonly #stopped = new AbortController();

  constructor(parts: WakingsParts) {
    this.#parts = parts;
  }

  /** Has an object take up what it owes, in its own time. It stands on the list, or is about to. */
  begin(object: ObjectIdentity): void {
    if (this.#isAskedAgain(object)) return;
    this.#parts.keeper.hold(object)?.catch(() => {});
    this.#add(object);
  }

  /** As {@link begin}, of an object that the caller holds, which is passed on. Resolves when the first try has ended, or none will. */
  tried(object: ObjectIdentity): Promise<void> {
    if (!this.#isAskedAgain(object)) return this.#add(object).tried.promise;
    this.#parts.keeper.letGo(object);
    return this.#wakings.get(object.id)?.tried.promise ?? Promise.resolve();
  }

  /** Nothing is woken before they are made. */
  async claimsFirst(claims: () => Promise<void>): Promise<void> {
    this.#claimsUnderWay++;
    try {
      await claims();
    } finally {
      this.#claimsUnderWay--;
      this.#wakeSome();
    }
  }

  /** Begins no more. What was not woken stays on the list, for whoever ends the session. */
  stop(): void {
    this.#stopped.abort();
    for (const { tried } of this.#wakings.values()) tried.resolve();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  #isAskedAgain({ id }: ObjectIdentity): boolean {
    const waking = this.#wakings.get(id);
    // A try that is under way may have missed what is owed only now.
    if (waking !== undefined) waking.isAskedAgain = true;
    return waking !== undefined;
  }

  #add(object: ObjectIdentity): Waking {
    const waking: Waking = { object, failures: 0, isAskedAgain: false, tried: deferred() };
    this.#wakings.set(object.id, waking);
    if (this.#isStopped) waking.tried.resolve();
    this.#try(waking);
    return waking;
  }

  #try(waking: Waking): void {
    this.#due.push(waking);
    this.#wakeSome();
  }

  #wakeSome(): void {
    const { TAKEOVER_CONCURRENCY: triesMax } = this.#parts.settings;
    while (this.#underWay < triesMax && this.#claimsUnderWay === 0 && !this.#isStopped) {
      const waking = this.#due.shift();
      if (waking === undefined) return;
      void this.#wake(waking);
    }
  }

  async #wake(waking: Waking): Promise<void> {
    const { world, keeper } = this.#parts;
    this.#underWay++;
    waking.isAskedAgain = false;
    const isWoken = await this.#isWoken(waking.object);
    this.#underWay--;
    waking.failures = isWoken ? 0 : waking.failures + 1;
    waking.tried.resolve();
    this.#wakeSome();
    if (isWoken && !waking.isAskedAgain) {
      this.#wakings.delete(waking.object.id);
      return keeper.letGo(waking.object);
    }
    if (!isWoken) {
      const pauseMs = backoffMs(waking.failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, world.random.fraction());
      await sleep(world, pauseMs, this.#stopped.signal);
    }
    this.#try(waking);
  }

  async #isWoken(object: ObjectIdentity): Promise<boolean> {
    try {
      await this.#parts.wake(object);
      return true;
    } catch (thrown) {
      const { code, message } = asMoonportError(thrown);
      if (!this.#isStopped) this.#parts.world.log.warn({ object: object.id, code }, `what it owes waits: ${message}`);
      return false;
    }
  }
}
