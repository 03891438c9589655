/**
 * Everything the core may know of the outside: time, timers, randomness, a folder, a logger.
 *
 * Nothing else in `src/` reads a clock, draws a random number, sets a timer or opens a file (the linter says so). That is
 * what lets a whole node, or several, run in one process under a virtual clock, and what lets a test take the world away
 * from a node as a crash would.
 */
import type { Folder } from "./folder.js";
import type { Logger } from "./logger.js";

export interface Clock {
  /** Wall clock: milliseconds since 1970, may step either way. For times that users see. */
  wallMs(): number;
  /** Monotonic clock: fractional milliseconds since an arbitrary start, never goes back. For every wait and bound. */
  monotonicMs(): number;
}

export interface Timer {
  /** Idempotent; the callback never runs afterwards. */
  cancel(): void;
}

export interface Timers {
  /** Runs `callback` once, no sooner than `delayMs` from now. Any length: delays beyond what the platform takes are cut into steps. */
  after(delayMs: number, callback: () => void): Timer;
  /** Runs `callback` once, as soon as the work that is ready now has had its turn. */
  soon(callback: () => void): Timer;
}

export interface Random {
  /** A float in [0, 1). */
  fraction(): number;
  bytes(count: number): Uint8Array;
}

export interface World {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  readonly folder: Folder;
  readonly log: Logger;
  /** How many files the process may have open; undefined where that is not known. */
  readonly descriptorsMax?: number | undefined;
}

/** Resolves after `delayMs`, or at once when `signal` aborts: whoever waits looks at the signal afterwards. */
export function sleep(world: Pick<World, "timers">, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const sleepers = signal && sleepersOf(signal);
    const wake = (): void => {
      timer.cancel();
      sleepers?.delete(wake);
      resolve();
    };
    const timer = world.timers.after(delayMs, wake);
    sleepers?.add(wake);
  });
}

/** Hundreds may sleep until one signal, and the platform warns of a signal with more than ten listeners: it has one. */
const untilSignal = new WeakMap<AbortSignal, Set<() => void>>();

function sleepersOf(signal: AbortSignal): Set<() => void> {
  const known = untilSignal.get(signal);
  if (known !== undefined) return known;
  const sleepers = new Set<() => void>();
  const wakeAll = (): void => {
    for (const wake of [...sleepers]) wake();
  };
  signal.addEventListener("abort", wakeAll, { once: true });
  untilSignal.set(signal, sleepers);
  return sleepers;
}

/** Resolves once everything that is ready now has had its turn. */
export function yieldTurn(world: Pick<World, "timers">): Promise<void> {
  return new Promise((resolve) => void world.timers.soon(resolve));
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A UUIDv7 (RFC 9562): time-ordered, from the world's clock and randomness. */
export function uuidv7(world: Pick<World, "clock" | "random">): string {
  const random = world.random.bytes(10);
  const hex = (at: number): string => HEX[random[at] as number] as string;
  const time = timeText(Math.floor(world.clock.wallMs()));
  const version = HEX[0x70 | ((random[0] as number) & 0x0f)] as string;
  const variant = HEX[0x80 | ((random[2] as number) & 0x3f)] as string;
  return (
    `${time.slice(0, 8)}-${time.slice(8)}-${version}${hex(1)}-${variant}${hex(3)}-` +
    hex(4) +
    hex(5) +
    hex(6) +
    hex(7) +
    hex(8) +
    hex(9)
  );
}

let lastTimeMs = -1;
let lastTimeText = "";

/** Twelve hexadecimal digits. Many ids are made in one millisecond, and a number's digits of base 16 cost as much as the rest. */
function timeText(timeMs: number): string {
  if (timeMs !== lastTimeMs) {
    lastTimeText = timeMs.toString(16).padStart(12, "0");
    lastTimeMs = timeMs;
  }
  return lastTimeText;
}
