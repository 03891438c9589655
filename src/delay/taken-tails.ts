/**
 * Objects of which this session was to name writes that only journals held: nobody knows to what those oblige until the object was
 * woken. From before the record names them until then it stands on this session's list (W1), whatever became of the claim: an object
 * that is another's by then is woken there.
 *
 * It promises to try again until it is woken, one try of an object and so many of all at a time, and that what is claimed together
 * is all claimed first: else callers would wait for owners behind files that nobody has asked for.
 */
import { asMoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type World } from "../world/world.js";
import type { OwedKeeper } from "./owed-keeper.js";

export interface TakenTailsParts {
  readonly world: Pick<World, "log" | "random" | "timers">;
  readonly keeper: Pick<OwedKeeper, "renews" | "named" | "hold" | "letGo">;
  /** Has the object take up what it owes, wherever it lives. @throws MoonportError */
  readonly wake: (object: ObjectIdentity) => Promise<void>;
}

/** Objects woken at once: each opens its file, and callers want to open others meanwhile. */
const WAKES_MAX = 64;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** `again`: it was claimed once more while it was being woken. */
type Standing = "waiting" | "waking" | "again";

interface Due {
  readonly object: ObjectIdentity;
  /** Tries that came to nothing, in a row. */
  readonly failures: number;
}

export class TakenTails {
  readonly #parts: TakenTailsParts;
  readonly #standing = new Map<string, Standing>();
  /** Those to be tried now. */
  readonly #due: Due[] = [];
  #underWay = 0;
  /** Runs of claims that go first. */
  #claimsUnderWay = 0;
  readonly #stopped = new AbortController();

  constructor(parts: TakenTailsParts) {
    this.#parts = parts;
  }

  /** The record is about to name a tail: as {@link OwedKeeper.listed}. */
  beforeTail(object: ObjectIdentity): Promise<void> | undefined {
    return this.#parts.keeper.renews(object);
  }

  /** The claim that it was listed for has ended, won, lost or in doubt. */
  claimEnded(object: ObjectIdentity): void {
    const { keeper } = this.#parts;
    const standing = this.#standing.get(object.id);
    if (standing === undefined) {
      keeper.hold(object)?.catch(() => {});
      this.#standing.set(object.id, "waiting");
      this.#due.push({ object, failures: 0 });
    } else if (standing === "waking") this.#standing.set(object.id, "again");
    keeper.named(object);
    this.#wakeSome();
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

  stop(): void {
    this.#stopped.abort();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  #wakeSome(): void {
    while (this.#underWay < WAKES_MAX && this.#claimsUnderWay === 0 && !this.#isStopped) {
      const due = this.#due.shift();
      if (due === undefined) return;
      void this.#wake(due);
    }
  }

  async #wake({ object, failures }: Due): Promise<void> {
    const { world, keeper } = this.#parts;
    this.#underWay++;
    this.#standing.set(object.id, "waking");
    const isWoken = await this.#isWoken(object);
    this.#underWay--;
    this.#wakeSome();
    if (isWoken && this.#standing.get(object.id) === "waking") {
      this.#standing.delete(object.id);
      keeper.letGo(object);
      return;
    }
    this.#standing.set(object.id, "waiting");
    if (!isWoken) {
      const pauseMs = backoffMs(failures + 1, PAUSE_FIRST_MS, PAUSE_MAX_MS, world.random.fraction());
      await sleep(world, pauseMs, this.#stopped.signal);
    }
    this.#due.push({ object, failures: isWoken ? 0 : failures + 1 });
    this.#wakeSome();
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
