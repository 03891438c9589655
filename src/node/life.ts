/**
 * How a node begins, and how it ends: in the order that loses nothing. Its objects go to the rest of its fleet, what they owe is
 * told, everything committed lands, and only then what that stood on is given back. Each step has its part of DRAIN_MS: what did not
 * land in time is told of, and what was not told is told when its object next wakes (W1).
 */
import type { NodeDelay } from "../delay/node-delay.js";
import type { Directories } from "../directory/directories.js";
import { MoonportError } from "../errors.js";
import type { LuaEngine } from "../lua/contract.js";
import type { EmptyObjects } from "../object/empty-objects.js";
import type { Objects } from "../object/objects.js";
import type { ReplicaCopies } from "../object/replica-copies.js";
import type { Restoring } from "../object/restoring.js";
import type { Feeds } from "../realtime/feeds.js";
import type { Hub } from "../realtime/hub.js";
import type { NodeReleases } from "../release/node-releases.js";
import type { Settings } from "../settings/settings.js";
import type { LandingProbe } from "../shipping/landing-probe.js";
import type { PastWalk } from "../shipping/past-walk.js";
import type { UnitRunner } from "../units/unit-runner.js";
import type { Watchdog } from "../world/watchdog/watchdog.js";
import { sleep, type World } from "../world/world.js";
import type { Admission } from "./admission.js";
import type { Ground } from "./ground.js";
import type { ObjectDues } from "./object-dues.js";

export interface NodeLifeParts {
  readonly world: World;
  readonly settings: Pick<Settings, "DRAIN_MS">;
  readonly ground: Pick<Ground, "lock" | "bucket" | "joined">;
  readonly admission: Admission;
  readonly engine: LuaEngine;
  readonly watchdog: Watchdog;
  readonly releasing: NodeReleases;
  readonly objects: Objects;
  readonly restoring: Restoring;
  readonly empty: EmptyObjects;
  readonly copies: ReplicaCopies | undefined;
  readonly units: UnitRunner;
  readonly directories: Directories;
  readonly delay: NodeDelay;
  readonly dues: ObjectDues;
  readonly hub: Hub;
  readonly feeds: Feeds;
  readonly probe: LandingProbe;
  readonly pastWalk: PastWalk;
}

export class NodeLife {
  readonly #parts: NodeLifeParts;
  #left: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #unlanded: Error | undefined;

  constructor(parts: NodeLifeParts) {
    this.#parts = parts;
  }

  /** Everything that works without being called. */
  start(): void {
    const { world, objects, restoring, probe, pastWalk, releasing, watchdog } = this.#parts;
    objects.start();
    restoring.start();
    probe.start();
    pastWalk.start();
    releasing.start();
    watchdog.start(world.timers);
  }

  /** Of a node that has stopped: why something that was committed has not landed, if so. */
  get unlanded(): Error | undefined {
    return this.#unlanded;
  }

  /**
   * Of a node that goes on stopping: gives every object to the rest of the fleet, each served until its turn has come, within
   * DRAIN_MS. Its doors may answer on: who calls meanwhile, or has come to the wrong node, is sent on. A node that is alone has
   * nobody to give them to. Idempotent, and a part of {@link stop}.
   */
  leave(): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  /**
   * Stops: new calls are refused, running ones end, everything committed lands, within DRAIN_MS. What could not land is
   * logged and its callers get `outcome_unknown`. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #leave(): Promise<void> {
    const { ground, settings } = this.#parts;
    if (ground.joined === undefined) return;
    const untilMs = this.#nowMs() + settings.DRAIN_MS;
    await this.#restDelays();
    await ground.joined.leave(untilMs);
  }

  async #stop(): Promise<void> {
    const { settings, ground, admission, releasing, hub, feeds } = this.#parts;
    const untilMs = this.#nowMs() + settings.DRAIN_MS;
    const following = releasing.stop();
    if (ground.joined === undefined) await this.#restDelays();
    else await this.leave();
    // What they owe is told now that nobody from outside has them owe more.
    admission.turn("settling");
    await this.#tellOwedWithin((untilMs - this.#nowMs()) / 2);
    admission.turn("stopping");
    hub.stop();
    feeds.stop();
    await this.#landWithin(Math.max(1, untilMs - this.#nowMs()));
    await this.#giveBack(following);
    admission.turn("stopped");
  }

  /** What is under way of delayed work ends first: its outcomes are writes of objects. */
  async #restDelays(): Promise<void> {
    const { settings, directories, delay } = this.#parts;
    directories.rest();
    await this.#within(settings.DRAIN_MS / 2, delay.rest());
  }

  /** Of what landed last: messages, wake times, directory rows. What is not told in time is told when its object wakes (W1). */
  async #tellOwedWithin(boundMs: number): Promise<void> {
    const { world, directories, delay, dues } = this.#parts;
    const rowsTold = this.#inTime(boundMs, dues.rowsTold(), "not every directory row was told");
    await Promise.all([
      this.#within(boundMs, delay.settled()),
      rowsTold.catch((error: Error) => world.log.warn(directories.gauges, error.message)),
    ]);
    directories.stop();
  }

  async #landWithin(boundMs: number): Promise<void> {
    const { world, objects } = this.#parts;
    await this.#inTime(boundMs, objects.drain(), `not everything landed within ${boundMs} ms`).catch((error: Error) => {
      this.#unlanded = error;
      world.log.error({ error: error.message }, "stopped with writes that have not landed");
    });
  }

  /** @param following until then the bucket is asked for releases */
  async #giveBack(following: Promise<void>): Promise<void> {
    const { settings, ground, engine, watchdog } = this.#parts;
    const { units, delay, objects, empty, copies, probe, pastWalk } = this.#parts;
    const cause = MoonportError.of("node_stopping", "the node has stopped");
    units.stop(cause);
    await this.#within(settings.DRAIN_MS / 2, delay.stop());
    objects.abandon(cause);
    empty.close();
    copies?.close();
    probe.stop();
    pastWalk.stop();
    await ground.joined?.stop();
    await following;
    await ground.bucket.stop();
    engine.close();
    await watchdog.stop();
    ground.lock.release();
  }

  #inTime(boundMs: number, work: Promise<void>, late: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#parts.world.timers.after(Math.max(1, boundMs), () =>
        reject(MoonportError.of("node_stopping", late)),
      );
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  /** Waits for it so long, and goes on. */
  async #within(boundMs: number, work: Promise<void>): Promise<void> {
    const over = new AbortController();
    await Promise.race([work.catch(() => {}), sleep(this.#parts.world, boundMs, over.signal)]);
    over.abort();
  }

  #nowMs(): number {
    return this.#parts.world.clock.monotonicMs();
  }
}
