/**
 * `os.time`, `os.date`, `os.clock`, `os.difftime`: the call's time, in UTC.
 *
 * A node's own time zone never shows: the same call gives the same answer on every node.
 */
import type { LuaFunction, LuaState, Table, TValue } from "../fengari/types.js";
import { TYPE } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, isNil, isNumber, isString, isTable } from "../runtime.js";
import { textOf } from "../values.js";
import { type CalendarTime, calendarOf, formatTime, secondsOf } from "./calendar.js";
import { Arguments } from "./read-arguments.js";

/** A conversion is work that no instruction shows, and prints more than it is long. */
const FORMAT_CHARACTERS_MAX = 1_000;
const WHOLE = /^\s*[+-]?\d{1,15}\s*$/;

export function osFunctions(machine: Machine): Record<string, LuaFunction> {
  const { runtime } = machine;
  const args = new Arguments(machine);
  const nowSeconds = (L: LuaState): number => runtime.codeHost(L, "os").startedMs / 1_000;
  return {
    time: (L) => {
      const fields = argument(L, 1);
      if (isNil(fields)) return runtime.push(L, runtime.number(Math.floor(nowSeconds(L))));
      if (!isTable(fields)) throw runtime.fail(L, "os.time(table): the table has year, month and day");
      return runtime.push(L, runtime.number(secondsOf(readFields(machine, L, fields.value as Table))));
    },
    date: (L) => {
      const format = isNil(argument(L, 1)) ? "%c" : args.text(L, 1, "os.date(format, time)");
      if (format.length > FORMAT_CHARACTERS_MAX)
        throw runtime.fail(L, `os.date(format, time): a format has ${FORMAT_CHARACTERS_MAX} characters at most`);
      const seconds = argument(L, 2);
      if (!isNil(seconds) && !isNumber(seconds))
        throw runtime.fail(L, "os.date(format, time): time is a number of seconds");
      const time = calendarOf(Math.floor(isNumber(seconds) ? (seconds.value as number) : nowSeconds(L)));
      const plain = format.startsWith("!") ? format.slice(1) : format;
      if (plain.startsWith("*t")) return runtime.push(L, dateTable(machine, time));
      const text = formatTime(plain, time);
      return runtime.push(
        L,
        runtime.string(text ?? runtime.fail(L, `os.date: '${plain}' holds an unknown conversion`)),
      );
    },
    clock: (L) => runtime.push(L, runtime.value(TYPE.number, nowSeconds(L))),
    difftime: (L) => {
      const [to, from] = [argument(L, 1), argument(L, 2)];
      if (!isNumber(to) || !isNumber(from)) throw runtime.fail(L, "os.difftime(to, from) takes two times in seconds");
      return runtime.push(L, runtime.value(TYPE.number, (to.value as number) - (from.value as number)));
    },
  };
}

/** Text of digits is a number here, as string.match gives it. */
function numberOf(value: TValue | undefined): number | undefined {
  if (isNumber(value)) return value.value;
  const text = isString(value) ? textOf(value.value) : null;
  return text !== null && WHOLE.test(text) ? Number(text) : undefined;
}

function readFields(machine: Machine, L: LuaState, table: Table): CalendarTime {
  const { runtime } = machine;
  const field = (name: string, fallback?: number): number => {
    const value = runtime.field(table, name);
    if (isNil(value) && fallback !== undefined) return fallback;
    const number = numberOf(value);
    if (number === undefined || !Number.isInteger(number)) {
      throw runtime.fail(L, `os.time(table): field '${name}' must be a whole number`);
    }
    return number;
  };
  return {
    year: field("year"),
    month: field("month"),
    day: field("day"),
    hour: field("hour", 12),
    min: field("min", 0),
    sec: field("sec", 0),
  };
}

function dateTable(machine: Machine, time: ReturnType<typeof calendarOf>) {
  const { year, month, day, hour, min, sec } = time;
  return machine.values.toLua({
    year,
    month,
    day,
    hour,
    min,
    sec,
    wday: time.weekday + 1,
    yday: time.yearDay,
    isdst: false,
  });
}
