/** Reading what Lua code passed to a host function, with errors that name function and argument. */
import { durationMs } from "../../durations.js";
import { nearest } from "../../nearest.js";
import type { PlainValue } from "../../values.js";
import { type LuaState, type Table, type TString, type TValue, TYPE } from "../fengari/types.js";
import type { Machine } from "../invocation.js";
import { argument, argumentCount, isNil, isNumber, isString, isTable } from "../runtime.js";
import { textOf } from "../values.js";

export class Arguments {
  constructor(readonly machine: Machine) {}

  text(L: LuaState, index: number, usage: string): string {
    const value = argument(L, index);
    if (!isString(value))
      throw this.machine.runtime.fail(L, `${usage}: argument ${index} must be text, not ${typeName(value)}`);
    this.machine.runtime.chargeWork(value.value.tsslen());
    return (
      textOf(value.value as TString) ?? this.machine.runtime.fail(L, `${usage}: argument ${index} is not UTF-8 text`)
    );
  }

  /** The arguments from `first` on, as plain values. */
  rest(L: LuaState, first: number): PlainValue[] {
    const { values } = this.machine;
    const plain: PlainValue[] = [];
    const count = argumentCount(L);
    for (let index = first; index <= count; index++) {
      plain.push(values.toPlain(argument(L, index), `argument ${index - first + 1}`));
    }
    return plain;
  }

  /** A table of options: only these names, the nearest is offered for others. */
  options(L: LuaState, index: number, usage: string, known: readonly string[]): Map<string, TValue> {
    const value = argument(L, index);
    const options = new Map<string, TValue>();
    if (isNil(value)) return options;
    const { runtime } = this.machine;
    if (!isTable(value)) throw runtime.fail(L, `${usage}: options are a table, not ${typeName(value)}`);
    for (const { key, value: option } of (value.value as Table).strong.values()) {
      const name = isString(key) ? (textOf(key.value) ?? "?") : "?";
      if (!known.includes(name)) {
        const guess = nearest(name, known);
        throw runtime.fail(
          L,
          `${usage}: no option is called '${name}'${guess ? `; did you mean '${guess}'?` : `, only ${known.join(", ")}`}`,
        );
      }
      options.set(name, option);
    }
    return options;
  }

  /** Seconds, or text such as "250ms", "10s", "5m", "2h", "1d"; in milliseconds. */
  durationMs(L: LuaState, value: TValue | undefined, usage: string): number {
    const ms = durationOf(value);
    if (ms === undefined || !Number.isFinite(ms) || ms < 0) {
      throw this.machine.runtime.fail(
        L,
        `${usage}: a duration is seconds, or text like "250ms", "10s", "5m", "2h", "1d"`,
      );
    }
    return ms;
  }

  optionText(L: LuaState, options: ReadonlyMap<string, TValue>, name: string, usage: string): string | undefined {
    const value = options.get(name);
    if (value === undefined) return undefined;
    const text = isString(value) ? textOf(value.value as TString) : null;
    return text ?? this.machine.runtime.fail(L, `${usage}: option '${name}' must be text`);
  }
}

function durationOf(value: TValue | undefined): number | undefined {
  if (isNumber(value)) return (value.value as number) * 1_000;
  return isString(value) ? durationMs(textOf(value.value as TString) ?? "") : undefined;
}

const TYPE_NAMES: Readonly<Record<number, string>> = {
  [TYPE.nil]: "nil",
  [TYPE.boolean]: "a boolean",
  [TYPE.number]: "a number",
  [TYPE.integer]: "a number",
  [TYPE.table]: "a table",
  [TYPE.string]: "text",
  [TYPE.userdata]: "a host value",
  [TYPE.thread]: "a coroutine",
};

export function typeName(value: TValue | undefined): string {
  return value === undefined ? "nothing" : (TYPE_NAMES[value.type] ?? "a function");
}
