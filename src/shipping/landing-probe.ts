/**
 * Whether writes land: it is remembered when the last one did, and while none comes by itself, a small one is written.
 *
 * A process that answers may still be of no use: its disk is full, its bucket refuses, its requests hang. This notices all of
 * that without a caller having to run into it first. A flight that landed proves as much as a probe, so a busy node writes none:
 * where requests are billed, they cost something. All nodes write one key, so nothing piles up in the bucket.
 */
import type { Bucket } from "../bucket/bucket.js";
import { asMoonportError } from "../errors.js";
import type { Settings } from "../settings/settings.js";
import type { Timer, World } from "../world/world.js";
import { PROBE_KEY } from "./layout.js";

export class LandingProbe {
  readonly #world: Pick<World, "clock" | "timers" | "log">;
  readonly #bucket: Bucket;
  readonly #settings: Settings;
  readonly #session: string;
  #landedMs: number;
  #failing = false;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: {
    readonly world: Pick<World, "clock" | "timers" | "log">;
    readonly bucket: Bucket;
    readonly settings: Settings;
    readonly session: string;
  }) {
    this.#world = options.world;
    this.#bucket = options.bucket;
    this.#settings = options.settings;
    this.#session = options.session;
    // A node that starts has just seen the bucket keep its promises.
    this.#landedMs = options.world.clock.monotonicMs();
  }

  start(): void {
    const { HEALTH_INTERVAL_MS } = this.#settings;
    if (HEALTH_INTERVAL_MS > 0) this.#plan(HEALTH_INTERVAL_MS);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Told of every flight. */
  landed(): void {
    this.#landedMs = this.#world.clock.monotonicMs();
    if (this.#failing) this.#tell(undefined);
  }

  /** Milliseconds since the last write landed, a flight's or a probe's. */
  get sinceLandedMs(): number {
    return this.#world.clock.monotonicMs() - this.#landedMs;
  }

  /** Without probing nothing speaks against it. */
  get writesLand(): boolean {
    const { HEALTH_INTERVAL_MS, HEALTH_LANDED_MS } = this.#settings;
    return HEALTH_INTERVAL_MS === 0 || this.sinceLandedMs <= HEALTH_LANDED_MS;
  }

  #plan(delayMs: number): void {
    this.#timer = this.#world.timers.after(delayMs, () => this.#due());
  }

  /** A probe goes out only if nothing has landed for as long as one may wait. */
  #due(): void {
    // Whole ones: what is left of rounding is too short for any clock to move on.
    const earlyMs = Math.floor(this.#settings.HEALTH_INTERVAL_MS - this.sinceLandedMs);
    if (earlyMs > 0) return this.#plan(earlyMs);
    this.#write().then(
      () => this.#settled(undefined),
      (error: unknown) => this.#settled(error),
    );
  }

  async #write(): Promise<void> {
    const bytes = Buffer.from(JSON.stringify({ session: this.#session, wallMs: this.#world.clock.wallMs() }), "utf8");
    await this.#bucket.write([{ key: PROBE_KEY, bytes }]);
  }

  #settled(error: unknown): void {
    if (this.#stopped) return;
    if (error === undefined) this.#landedMs = this.#world.clock.monotonicMs();
    this.#tell(error);
    this.start();
  }

  /** The log hears of the first failure and of the end of it. */
  #tell(error: unknown): void {
    if (error === undefined) {
      if (this.#failing) this.#world.log.info({}, "writes land again");
    } else if (!this.#failing) {
      this.#world.log.warn({ error: asMoonportError(error).message }, "a probing write did not land");
    }
    this.#failing = error !== undefined;
  }
}
