/**
 * The one way out for a bucket's requests: so many under way at once, a bounded queue behind them, and pauses that a
 * throttling store asks for (throttle.ts).
 *
 * Whoever waits here has sent nothing: when its time is up, or the gate closes, it is refused.
 */
import type { Settings } from "../../settings/settings.js";
import type { Timer, World } from "../../world/world.js";
import { bucketError } from "../bucket.js";
import { afterRefusal, afterSuccess, openThrottle, type Throttle } from "./throttle.js";

export type GateSettings = Pick<
  Settings,
  "BUCKET_REQUESTS_MAX" | "BUCKET_QUEUE_MAX" | "BUCKET_TIMEOUT_MS" | "BUCKET_PAUSE_MAX_MS"
>;
export type GateWorld = Pick<World, "clock" | "timers" | "random">;

/** What a request's end says about the store. */
export type PassEnd =
  | { readonly kind: "answered" | "failed" }
  | { readonly kind: "throttled"; readonly retryAfterMs: number | undefined };

/** A place among the requests under way; given back exactly once. */
export interface Pass {
  end(end: PassEnd): void;
}

interface Waiting {
  readonly timer: Timer;
  readonly dueMs: number;
  readonly enter: () => void;
  readonly refuse: (error: Error) => void;
}

export class RequestGate {
  readonly #world: GateWorld;
  readonly #settings: GateSettings;
  readonly #name: string;
  #throttle: Throttle;
  #underWay = 0;
  /** Oldest first. */
  readonly #waiting = new Set<Waiting>();
  #pauseEnd: Timer | undefined;
  #closed = false;
  #idle: (() => void) | undefined;

  constructor(world: GateWorld, settings: GateSettings, name: string) {
    this.#world = world;
    this.#settings = settings;
    this.#name = name;
    this.#throttle = openThrottle(settings.BUCKET_REQUESTS_MAX);
  }

  /**
   * @param dueMs until when the caller waits
   * @throws MoonportError `bucket_failed` (refused)
   */
  enter(dueMs: number): Promise<Pass> | Pass {
    if (this.#closed) throw this.#refused("it is stopped");
    const nowMs = this.#world.clock.monotonicMs();
    if (this.#throttle.notBeforeMs > dueMs) throw this.#pausedBeyond(nowMs);
    if (this.#waiting.size === 0 && this.#isOpen(nowMs)) return this.#pass(nowMs);
    if (this.#waiting.size >= this.#settings.BUCKET_QUEUE_MAX) {
      throw this.#refused(`${this.#waiting.size} requests are waiting`, "BUCKET_QUEUE_MAX bounds them");
    }
    return this.#wait(dueMs, nowMs);
  }

  /** What waits is refused; resolves when nothing is under way. */
  close(): Promise<void> {
    this.#closed = true;
    this.#pauseEnd?.cancel();
    for (const waiting of this.#waiting) waiting.refuse(this.#refused("it is stopped"));
    if (this.#underWay === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  #isOpen(nowMs: number): boolean {
    return this.#underWay < Math.floor(this.#throttle.window) && nowMs >= this.#throttle.notBeforeMs;
  }

  #pass(sentMs: number): Pass {
    this.#underWay += 1;
    return { end: (end) => this.#ended(sentMs, end) };
  }

  #wait(dueMs: number, nowMs: number): Promise<Pass> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        waiting.timer.cancel();
        this.#waiting.delete(waiting);
      };
      const refuse = (error: Error): void => {
        leave();
        reject(error);
      };
      const waiting: Waiting = {
        dueMs,
        refuse,
        enter: () => {
          leave();
          resolve(this.#pass(this.#world.clock.monotonicMs()));
        },
        timer: this.#world.timers.after(Math.max(0, dueMs - nowMs), () =>
          refuse(this.#refused(`it was not sent within ${this.#settings.BUCKET_TIMEOUT_MS} ms`)),
        ),
      };
      this.#waiting.add(waiting);
      // A pause may have ended whose timer has not fired yet.
      this.#admit(nowMs);
    });
  }

  #ended(sentMs: number, end: PassEnd): void {
    this.#underWay -= 1;
    const nowMs = this.#world.clock.monotonicMs();
    if (end.kind === "answered") {
      this.#throttle = afterSuccess(this.#throttle, this.#settings.BUCKET_REQUESTS_MAX, sentMs);
    }
    if (end.kind === "throttled") this.#refusedByStore(sentMs, nowMs, end.retryAfterMs);
    if (this.#closed) {
      if (this.#underWay === 0) this.#idle?.();
      return;
    }
    this.#admit(nowMs);
  }

  #refusedByStore(sentMs: number, nowMs: number, retryAfterMs: number | undefined): void {
    const { BUCKET_PAUSE_MAX_MS: pauseMaxMs } = this.#settings;
    const fraction = this.#world.random.fraction();
    this.#throttle = afterRefusal(this.#throttle, { nowMs, sentMs, retryAfterMs, pauseMaxMs, fraction });
    // Who could not leave in time anyway learns it now, and may turn elsewhere.
    for (const waiting of this.#waiting) {
      if (waiting.dueMs < this.#throttle.notBeforeMs) waiting.refuse(this.#pausedBeyond(nowMs));
    }
  }

  #admit(nowMs: number): void {
    for (const waiting of this.#waiting) {
      if (!this.#isOpen(nowMs)) break;
      waiting.enter();
    }
    this.#planPauseEnd(nowMs);
  }

  #planPauseEnd(nowMs: number): void {
    const { notBeforeMs } = this.#throttle;
    this.#pauseEnd?.cancel();
    this.#pauseEnd = undefined;
    if (this.#waiting.size === 0 || notBeforeMs <= nowMs) return;
    this.#pauseEnd = this.#world.timers.after(notBeforeMs - nowMs, () => this.#admit(this.#world.clock.monotonicMs()));
  }

  #pausedBeyond(nowMs: number): Error {
    return bucketError("refused", `${this.#name} throttles, for longer than the request can wait`, {
      retryAfterMs: Math.ceil(this.#throttle.notBeforeMs - nowMs),
      details: { throttled: true },
    });
  }

  #refused(reason: string, hint?: string): Error {
    return bucketError("refused", `${this.#name}: ${reason}`, hint === undefined ? {} : { hint });
  }
}
