/** The ids that a client makes for its calls: UUIDv7 of its own clock, or of the node's where its own turned out to lag behind. */
import { uuidv7 } from "../world/world.js";
import type { ClientPlatform } from "./platform.js";

/** What a UUIDv7 has room for. */
const TIME_MAX_MS = 2 ** 48 - 1;

export class IdSource {
  readonly #platform: Pick<ClientPlatform, "clock" | "random">;
  #lagMs = 0;

  constructor({ clock, random }: Pick<ClientPlatform, "clock" | "random">) {
    const wallMs = (): number => clock.wallMs() + this.#lagMs;
    this.#platform = { random, clock: { wallMs, monotonicMs: () => clock.monotonicMs() } };
  }

  next(): string {
    return uuidv7(this.#platform);
  }

  /** From now on ids are of this time or later. False for what is no time that ids can have. */
  catchUp(freshFromMs: unknown): boolean {
    if (typeof freshFromMs !== "number" || !(freshFromMs >= 0 && freshFromMs <= TIME_MAX_MS)) return false;
    this.#lagMs += Math.max(0, freshFromMs - this.#platform.clock.wallMs());
    return true;
  }
}
