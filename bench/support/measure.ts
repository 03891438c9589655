/**
 * How a figure is taken: rounds of calls, each bounded in time and count, every call timed on its own.
 *
 * A round keeps K calls in flight: whoever gets a reply sends the next call. The figures of a row are medians over its
 * rounds; the spread of the rate over the rounds says how much they may be believed.
 */
import { readFileSync } from "node:fs";

export interface RoundBounds {
  readonly ms: number;
  readonly calls: number;
}

export interface Round {
  readonly calls: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU of the main thread per call, microseconds; undefined where the system does not tell. */
  readonly mainCpuUs: number | undefined;
  /** CPU of the whole process per call, microseconds. */
  readonly allCpuUs: number;
  /** Through the doors the two above are the server's; this is the main thread's of the process that made the calls. */
  readonly loadCpuUs?: number;
}

/** What has been spent so far, microseconds. */
export interface CpuTime {
  /** Undefined where the system does not tell. */
  readonly mainUs: number | undefined;
  readonly allUs: number;
}

export interface Figures extends Omit<Round, "calls"> {
  readonly rounds: number;
  readonly calls: number;
  /** (highest - lowest) / median of the rate over the rounds, percent. */
  readonly spreadPercent: number;
}

/** `inFlight` loops, each calling again as soon as it is answered. */
export function roundOfCalls(
  bounds: RoundBounds,
  inFlight: number,
  call: (index: number) => Promise<unknown>,
): Promise<Round> {
  return timed(bounds, async (taking) => {
    const loop = async (): Promise<void> => {
      for (let index = taking.next(); index !== undefined; index = taking.next()) {
        const startedMs = performance.now();
        await call(index);
        taking.took(performance.now() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, loop));
  });
}

/** The same for what answers in the same tick. */
export function roundOfActions(bounds: RoundBounds, action: (index: number) => void): Promise<Round> {
  return timed(bounds, async (taking) => {
    for (let index = taking.next(); index !== undefined; index = taking.next()) {
      const startedMs = performance.now();
      action(index);
      taking.took(performance.now() - startedMs);
    }
  });
}

export interface Taking {
  /** The next call's index; undefined once the round has had its time or its calls. */
  next(): number | undefined;
  took(ms: number): void;
}

/** For what is no loop of promises: `run` ends when all it has begun is answered. */
export async function timed(bounds: RoundBounds, run: (taking: Taking) => Promise<void>): Promise<Round> {
  const tookMs = new Float64Array(bounds.calls);
  let begun = 0;
  let done = 0;
  const before = cpuTime();
  const startedMs = performance.now();
  await run({
    next: () => (begun < bounds.calls && performance.now() - startedMs < bounds.ms ? begun++ : undefined),
    took: (ms) => {
      tookMs[done++] = ms;
    },
  });
  const elapsedMs = performance.now() - startedMs;
  const after = cpuTime();
  const sorted = tookMs.subarray(0, done).sort();
  return {
    calls: done,
    perSecond: (done / elapsedMs) * 1_000,
    p50Ms: percentileOf(sorted, 50),
    p99Ms: percentileOf(sorted, 99),
    ...cpuPerCall(before, after, done),
  };
}

export function cpuPerCall(before: CpuTime, after: CpuTime, calls: number): Pick<Round, "mainCpuUs" | "allCpuUs"> {
  const isKnown = before.mainUs !== undefined && after.mainUs !== undefined;
  return {
    mainCpuUs: isKnown ? (after.mainUs - before.mainUs) / calls : undefined,
    allCpuUs: (after.allUs - before.allUs) / calls,
  };
}

export function figuresOf(rounds: readonly Round[]): Figures {
  const rates = rounds.map((round) => round.perSecond);
  const perSecond = median(rates);
  const mainCpu = rounds.flatMap((round) => round.mainCpuUs ?? []);
  const loadCpu = rounds.flatMap((round) => round.loadCpuUs ?? []);
  return {
    rounds: rounds.length,
    calls: rounds.reduce((sum, round) => sum + round.calls, 0),
    perSecond,
    p50Ms: median(rounds.map((round) => round.p50Ms)),
    p99Ms: median(rounds.map((round) => round.p99Ms)),
    mainCpuUs: mainCpu.length === 0 ? undefined : median(mainCpu),
    allCpuUs: median(rounds.map((round) => round.allCpuUs)),
    ...(loadCpu.length > 0 && { loadCpuUs: median(loadCpu) }),
    spreadPercent: ((Math.max(...rates) - Math.min(...rates)) / perSecond) * 100,
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[(sorted.length >> 1) - 1] ?? Number.NaN)) / 2;
}

/** Nearest rank; not a number of none. */
export function percentileOf(sorted: Float64Array, percent: number): number {
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN;
}

export function cpuTime(): CpuTime {
  const { user, system } = process.cpuUsage();
  return { mainUs: mainThreadCpuUs(), allUs: user + system };
}

/** Linux counts a thread's time on the CPU in nanoseconds; the main thread's id is the process's. */
function mainThreadCpuUs(): number | undefined {
  try {
    const [cpuNs] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
    return Number(cpuNs) / 1_000;
  } catch {
    return undefined;
  }
}
