/**
 * A slow look, again and again, at what this node has in the bucket. Sets of journals are renewed at the moment when other nodes
 * are there than before; whatever that moment missed (a claim that was under way, a write that failed, a node that was back too
 * soon) would stay as it is for as long as nothing changes, and count on journals that go one by one. Here it is found.
 *
 * It promises to change no more than UPKEEP_MAX records a look, and that nodes which began together do not look together.
 */
import { asMoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import type { Timer, World } from "../world/world.js";
import type { ColdOrphans } from "./cold-orphans.js";

export interface UpkeepParts {
  readonly world: Pick<World, "log" | "random" | "timers">;
  readonly settings: Pick<Settings, "UPKEEP_MS" | "UPKEEP_MAX">;
  /** Whether this node keeps what it has, and may say so in the bucket. */
  readonly isValid: () => boolean;
  /** So many at most. @returns how many */
  readonly renewSets: (recordsMax: number) => Promise<number>;
  readonly cold: Pick<ColdOrphans, "membersChanged" | "look" | "stop">;
}

export class Upkeep {
  readonly #parts: UpkeepParts;
  readonly #looking = new OneAtATime(() => this.#look());
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  begin(): void {
    if (this.#parts.settings.UPKEEP_MAX > 0) this.#later();
  }

  membersChanged(): void {
    this.#parts.cold.membersChanged();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#parts.cold.stop();
    await this.#looking.ended();
  }

  #later(): void {
    if (this.#isStopped) return;
    const { world, settings } = this.#parts;
    this.#timer = world.timers.after(settings.UPKEEP_MS * (0.5 + world.random.fraction()), () => this.#looking.begin());
  }

  async #look(): Promise<void> {
    const { world, settings, isValid, renewSets, cold } = this.#parts;
    try {
      const left = isValid() ? settings.UPKEEP_MAX - (await renewSets(settings.UPKEEP_MAX)) : 0;
      if (left > 0 && !this.#isStopped && isValid()) await cold.look(left);
    } catch (thrown) {
      world.log.error({ error: asMoonportError(thrown) }, "a look at this node's records has failed");
    }
    this.#later();
  }
}
