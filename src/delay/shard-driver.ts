/**
 * Delivers what falls due in one shard, as long as the shard is this node's.
 *
 * Promises:
 * - Never early: the wall clock is compared right before anything is taken up. Waits are monotonic, and no longer than
 *   DELAY_WAIT_MAX_MS, so a step of the wall clock is seen.
 * - W2: a try is written down, with the call id under which it is made, before it is made; its outcome after it.
 * - Bounded: DELAY_CONCURRENCY under way on the node, DELAY_BATCH_MAX entries a transaction. What falls due together waits in
 *   the shard's tables.
 * - A shard without due work costs nothing: its next due time is a number here, and its file may close.
 */
import { asMoonportError, type ErrorCode, isOwn, type MoonportError } from "../errors.js";
import { identityOf, objectOfId } from "../identity.js";
import type { DelayCounters } from "../metrics/delay-counters.js";
import { afterFailure, hasRunBefore, type TrySettings } from "../object/try-outcome.js";
import type { Settings } from "../settings/settings.js";
import { decodeValue } from "../store/value-codec.js";
import type { PlainObject, PlainValue } from "../values.js";
import { backoffMs } from "../world/backoff.js";
import { type Deferred, deferred } from "../world/deferred.js";
import { faultPoint } from "../world/fault-point.js";
import { OneAtATime } from "../world/one-at-a-time.js";
import { sleep, type Timer, type World } from "../world/world.js";
import type { ArgumentStore } from "./argument-store.js";
import type { DueCommand, DueWake } from "./command.js";
import type { DriverPort } from "./driver-port.js";
import { lookAgainMs } from "./look-again.js";
import type { Due } from "./shard-class.js";
import type { Entry } from "./shard-entry.js";
import type { ShardMap } from "./shard-map.js";
import type { Slots } from "./slots.js";

export type ShardDriverSettings = TrySettings &
  Pick<
    Settings,
    | "DELAY_BATCH_MAX"
    | "DELAY_GATHER_MS"
    | "DELAY_WAKES_GATHER_MS"
    | "DELAY_WAIT_MAX_MS"
    | "DELAY_LATE_MS"
    | "DELAY_LOG_ENTRIES_MAX"
    | "DELAY_KEPT_MS"
    | "DELAY_DEAD_KEPT_MS"
    | "CALL_TIMEOUT_MS"
  >;

export interface ShardDriverParts {
  readonly world: World;
  readonly settings: ShardDriverSettings;
  readonly port: DriverPort;
  readonly slots: Slots;
  readonly counters: DelayCounters;
  readonly arguments: ArgumentStore;
  readonly shards: ShardMap;
  /** It drives no longer: the shard is another node's. */
  readonly ended: (shard: number) => void;
  /** It may have taken up, when it had ended, what it will not see to: for whoever drives the shard here now. */
  readonly leftBehind: (shard: number) => void;
}

/** Codes that say that the shard is served elsewhere, or that nothing is served here any more. */
const OVER: readonly ErrorCode[] = ["moved", "node_fenced", "node_stopping"];
const PAUSE_FIRST_MS = 50;
const PAUSE_MAX_MS = 5_000;
/** So long after one look at the tables the next one comes: what falls due in between is found together. */
const LOOK_PAUSE_MS = 5;
/** How long an argument list that nobody refers to stays in the bucket: somebody may be about to. */
const UNUSED_KEPT_MS = 3_600_000;
const TIDY_MS = 600_000;

/** What became of something that was taken up, and by when it is to be written down. */
interface Outcome {
  readonly key: string;
  readonly entry: Entry;
  readonly noteByMs: number;
}

