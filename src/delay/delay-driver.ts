/**
 * The delay shards of this node: each that is served here has a driver. That every existing shard is served somewhere is seen to
 * by its home, at the start and whenever members change.
 */
import { asMoonportError } from "../errors.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import type { Timer } from "../world/world.js";
import { ShardDriver, type ShardDriverParts } from "./shard-driver.js";

export type DelayDriverParts = Omit<ShardDriverParts, "ended" | "leftBehind">;

const LOOK_AGAIN_MS = 1_000;

export class DelayDriver {
  readonly #parts: DelayDriverParts;
  readonly #drivers = new Map<number, ShardDriver>();
  readonly #looking = new OneAtATime(() => this.#look());
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: DelayDriverParts) {
    this.#parts = parts;
  }

  /** The node began to serve, or other members are there than before. */
  look = (): void => {
    if (!this.#isStopped) this.#looking.begin();
  };

  /** A call reached the shard on this node: it is served here, and something may be due in it. */
  touched(shard: number): void {
    if (this.#isStopped || !this.#parts.port.holds(shard)) return;
    this.#driver(shard).poke();
  }

  /** It is not this node's any more: whoever has it next, this node too, begins anew with whatever others have taken up meanwhile. */
  lost(shard: number): void {
    const driver = this.#drivers.get(shard);
    if (driver === undefined) return;
    driver.end();
    this.#ended(shard);
  }

  /** The node's session is over: nothing is served under it. */
  lapsed(): void {
    for (const driver of this.#drivers.values()) driver.end();
    this.#drivers.clear();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await Promise.all([...this.#drivers.values()].map((driver) => driver.stop()));
  }

  /** Whatever is left ends at once. */
  abandon(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.lapsed();
  }

  async #look(): Promise<void> {
    if (this.#isStopped) return;
    const found = await Promise.all(this.#parts.shards.all.map((shard) => this.#awaken(shard)));
    if (!found.every((isWell) => isWell)) this.#lookLater();
  }

  /** @returns false when it is to be tried again soon */
  async #awaken(shard: number): Promise<boolean> {
    const { port, world } = this.#parts;
    try {
      if (this.#drivers.has(shard)) return true;
      if (!port.isHome(shard) || !(await port.exists(shard))) return true;
      await port.ask(shard, "due", [0, 0]);
      this.touched(shard);
      // The node that has it still will give it up: whoever asks then claims it.
      return port.holds(shard);
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (!this.#isStopped)
        world.log.warn({ shard, code: error.code }, `a delay shard is not served yet: ${error.message}`);
      return false;
    }
  }

  /** It is another node's by now, and nobody else may know so: whoever is asked serves it from then on. */
  #ended(shard: number): void {
    this.#drivers.delete(shard);
    // Where that fails its home comes upon it a little later.
    if (!this.#isStopped) void this.#parts.port.ask(shard, "due", [0, 0]).catch(() => {});
  }

  #lookLater(): void {
    this.#timer?.cancel();
    if (!this.#isStopped) this.#timer = this.#parts.world.timers.after(LOOK_AGAIN_MS, this.look);
  }

  #driver(shard: number): ShardDriver {
    let driver = this.#drivers.get(shard);
    if (driver === undefined) {
      driver = new ShardDriver(shard, {
        ...this.#parts,
        ended: (over) => this.#ended(over),
        leftBehind: (over) => this.#drivers.get(over)?.resume(),
      });
      this.#drivers.set(shard, driver);
    }
    return driver;
  }
}
