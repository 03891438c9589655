/**
 * The gate of one object: finished replies, in the order they finished, each waiting for a flight number to land.
 *
 * Later replies never wait for an earlier flight than those before them, and all wait for the same bound, so one queue
 * and one timer serve for release and for expiry (G3: the task itself never waits here). The timer is left to run when the
 * gate empties: it looks who has waited too long by then, which mostly is nobody, and costs nothing for each flight.
 */
import type { WaitHistogram } from "../metrics/histogram.js";
import type { Timer, World } from "../world/world.js";

export interface GateWaiter {
  /** Its flight landed: what it holds is durable. */
  release(): void;
  /** The bound passed first, or the residency ended with `cause`. */
  fail(cause: Error | undefined): void;
}

interface Entry {
  readonly flight: number;
  readonly expiresMs: number;
  readonly waiter: GateWaiter;
}

export class GateQueue {
  readonly #world: Pick<World, "clock" | "timers">;
  readonly #boundMs: number;
  readonly #waitedMs: WaitHistogram | undefined;
  #entries: Entry[] = [];
  #timer: Timer | undefined;

  /** @param waitedMs told how long each waited, until it was released or its bound had passed */
  constructor(world: Pick<World, "clock" | "timers">, boundMs: number, waitedMs?: WaitHistogram) {
    this.#world = world;
    this.#boundMs = boundMs;
    this.#waitedMs = waitedMs;
  }

  get size(): number {
    return this.#entries.length;
  }

  wait(flight: number, waiter: GateWaiter): void {
    const expiresMs = this.#world.clock.monotonicMs() + this.#boundMs;
    this.#entries.push({ flight, expiresMs, waiter });
    if (this.#timer === undefined) this.#arm(this.#boundMs);
  }

  /** Waiters of flights up to and including `flight`. */
  countThrough(flight: number): number {
    let count = 0;
    while (count < this.#entries.length && (this.#entries[count] as Entry).flight <= flight) count++;
    return count;
  }

  /** Releases every waiter of flights up to and including `flight`, in order. Returns how many. */
  releaseThrough(flight: number): number {
    const count = this.countThrough(flight);
    const released = count === this.#entries.length ? this.#entries : this.#entries.splice(0, count);
    if (released === this.#entries) this.#entries = [];
    if (count > 0) this.#record(released, this.#world.clock.monotonicMs());
    for (const entry of released) entry.waiter.release();
    return count;
  }

  /** The residency ends: nobody will release these any more. */
  failAll(cause: Error): void {
    const failed = this.#entries;
    this.#entries = [];
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const entry of failed) entry.waiter.fail(cause);
  }

  #expire(): void {
    this.#timer = undefined;
    const nowMs = this.#world.clock.monotonicMs();
    let count = 0;
    while (count < this.#entries.length && (this.#entries[count] as Entry).expiresMs <= nowMs) count++;
    const expired = this.#entries.splice(0, count);
    this.#record(expired, nowMs);
    const next = this.#entries[0];
    if (next !== undefined) this.#arm(next.expiresMs - nowMs);
    for (const entry of expired) entry.waiter.fail(undefined);
  }

  #record(left: readonly Entry[], nowMs: number): void {
    if (this.#waitedMs === undefined) return;
    for (const { expiresMs } of left) this.#waitedMs.record(nowMs - expiresMs + this.#boundMs);
  }

  #arm(delayMs: number): void {
    this.#timer = this.#world.timers.after(delayMs, () => this.#expire());
  }
}
