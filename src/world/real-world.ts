/** The world as it is: the machine's clocks, timers, randomness and disk. The only file that may touch them. */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import type { Folder } from "./folder.js";
import type { Logger } from "./logger.js";
import { RealFolder } from "./real-folder.js";
import type { Clock, Random, Timer, Timers, World } from "./world.js";

/** The platform's timers overflow beyond 2^31-1 ms (24.8 days) and then fire at once. */
const PLATFORM_DELAY_MAX_MS = 2_000_000_000;

const realClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

const realTimers: Timers = {
  after(delayMs, callback) {
    const dueMs = performance.now() + delayMs;
    let handle: NodeJS.Timeout;
    // The platform may fire a millisecond early as the monotonic clock sees it; ours never does.
    const fire = (): void => (performance.now() >= dueMs ? callback() : arm());
    const arm = (): void => {
      handle = setTimeout(fire, Math.min(Math.max(dueMs - performance.now(), 0), PLATFORM_DELAY_MAX_MS));
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
  soon(callback): Timer {
    const handle = setImmediate(callback);
    return { cancel: () => clearImmediate(handle) };
  },
};

/** One draw from the system serves many small ones. */
const POOL_BYTES = 4_096;
let pool = new Uint8Array(0);
let poolUsed = 0;

const realRandom: Random = {
  fraction: () => Math.random(),
  bytes: (count) => {
    if (count > POOL_BYTES) return new Uint8Array(randomBytes(count));
    if (poolUsed + count > pool.length) {
      pool = new Uint8Array(randomBytes(POOL_BYTES));
      poolUsed = 0;
    }
    poolUsed += count;
    return pool.slice(poolUsed - count, poolUsed);
  },
};

/** @param root the data folder; it is created when first written to */
export function realWorld(root: string, log: Logger, folder: Folder = new RealFolder(root)): World {
  return { clock: realClock, timers: realTimers, random: realRandom, folder, log, descriptorsMax: descriptorsMax() };
}

/** Linux tells; elsewhere it is not known. The soft limit, which Node has raised to the hard one. */
function descriptorsMax(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(fs.readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
