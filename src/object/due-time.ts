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
    next = new Cron(expression, { timezone: timeZone ?? "UTC" }).nextRun(new Date(nowMs));
  } catch (cause) {
    throw MoonportError.of("bad_value", `"${expression}" cannot be scheduled: ${(cause as Error).message}`, { cause });
  }
  if (next === null) throw MoonportError.of("bad_value", `"${expression}" never falls due`);
  return next.getTime();
}
