/**
 * Objects go to the nodes that the ring prefers for them: when a node joins, those whose home it has become; when this node
 * leaves, all. The idle ones first, the busiest last, a bounded number at once; callers wait meanwhile, they do not fail. One that
 * is too busy to go, or cannot land, is asked again a while later.
 *
 * What has come here though it belongs elsewhere (a claim that was under way when the ring changed, a takeover) goes there a ttl
 * later, when all nodes see the same members. So in calm each object comes to live at its home.
 */
import { asMoonportError } from "../errors.js";
import { type ObjectIdentity, partitionOf } from "../identity.js";
import type { FleetCounters } from "../metrics/fleet-counters.js";
import type { FleetHooks } from "../node-options.js";
import type { Settings } from "../settings/settings.js";
import { backoffMs } from "../world/backoff.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import { sleep, type Timer, type World } from "../world/world.js";

/** Until objects that did not go are asked again, at first and at most. */
const AGAIN_MS = 250;
const AGAIN_MAX_MS = 10_000;

export interface HandoverParts {
  readonly world: Pick<World, "clock" | "log" | "random" | "timers">;
  readonly settings: Pick<Settings, "HANDOFF_CONCURRENCY" | "NODE_TTL_MS">;
  readonly self: string;
  readonly hooks: Pick<FleetHooks, "claims" | "handOver" | "lastUsedMs">;
  /** The partition's nodes, its home first. */
  readonly homesOf: (partition: number) => readonly string[];
  /** Whether another node takes objects. */
  readonly isTaker: (node: string) => boolean;
  readonly isValid: () => boolean;
  readonly counters: FleetCounters;
}

export class Handover {
  readonly #parts: HandoverParts;
  readonly #moving = new OneAtATime(() => this.#move());
  #isLeaving = false;
  #isStopped = false;
  #later: Timer | undefined;
  /** Looks for what has come here meanwhile and belongs elsewhere. */
  #settling: Timer | undefined;
  readonly #stopping = new AbortController();
  #failures = 0;

  constructor(parts: HandoverParts) {
    this.#parts = parts;
  }

  /** The ring has changed. Idempotent while under way: it looks once more. */
  begin(): void {
    if (this.#isStopped || this.#isLeaving) return;
    this.#moving.begin();
  }

  /** An object has become this node's. */
  claimed(object: ObjectIdentity): void {
    const { world, settings, self } = this.#parts;
    if (this.#isStopped || this.#isLeaving || this.#settling !== undefined || this.#homeOf(object) === self) return;
    this.#settling = world.timers.after(settings.NODE_TTL_MS, () => {
      this.#settling = undefined;
      this.begin();
    });
  }

  /**
   * Everything goes, what does not go at once as well, until {@link remain}.
   * @param untilMs monotonic: no further object is begun with after it @returns whether nothing is left
   */
  async leave(untilMs: number): Promise<boolean> {
    const { world, hooks, isValid } = this.#parts;
    const leftMs = (): number => untilMs - world.clock.monotonicMs();
    this.#isLeaving = true;
    this.#cancelTimers();
    await this.#moving.ended();
    for (let failures = 1; ; failures++) {
      const left = hooks.claims.all;
      if (left.length === 0 || !this.#isLeaving || !isValid() || leftMs() <= 0) return left.length === 0;
      const hasGone = await this.#handOver(left, () => leftMs() > 0);
      // Where nobody takes them, what is asked for meanwhile comes back.
      if (this.#homeOf(left[0] as ObjectIdentity) === undefined) return hasGone;
      if (hasGone) failures = 0;
      else {
        const pauseMs = backoffMs(failures, AGAIN_MS, AGAIN_MAX_MS, world.random.fraction());
        await sleep(world, Math.max(0, Math.min(pauseMs, leftMs())), this.#stopping.signal);
      }
    }
  }

  /** The node takes objects again. */
  remain(): void {
    this.#isLeaving = false;
    this.begin();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopping.abort();
    this.#cancelTimers();
    await this.#moving.ended();
  }

  #cancelTimers(): void {
    this.#later?.cancel();
    this.#settling?.cancel();
    this.#settling = undefined;
  }

  async #move(): Promise<void> {
    if (this.#isStopped || this.#isLeaving) return;
    const moved = this.#parts.hooks.claims.all.filter((object) => this.#homeOf(object) !== this.#parts.self);
    // Who leaves has a deadline, and goes over all of them himself.
    if (await this.#handOver(moved, () => !this.#isLeaving)) this.#failures = 0;
    else this.#lookLater();
  }

  #lookLater(): void {
    this.#later?.cancel();
    if (this.#isStopped || this.#isLeaving) return;
    const { timers, random } = this.#parts.world;
    const pauseMs = backoffMs(++this.#failures, AGAIN_MS, AGAIN_MAX_MS, random.fraction());
    this.#later = timers.after(pauseMs, () => this.begin());
  }

  /** The first of the ring that takes objects, where this node is about to leave. */
  #homeOf({ id }: ObjectIdentity): string | undefined {
    const { homesOf, isTaker } = this.#parts;
    const homes = homesOf(partitionOf(id));
    return this.#isLeaving ? homes.find(isTaker) : homes[0];
  }

  /** @param mayBegin with a further one @returns whether all of them went */
  async #handOver(objects: readonly ObjectIdentity[], mayBegin: () => boolean): Promise<boolean> {
    const { hooks, settings } = this.#parts;
    const usedMs = (object: ObjectIdentity): number => hooks.lastUsedMs(object) ?? Number.NEGATIVE_INFINITY;
    const queue = objects
      .map((object) => ({ object, at: usedMs(object) }))
      .sort((left, right) => (left.at === right.at ? 0 : left.at - right.at));
    let next = 0;
    let gone = 0;
    const worker = async (): Promise<void> => {
      while (next < queue.length && this.#parts.isValid() && mayBegin()) {
        const { object } = queue[next++] as (typeof queue)[number];
        if (await this.#one(object)) gone++;
      }
    };
    await Promise.all(Array.from({ length: settings.HANDOFF_CONCURRENCY }, worker));
    return gone === queue.length;
  }

  async #one(object: ObjectIdentity): Promise<boolean> {
    const to = this.#homeOf(object);
    // The ring may have changed back meanwhile.
    if (!this.#isLeaving && (to === this.#parts.self || this.#isStopped)) return true;
    const { counters, world } = this.#parts;
    const begunMs = world.clock.monotonicMs();
    let hasGone = false;
    try {
      hasGone = await this.#parts.hooks.handOver(object, to);
      return hasGone;
    } catch (thrown) {
      const error = asMoonportError(thrown);
      world.log.warn({ object: object.id, code: error.code }, `not handed over: ${error.message}`);
      return false;
    } finally {
      counters.handedOver(hasGone, world.clock.monotonicMs() - begunMs);
    }
  }
}
