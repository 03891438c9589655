/** Durations and times as people write them: "250ms", "10s", "5m", "2h", "1d", seconds; and moments in time. */

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
const SECONDS = /^\d+(?:\.\d+)?$/;

/** Text with a unit, in milliseconds; undefined when it is none. */
export function durationMs(text: string): number | undefined {
  const [, amount, unit] = DURATION.exec(text) ?? [];
  return amount === undefined || unit === undefined ? undefined : Number(amount) * (UNITS_MS[unit] ?? Number.NaN);
}

/** The same, or a number of seconds. */
export function durationOrSecondsMs(text: string): number | undefined {
  return SECONDS.test(text) ? Number(text) * 1_000 : durationMs(text);
}

/** ISO 8601 with a time zone, or seconds since 1970, as wall clock milliseconds; undefined when it is neither. */
export function momentMs(text: string): number | undefined {
  if (SECONDS.test(text)) return Number(text) * 1_000;
  const isMoment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  const ms = isMoment && isDay(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** Whether the calendar has the day that a text begins with, `2026-02-28`: `Date.parse` takes February 30th for March 2nd. */
export function isDay(text: string): boolean {
  const [year = 0, month = 0, day = 0] = text.slice(0, "2026-02-28".length).split("-").map(Number);
  return new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
}
