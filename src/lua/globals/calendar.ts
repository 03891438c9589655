/** The Gregorian calendar in UTC, as arithmetic: no clock, no time zone. */

export interface CalendarTime {
  readonly year: number;
  /** 1 to 12; other values carry into the year. */
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly min: number;
  readonly sec: number;
}

export interface CalendarDay extends CalendarTime {
  /** 0 is Sunday. */
  readonly weekday: number;
  /** 1 is the first of January. */
  readonly yearDay: number;
}

const DAY_SECONDS = 86_400;
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

/** Days since 1970-01-01 (Howard Hinnant's algorithm: years begin in March, so the leap day comes last). */
function daysOf(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

export function secondsOf(time: CalendarTime): number {
  const monthIndex = time.month - 1;
  const year = time.year + Math.floor(monthIndex / 12);
  const month = (((monthIndex % 12) + 12) % 12) + 1;
  const days = daysOf(year, month, 1) + time.day - 1;
  return days * DAY_SECONDS + time.hour * 3_600 + time.min * 60 + time.sec;
}

export function calendarOf(seconds: number): CalendarDay {
  const days = Math.floor(seconds / DAY_SECONDS);
  const rest = seconds - days * DAY_SECONDS;
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1_460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  return {
    year,
    month,
    day: dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1,
    hour: Math.floor(rest / 3_600),
    min: Math.floor((rest % 3_600) / 60),
    sec: rest % 60,
    weekday: (((days + 4) % 7) + 7) % 7,
    yearDay: days - daysOf(year, 1, 1) + 1,
  };
}

const two = (value: number): string => String(value).padStart(2, "0");
const name = (names: readonly string[], index: number): string => names[index] ?? "?";

const CONVERSIONS: Readonly<Record<string, (time: CalendarDay) => string>> = {
  a: (time) => name(WEEKDAYS, time.weekday).slice(0, 3),
  A: (time) => name(WEEKDAYS, time.weekday),
  b: (time) => name(MONTHS, time.month - 1).slice(0, 3),
  B: (time) => name(MONTHS, time.month - 1),
  c: (time) => expand("%a %b %e %H:%M:%S %Y", time),
  d: (time) => two(time.day),
  D: (time) => expand("%m/%d/%y", time),
  e: (time) => String(time.day).padStart(2, " "),
  F: (time) => expand("%Y-%m-%d", time),
  H: (time) => two(time.hour),
  I: (time) => two(((time.hour + 11) % 12) + 1),
  j: (time) => String(time.yearDay).padStart(3, "0"),
  m: (time) => two(time.month),
  M: (time) => two(time.min),
  n: () => "\n",
  p: (time) => (time.hour < 12 ? "AM" : "PM"),
  R: (time) => expand("%H:%M", time),
  S: (time) => two(time.sec),
  t: () => "\t",
  T: (time) => expand("%H:%M:%S", time),
  u: (time) => String(time.weekday === 0 ? 7 : time.weekday),
  w: (time) => String(time.weekday),
  x: (time) => expand("%m/%d/%y", time),
  X: (time) => expand("%H:%M:%S", time),
  y: (time) => two(((time.year % 100) + 100) % 100),
  Y: (time) => String(time.year),
  z: () => "+0000",
  Z: () => "UTC",
  "%": () => "%",
};

function expand(format: string, time: CalendarDay): string {
  return format.replace(/%(.)/gs, (_, letter: string) => CONVERSIONS[letter]?.(time) ?? "");
}

/** As C's strftime with these conversions; `undefined` when the format holds another. */
export function formatTime(format: string, time: CalendarDay): string | undefined {
  const conversions = format.match(/%(?:.|$)/gs) ?? [];
  if (conversions.some((conversion) => !Object.hasOwn(CONVERSIONS, conversion.slice(1)))) return undefined;
  return expand(format, time);
}
