/**
 * Whether writes land: a small one goes to the bucket again and again, and it is remembered when the last one landed.
 *
 * A process that answers may still be of no use: its disk is full, its bucket refuses, its requests hang. This notices all of
 * that without a caller having to run into it first. All nodes write one key, so nothing piles up in the bucket.
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
    if (this.#settings.HEALTH_INTERVAL_MS === 0) return;
    this.#timer = this.#world.timers.after(this.#settings.HEALTH_INTERVAL_MS, () => {
      this.#write().then(
        () => this.#settled(undefined),
        (error: unknown) => this.#settled(error),
      );
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Milliseconds since the last probe landed. */
  get sinceLandedMs(): number {
    return this.#world.clock.monotonicMs() - this.#landedMs;
  }

  /** Without probing nothing speaks against it. */
  get writesLand(): boolean {
    const { HEALTH_INTERVAL_MS, HEALTH_LANDED_MS } = this.#settings;
    return HEALTH_INTERVAL_MS === 0 || this.sinceLandedMs <= HEALTH_LANDED_MS;
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
