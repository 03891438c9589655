/**
 * Values on their way into and out of SQLite.
 *
 * In: whole numbers are bound as integers (the binding would make every number a REAL), text must be well-formed, NaN and the
 * infinities are refused. Out: an integer beyond ±2^53 is an error, never a rounded number.
 */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { SqlParameters, SqlValue } from "../values.js";

type BoundValue = null | number | bigint | string | Uint8Array;
/** What a statement's functions are called with: one array by position, one object by name, or both. */
export type Bindings = readonly (BoundValue[] | Record<string, BoundValue>)[];

/** The parameters of one statement as SQLite numbers them; an anonymous one has no name, `?3` has the name `3`. */
export interface ParameterShape {
  readonly kind: "none" | "anonymous" | "numbered" | "named" | "mixed";
  readonly names: readonly (string | undefined)[];
}

const NO_BINDINGS: Bindings = [];
const NUMBER_MAX = 32_766;

/** @param parameters as written in the statement, in order */
export function shapeOf(parameters: readonly string[]): ParameterShape {
  const names: (string | undefined)[] = [];
  const indexByText = new Map<string, number>();
  for (const text of parameters) {
    if (indexByText.has(text)) continue;
    if (text === "?") {
      names.push(undefined);
    } else if (text.startsWith("?")) {
      const number = Number(text.slice(1));
      if (number < 1 || number > NUMBER_MAX) {
        throw MoonportError.of("sql_error", `the parameter ${text} must be between ?1 and ?${NUMBER_MAX}`);
      }
      while (names.length < number) names.push(undefined);
      names[number - 1] ??= text.slice(1);
      indexByText.set(text, number);
    } else {
      names.push(text.slice(1));
      indexByText.set(text, names.length);
    }
  }
  return { kind: kindOf(parameters), names };
}

function kindOf(parameters: readonly string[]): ParameterShape["kind"] {
  if (parameters.length === 0) return "none";
  const byName = parameters.filter((text) => !text.startsWith("?")).length;
  if (byName === parameters.length) return "named";
  if (byName > 0) return "mixed";
  return parameters.every((text) => text === "?") ? "anonymous" : "numbered";
}

/** @throws MoonportError `sql_error` for a wrong count, name or type; `bad_value` for a value that cannot be stored */
export function bind(shape: ParameterShape, parameters: SqlParameters): Bindings {
  if (isPositional(parameters)) return bindPositional(shape, parameters);
  return bindNamed(shape, parameters);
}

function isPositional(parameters: SqlParameters): parameters is readonly SqlValue[] {
  return Array.isArray(parameters);
}

function bindPositional(shape: ParameterShape, values: readonly SqlValue[]): Bindings {
  if (shape.kind === "named" || shape.kind === "mixed") throw wantsNames(shape);
  if (values.length !== shape.names.length) {
    throw MoonportError.of(
      "sql_error",
      `the statement has ${countOf(shape.names.length)}, but ${values.length} ${values.length === 1 ? "was" : "were"} given`,
    );
  }
  if (values.length === 0) return NO_BINDINGS;
  const bound: BoundValue[] = new Array(values.length);
  for (let index = 0; index < values.length; index++) bound[index] = boundValue(values[index], index + 1);
  if (shape.kind === "anonymous") return [bound];
  return numberedBindings(shape, bound);
}

/** `?3` is a name to the binding; the gaps between numbers are anonymous to it. */
function numberedBindings(shape: ParameterShape, bound: readonly BoundValue[]): Bindings {
  const anonymous: BoundValue[] = [];
  const numbered: Record<string, BoundValue> = Object.create(null);
  for (const [index, value] of bound.entries()) {
    const name = shape.names[index];
    if (name === undefined) anonymous.push(value);
    else numbered[name] = value;
  }
  return [anonymous, numbered];
}

function bindNamed(shape: ParameterShape, values: Readonly<Record<string, SqlValue>>): Bindings {
  const given = Object.keys(values);
  if (shape.kind !== "named") {
    if (given.length === 0 && shape.kind === "none") return NO_BINDINGS;
    if (shape.kind === "mixed") throw wantsNames(shape);
    throw MoonportError.of(
      "sql_error",
      `the statement has ${countOf(shape.names.length)} by position, but names were given`,
    );
  }
  const bound: Record<string, BoundValue> = Object.create(null);
  for (const name of shape.names) {
    if (name === undefined || !Object.hasOwn(values, name)) throw missing(name ?? "?", given);
    bound[name] = boundValue(values[name], name);
  }
  const unknown = given.find((name) => !(name in bound));
  if (unknown === undefined) return [bound];
  const guess = nearest(unknown, Object.keys(bound));
  throw MoonportError.of(
    "sql_error",
    `the statement has no parameter called ${unknown}`,
    guess === undefined ? {} : { hint: `did you mean ${guess}?` },
  );
}

function countOf(count: number): string {
  return count === 1 ? "1 parameter" : `${count} parameters`;
}

function missing(name: string, given: readonly string[]): MoonportError {
  const guess = nearest(name, given);
  return MoonportError.of(
    "sql_error",
    `no value was given for the parameter ${name}`,
    guess === undefined ? {} : { hint: `${guess} was given; is that the one?` },
  );
}

function wantsNames(shape: ParameterShape): MoonportError {
  const names = shape.names.map((name) => name ?? "?").join(", ");
  if (shape.kind === "mixed") {
    return MoonportError.of("sql_error", `the statement mixes parameters by name and by position (${names})`);
  }
  return MoonportError.of(
    "sql_error",
    `the statement's parameters have names (${names}), but values came by position`,
    {
      hint: "pass one table with a field for each name",
    },
  );
}

function boundValue(value: SqlValue | undefined, place: string | number): BoundValue {
  switch (typeof value) {
    case "number":
      if (Number.isSafeInteger(value)) return BigInt(value);
      if (Number.isFinite(value)) return value;
      throw MoonportError.of("bad_value", `parameter ${place} is ${value}, which SQL cannot hold`);
    case "string":
      if (value.isWellFormed()) return value;
      throw MoonportError.of("bad_value", `parameter ${place} is text that is not valid Unicode`, {
        hint: "bytes travel as blob(...)",
      });
    case "object":
      if (value === null || value instanceof Uint8Array) return value;
  }
  throw MoonportError.of("sql_error", `parameter ${place} is a ${typeof value}, which SQL cannot hold`, {
    hint: "null, numbers, text and blobs can be bound; encode tables with json",
  });
}

/** Whether a number may be an integer that was rounded: the row is then read again with exact integers. */
export function mayBeRounded(value: unknown): boolean {
  return typeof value === "number" && (value >= 2 ** 53 || value <= -(2 ** 53)) && Number.isInteger(value);
}

/** A value as the binding gave it, exact integers included. @throws MoonportError `sql_error` for an integer beyond ±2^53 */
export function plainValue(value: unknown, column: string): SqlValue {
  if (typeof value === "bigint") return plainInteger(value, column);
  if (value instanceof Uint8Array) return new Uint8Array(value);
  return value as SqlValue;
}

function plainInteger(value: bigint, column: string): number {
  if (value > 2n ** 53n || value < -(2n ** 53n)) {
    throw MoonportError.of("sql_error", `${column} is the integer ${value}, beyond ±2^53: it cannot be read exactly`, {
      hint: "read it as text: CAST(... AS TEXT)",
    });
  }
  return Number(value);
}

/** Roughly what a value takes in memory, for bounds. */
export function sizeOfValue(value: unknown): number {
  if (typeof value === "string") return 16 + value.length;
  if (value instanceof Uint8Array) return 64 + value.byteLength;
  return 8;
}
