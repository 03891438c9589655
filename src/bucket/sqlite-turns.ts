/**
 * How the writers of one SQLite file take turns when they are several processes.
 *
 * SQLite's own waiting asks again after pauses that grow to 100 ms, while whoever has the file begins its next transaction
 * within microseconds: one that is busy starves the others for seconds, long enough for a node's session to lapse. So a
 * writer here asks often, and one that finds others at work leaves the file alone, after each of its groups, for longer than
 * they pause.
 *
 * It blocks its thread, which has nothing else to do.
 */

const PAUSE_MS = 0.3;
/** Longer than the longest pause of another. */
const YIELD_MS = 2 * PAUSE_MS;
/** Groups after which others that were at work are taken for gone. */
const COURTEOUS_GROUPS = 64;

/** A process of its own has nobody to be in step with but by chance: pauses differ all the same. */
const GOLDEN = 0.618;

export class SqliteTurns {
  readonly #triesMax: number;
  readonly #pause: (ms: number) => void;
  #tries = 0;
  #courteousGroups = 0;

  /** @param pause for tests */
  constructor(patienceMs: number, pause: (ms: number) => void = block) {
    this.#triesMax = Math.ceil(patienceMs / PAUSE_MS);
    this.#pause = pause;
  }

  /**
   * Begins a transaction as soon as the file is free.
   * @throws what `begin` throws when the file was not free for the whole patience, or for another reason
   */
  take(begin: () => void): void {
    for (let tries = 1; ; tries++) {
      try {
        return begin();
      } catch (error) {
        if (!isBusy(error) || tries >= this.#triesMax) throw error;
        this.#courteousGroups = COURTEOUS_GROUPS;
        this.#tries++;
        this.#pause(PAUSE_MS * (0.5 + ((this.#tries * GOLDEN) % 1)));
      }
    }
  }

  /** A group is over. @param othersWrote since this writer's last group */
  leave(othersWrote: boolean): void {
    if (othersWrote) this.#courteousGroups = COURTEOUS_GROUPS;
    if (this.#courteousGroups === 0) return;
    this.#courteousGroups--;
    this.#pause(YIELD_MS);
  }
}

function isBusy(error: unknown): boolean {
  return String((error as { readonly code?: unknown } | undefined)?.code ?? "").startsWith("SQLITE_BUSY");
}

const nothing = new Int32Array(new SharedArrayBuffer(4));

function block(ms: number): void {
  Atomics.wait(nothing, 0, 0, ms);
}