export class ShardDriver {
  readonly shard: number;
  readonly #parts: ShardDriverParts;
  /** Ids of commands, and of objects with a `/` before them, from being taken up until their outcome is written down. */
  readonly #underWay = new Set<string>();
  /** What a look at the tables found due, and is not taken up yet: they are asked again when both are empty. */
  #wakes: DueWake[] = [];
  #commands: string[] = [];
  #outcomes: Outcome[] = [];
  readonly #rounds = new OneAtATime(() => this.#round());
  readonly #flushing = new OneAtATime(() => this.#flush());
  #gathering: { readonly timer: Timer; readonly untilMs: number } | undefined;
  #isTakingUp = false;
  #hasResumed = false;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #tidyTimer: Timer | undefined;
  #failures = 0;
  #state: "driving" | "stopping" | "over" = "driving";
  readonly #ended = new AbortController();
  #idle: Deferred<void> | undefined;

  constructor(shard: number, parts: ShardDriverParts) {
    this.shard = shard;
    this.#parts = parts;
  }

  /** Something may be due, or due sooner than was known. */
  poke = (): void => {
    if (this.#state !== "driving") return;
    this.#tidyIn(TIDY_MS);
    this.#rounds.begin();
  };

  /** What stands as being delivered may be nobody's: it is taken up again, under the same call ids. */
  resume(): void {
    this.#hasResumed = false;
    this.poke();
  }

  /** Takes up nothing more; resolves when what is under way has ended and is written down. */
  async stop(): Promise<void> {
    if (this.#state === "driving") this.#state = "stopping";
    this.#timer?.cancel();
    this.#tidyTimer?.cancel();
    this.#idle ??= deferred();
    if (this.#outcomes.length > 0) this.#flushing.begin();
    this.#settled();
    await this.#idle.promise;
  }

  /** At once: what is under way is somebody else's to find out about. */
  end(): void {
    this.#state = "over";
    this.#ended.abort();
    this.#timer?.cancel();
    this.#tidyTimer?.cancel();
    this.#stopGathering();
    this.#outcomes = [];
    this.#settled();
  }

  async #round(): Promise<void> {
    if (this.#state !== "driving") return;
    this.#isTakingUp = true;
    try {
      await this.#takeUp();
      this.#failures = 0;
    } catch (thrown) {
      if (!this.#goesOn(asMoonportError(thrown))) return;
      [this.#wakes, this.#commands] = [[], []];
      this.#failures++;
      this.#lookIn(this.#pauseMs(this.#failures));
    } finally {
      this.#isTakingUp = false;
      this.#settled();
    }
  }

  async #takeUp(): Promise<void> {
    const { settings, slots } = this.#parts;
    const isNew = this.#found() === 0;
    if (isNew && !(await this.#find())) return;
    // It may have ended while it looked: what it found is another's, on this node too if the shard went and came back.
    if (this.#state !== "driving") return;
    const wanted = Math.min(settings.DELAY_BATCH_MAX, this.#found());
    const taken = slots.take(wanted, this.poke);
    // Both kinds get their share.
    const wakes = Math.min(this.#wakes.length, Math.max(Math.ceil(taken / 2), taken - this.#commands.length));
    for (const wake of this.#wakes.splice(0, wakes)) this.#start(wakeKey(wake.object), this.#wake(wake));
    if (taken > wakes) await this.#begin(this.#commands.splice(0, taken - wakes));
    // Whoever poked meanwhile may know of more than what an earlier look found.
    if (taken > 0 && (this.#found() > 0 || !isNew)) this.#rounds.begin();
  }

  #found(): number {
    return this.#wakes.length + this.#commands.length;
  }

  /**
   * One page of what is due. Where there may be more the rounds go on; else the timer is set for what falls due next.
   * @returns false when that is to be done once more, by a timer or a round that is begun already
   */
  async #find(): Promise<boolean> {
    const { world, settings } = this.#parts;
    const nowMs = world.clock.monotonicMs();
    const pauseMs = this.#lookedAtMs + LOOK_PAUSE_MS - nowMs;
    if (pauseMs > 0) {
      this.#lookIn(pauseMs);
      return false;
    }
    this.#timer?.cancel();
    this.#lookedAtMs = nowMs;
    const limit = settings.DELAY_BATCH_MAX + this.#underWay.size;
    const { due, hasResumed } = await this.#look(limit);
    if (this.#state !== "driving") return false;
    if (hasResumed) {
      this.#lookedAtMs = Number.NEGATIVE_INFINITY;
      this.#rounds.begin();
      return false;
    }
    this.#wakes = due.wakes.filter(({ object }) => !this.#underWay.has(wakeKey(object)));
    this.#commands = due.commands.filter((id) => !this.#underWay.has(id));
    if (due.wakes.length === limit || due.commands.length === limit) this.#rounds.begin();
    if (due.nextMs !== null) this.#lookAt(due.nextMs);
    return true;
  }

  /** At the first look, and when it has to, it takes up again what stands as being delivered. */
  async #look(limit: number): Promise<{ readonly due: Due; readonly hasResumed: boolean }> {
    const mustResume = !this.#hasResumed;
    // From now on: who finds meanwhile that it has to, asks for another look.
    this.#hasResumed = true;
    try {
      const due = (await this.#here("due", [this.#parts.world.clock.wallMs(), limit])) as Due;
      const isLeft = mustResume && due.isDelivering && this.#state === "driving";
      if (isLeft) await this.#append([{ kind: "resume" }]);
      return { due, hasResumed: isLeft };
    } catch (error) {
      if (mustResume) this.#hasResumed = false;
      throw error;
    }
  }

  /** Written down before it is done: whoever drives the shard after a crash goes on under the same call ids. */
  async #begin(ids: readonly string[]): Promise<void> {
    const { settings, slots } = this.#parts;
    const { DELAY_LATE_MS: lateMs } = settings;
    for (const id of ids) this.#underWay.add(id);
    let begun: (DueCommand | null)[];
    try {
      begun = (await this.#append(ids.map((id) => ({ kind: "begin", id, lateMs })))) as (DueCommand | null)[];
    } catch (error) {
      for (const id of ids) this.#underWay.delete(id);
      slots.give(ids.length);
      // It may have been written all the same: then nobody else knows that it was taken up.
      if (this.#hasEnded()) this.#parts.leftBehind(this.shard);
      else this.#hasResumed = false;
      throw error;
    }
    if (this.#hasEnded()) {
      slots.give(ids.length);
      return this.#parts.leftBehind(this.shard);
    }
    for (const [index, id] of ids.entries()) {
      const command = begun[index] ?? null;
      if (command !== null) this.#start(id, this.#deliver(command));
      else {
        this.#underWay.delete(id);
        slots.give(1);
        // Passed over, it may have another run.
        this.#rounds.begin();
      }
    }
  }

  #hasEnded(): boolean {
    return this.#state === "over";
  }

  #start(key: string, trying: Promise<Entry>): void {
    this.#underWay.add(key);
    void trying.then((entry) => {
      this.#parts.slots.give(1);
      if (this.#state === "over") return;
      const outcome = { key, entry, noteByMs: this.#noteByMs(entry) };
      this.#outcomes.push(outcome);
      this.#gather(outcome);
    });
  }

  /** Nobody waits for the word that an object was woken, until it is due again. */
  #noteByMs(entry: Entry): number {
    const { settings, world } = this.#parts;
    const { DELAY_GATHER_MS, DELAY_WAKES_GATHER_MS } = settings;
    const nowMs = world.clock.monotonicMs();
    if (entry.kind !== "wake") return nowMs + DELAY_GATHER_MS;
    const dueInMs = entry.atMs === null ? Number.POSITIVE_INFINITY : entry.atMs - world.clock.wallMs();
    return nowMs + Math.min(DELAY_WAKES_GATHER_MS, Math.max(0, dueInMs));
  }

  #gather({ noteByMs }: Outcome): void {
    const { settings, world } = this.#parts;
    const waitMs = noteByMs - world.clock.monotonicMs();
    if (this.#outcomes.length >= settings.DELAY_BATCH_MAX || this.#state !== "driving" || waitMs <= 0) {
      this.#flushing.begin();
    } else if (this.#gathering === undefined || this.#gathering.untilMs > noteByMs) {
      this.#stopGathering();
      const timer = world.timers.after(waitMs, () => this.#flushing.begin());
      this.#gathering = { timer, untilMs: noteByMs };
    }
  }

  #stopGathering(): void {
    this.#gathering?.timer.cancel();
    this.#gathering = undefined;
  }

  /** Never rejects: what goes wrong is the outcome. */
  async #deliver(command: DueCommand): Promise<Entry> {
    const { world, settings, port, counters } = this.#parts;
    const { id, run, callId, app, className, key, method } = command;
    const ended = { kind: "ended" as const, id, run, callId };
    counters.late(world.clock.wallMs() - command.dueMs);
    try {
      const object = identityOf(app, className, key);
      const args = await this.#argumentsOf(command);
      const expiresMs = world.clock.monotonicMs() + settings.CALL_TIMEOUT_MS;
      const caller = { ...command.caller, kind: "message" as const };
      faultPoint("delivery.begun", id);
      await port.call({ object, method, args, caller, callId, expiresMs, chain: [] });
      faultPoint("delivery.done", id);
      counters.delivered++;
      return { ...ended, outcome: { kind: "done" } };
    } catch (thrown) {
      const error = asMoonportError(thrown);
      if (hasRunBefore(error, callId)) {
        counters.delivered++;
        return { ...ended, outcome: { kind: "done" } };
      }
      const nowMs = world.clock.wallMs();
      const outcome = afterFailure(command, error, nowMs, settings, world.random.fraction());
      if (outcome.kind === "dead") counters.dead++;
      else counters.failed++;
      const fields = { command: id, object: `${app}/${className}/${key}`, method, code: error.code };
      world.log.warn(fields, `a delayed command ${outcome.kind === "dead" ? "is dead" : "failed"}: ${error.message}`);
      return { ...ended, outcome };
    }
  }

  async #argumentsOf({ args, argsHash }: DueCommand): Promise<PlainValue[]> {
    const bytes = argsHash === null ? args : await this.#parts.arguments.get(this.shard, argsHash);
    return decodeValue(bytes) as PlainValue[];
  }

  async #wake({ object, lookMs, epoch, seq, failures }: DueWake): Promise<Entry> {
    const { world, settings, port, counters } = this.#parts;
    counters.late(world.clock.wallMs() - lookMs);
    try {
      const woken = await port.wake(objectOfId(object), "asker");
      faultPoint("wake.ran", object);
      const atMs = lookAgainMs(woken, world.clock.wallMs(), settings.DELAY_WAIT_MAX_MS);
      counters.timersRun += woken.ran;
      // One that has no place in any history any more is as new as what was known of it.
      const newest = woken.epoch === 0 ? { epoch, seq } : { epoch: woken.epoch, seq: woken.seq };
      return await this.#handedOn({ kind: "wake", object, ...newest, atMs });
    } catch (thrown) {
      const error = asMoonportError(thrown);
      world.log.warn({ object, code: error.code }, `not woken for its timers: ${error.message}`);
      const { DELAY_BACKOFF_MS, DELAY_BACKOFF_MAX_MS } = settings;
      const pauseMs = backoffMs(failures + 1, DELAY_BACKOFF_MS, DELAY_BACKOFF_MAX_MS, world.random.fraction());
      return { kind: "defer", object, untilMs: Math.ceil(world.clock.wallMs() + pauseMs) };
    }
  }

  /** Since there are more shards, the object's next wake is another one's: it has it before it is forgotten here. */
  async #handedOn(wake: Extract<Entry, { kind: "wake" }>): Promise<Entry> {
    const { shards, port, settings } = this.#parts;
    const to = shards.shardOf(wake.object);
    if (to === this.shard || wake.atMs === null) return wake;
    await port.ask(to, "append", [[wake], settings.DELAY_LOG_ENTRIES_MAX]);
    return { ...wake, atMs: null };
  }

  /** Outcomes that come while one batch is being written are gathered for the next. */
  async #flush(): Promise<void> {
    const { world, settings } = this.#parts;
    this.#stopGathering();
    const batch = this.#outcomes.slice(0, settings.DELAY_BATCH_MAX);
    for (let failures = 0; batch.length > 0 && this.#state !== "over"; ) {
      try {
        await this.#append(batch.map(({ entry }) => entry));
        faultPoint("delivery.noted", batch[0]?.key ?? "");
        this.#outcomes.splice(0, batch.length);
        for (const { key } of batch) this.#underWay.delete(key);
        break;
      } catch (thrown) {
        if (!this.#goesOn(asMoonportError(thrown))) return;
        await sleep(world, this.#pauseMs(++failures), this.#ended.signal);
      }
    }
    for (const outcome of this.#outcomes) this.#gather(outcome);
    this.#settled();
    this.poke();
  }

  async #append(entries: readonly Entry[]): Promise<PlainValue[]> {
    const written = await this.#here("append", [
      entries as unknown as PlainObject[],
      this.#parts.settings.DELAY_LOG_ENTRIES_MAX,
    ]);
    return written as PlainValue[];
  }

  #here(method: string, args: PlainValue[]): Promise<PlainValue> {
    return this.#parts.port.here(this.shard, method, args);
  }

  /** Whether the shard is still this node's as far as an error tells. */
  #goesOn(error: MoonportError): boolean {
    if (!isOwn(error, ...OVER)) {
      this.#parts.world.log.warn({ shard: this.shard, code: error.code }, `a delay shard fails: ${error.message}`);
      return this.#state !== "over";
    }
    this.end();
    this.#parts.ended(this.shard);
    return false;
  }

  #lookAt(wallMs: number): void {
    this.#lookIn(wallMs - this.#parts.world.clock.wallMs(), wallMs);
  }

  #lookIn(delayMs: number, dueMs?: number): void {
    const { world, settings } = this.#parts;
    this.#timer?.cancel();
    if (this.#state !== "driving") return;
    const waitMs = Math.max(0, Math.min(delayMs, settings.DELAY_WAIT_MAX_MS));
    this.#timer = world.timers.after(waitMs, () => {
      if (dueMs === undefined || world.clock.wallMs() >= dueMs) this.poke();
      else this.#lookAt(dueMs);
    });
  }

