/** When a timer's plan falls due next. Pure: time comes in, nothing is read from a clock. */
import { Cron } from "croner";
import { MoonportError } from "../errors.js";
import type { TimerPlan } from "../lua/contract.js";

/** Ten thousand years: beyond it JavaScript's dates end. */
const DUE_MAX_MS = 253_402_300_799_000;

/**
 * @param nowMs wall clock, milliseconds
 * @returns wall clock of the first time the plan falls due, after `nowMs` for recurring plans
 * @throws MoonportError `bad_value` for a cron expression or a time zone that cannot be read, or a time out of range
 */
export function dueTimeMs(plan: TimerPlan, nowMs: number): number {
  const dueMs = computed(plan, nowMs);
  if (dueMs >= 0 && dueMs <= DUE_MAX_MS) return dueMs;
  throw MoonportError.of("bad_value", `a timer cannot be due at ${dueMs} ms`, { hint: "times are seconds since 1970" });
}

function computed(plan: TimerPlan, nowMs: number): number {
  switch (plan.kind) {
    case "after":
      return nowMs + plan.delayMs;
    case "at":
      return plan.atMs;
    case "every":
      if (plan.everyMs > 0) return nowMs + plan.everyMs;
      throw MoonportError.of("bad_value", "a recurring timer needs a period above zero");
    case "cron":
      return nextOfCron(plan.expression, plan.timeZone, nowMs);
  }
}

function nextOfCron(expression: string, timeZone: string | undefined, nowMs: number): number {
  let next: Date | null;
  try {
    next = nextRun(expression, timeZone, nowMs);
  } catch (cause) {
    throw MoonportError.of("bad_value", `"${expression}" cannot be scheduled: ${(cause as Error).message}`, { cause });
  }
  if (next === null) throw MoonportError.of("bad_value", `"${expression}" never falls due`);
  return next.getTime();
}

/** What to do with a run that is due. */
export type TakenUp = {
  readonly kind: "run" | "skip";
  /** The run that it is; of several missed ones that count as one, the latest that is known. */
  readonly dueMs: number;
  /** Of the run after it; undefined where there is none. */
  readonly nextMs: number | undefined;
};

/**
 * A run is taken up at `nowMs`, at or after its due time. The next one follows from the plan, not from when this one ran.
 * @param lateMs found later than this, a run counts as missed
 */
export function takeUp(plan: TimerPlan, dueMs: number, nowMs: number, lateMs: number): TakenUp {
  const { missed = "latest" } = plan;
  const { latestMs, nextMs } = missed === "all" ? oneByOne(plan, dueMs) : allAtOnce(plan, dueMs, nowMs);
  const isMissed = missed === "skip" && nowMs - latestMs > lateMs;
  return { kind: isMissed ? "skip" : "run", dueMs: latestMs, nextMs };
}

function oneByOne(plan: TimerPlan, dueMs: number): { latestMs: number; nextMs: number | undefined } {
  return { latestMs: dueMs, nextMs: followingMs(plan, dueMs) };
}

function allAtOnce(plan: TimerPlan, dueMs: number, nowMs: number): { latestMs: number; nextMs: number | undefined } {
  if (plan.kind === "every") {
    const latestMs = dueMs + Math.floor((nowMs - dueMs) / plan.everyMs) * plan.everyMs;
    return { latestMs, nextMs: bounded(latestMs + plan.everyMs) };
  }
  // Of a calendar's times between the two only the first is at hand.
  return { latestMs: dueMs, nextMs: followingMs(plan, Math.max(dueMs, nowMs)) };
}

function followingMs(plan: TimerPlan, afterMs: number): number | undefined {
  if (plan.kind === "every") return bounded(afterMs + plan.everyMs);
  if (plan.kind !== "cron") return undefined;
  return nextRun(plan.expression, plan.timeZone, afterMs)?.getTime();
}

function bounded(dueMs: number): number | undefined {
  return dueMs <= DUE_MAX_MS ? dueMs : undefined;
}

function nextRun(expression: string, timeZone: string | undefined, afterMs: number): Date | null {
  return new Cron(expression, { timezone: timeZone ?? "UTC" }).nextRun(new Date(afterMs));
}
