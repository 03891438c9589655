/**
 * A filter as a bound SQL condition. Nothing of a filter's text gets into the SQL: names come from the tree, which knows declared
 * columns only, and every value is a parameter. Pure.
 */
import type { SqlValue } from "../../values.js";
import type { Filter, Operand } from "./filter.js";

export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/** @param nameOf the SQL of a column; `NULL` for one that the table does not have yet */
export function conditionOf(filter: Filter, nameOf: (column: string) => string): Condition {
  const values: SqlValue[] = [];
  const bound = (value: SqlValue): string => {
    values.push(value);
    return "?";
  };
  const operand = (one: Operand): string => (one.kind === "value" ? bound(one.value) : nameOf(one.column));
  const write = (one: Filter): string => {
    switch (one.kind) {
      case "and":
      case "or":
        return `(${one.terms.map(write).join(one.kind === "and" ? " AND " : " OR ")})`;
      case "not":
        return `NOT ${write(one.term)}`;
      case "compare":
        return `(${nameOf(one.column)} ${one.comparison} ${operand(one.with)})`;
      case "in":
        return `(${nameOf(one.column)} IN (${one.values.map(bound).join(", ")}))`;
      case "null":
        return `(${nameOf(one.column)} IS NULL)`;
      case "prefix":
        return prefixed(nameOf(one.column), one.prefix, bound);
    }
  };
  return { sql: write(filter), values };
}

/** A range, which an index can walk; LIKE would ignore case and know more wildcards. */
function prefixed(name: string, prefix: string, bound: (value: SqlValue) => string): string {
  const end = afterAll(prefix);
  if (end === undefined) return `(${name} >= ${bound(prefix)})`;
  return `(${name} >= ${bound(prefix)} AND ${name} < ${bound(end)})`;
}

const LAST_SIGN = 0x10ffff;

/** The least text behind all that begin with `prefix`, in the order of UTF-8 bytes; undefined when there is none. */
function afterAll(prefix: string): string | undefined {
  const signs = [...prefix];
  while (signs.length > 0) {
    const last = (signs.pop() as string).codePointAt(0) as number;
    if (last === LAST_SIGN) continue;
    // Surrogates are no signs.
    const next = last + 1 === 0xd800 ? 0xe000 : last + 1;
    return signs.join("") + String.fromCodePoint(next);
  }
  return undefined;
}