  #pauseMs(failures: number): number {
    return backoffMs(failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, this.#parts.world.random.fraction());
  }

  /** A shard in which nothing is old is left alone. */
  #tidyIn(delayMs: number): void {
    if (this.#state !== "driving") return;
    this.#tidyTimer ??= this.#parts.world.timers.after(Math.max(TIDY_MS, delayMs), () => {
      this.#tidyTimer = undefined;
      void this.#tidy().catch((thrown) => {
        if (this.#goesOn(asMoonportError(thrown))) this.#tidyIn(TIDY_MS);
      });
    });
  }

  /** Forgets what ended long ago, and argument lists that nobody refers to. */
  async #tidy(): Promise<void> {
    const { world, settings } = this.#parts;
    const { DELAY_KEPT_MS, DELAY_DEAD_KEPT_MS } = settings;
    while (this.#state === "driving") {
      const staleAtMs = await this.#here("staleAt", [DELAY_KEPT_MS, DELAY_DEAD_KEPT_MS, UNUSED_KEPT_MS]);
      const nowMs = world.clock.wallMs();
      if (staleAtMs === null) return;
      if (Number(staleAtMs) >= nowMs) return this.#tidyIn(Number(staleAtMs) - nowMs + 1);
      const trim: Entry = {
        kind: "trim",
        endedBeforeMs: nowMs - DELAY_KEPT_MS,
        deadBeforeMs: nowMs - DELAY_DEAD_KEPT_MS,
      };
      const [, hashes] = await this.#append([trim, { kind: "sweep", unusedSinceMs: nowMs - UNUSED_KEPT_MS }]);
      if (!Array.isArray(hashes) || hashes.length === 0) continue;
      await this.#parts.arguments.remove(this.shard, hashes as string[]);
      await this.#append([{ kind: "swept", hashes: hashes as string[] }]);
    }
  }

  #settled(): void {
    if (this.#idle === undefined) return;
    const isBusy = this.#isTakingUp || this.#underWay.size > 0;
    if (this.#state === "over" || !isBusy) this.#idle.resolve();
  }
}

function wakeKey(object: string): string {
  return `/${object}`;
}
