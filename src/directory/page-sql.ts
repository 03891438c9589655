/**
 * The statements of one page of one shard.
 *
 * A page goes on behind a place, by ranges that an index of the first column can walk. Nulls come first where a column rises and
 * last where it falls; a range ends before them. So behind a place there are up to two stretches, each its own statement, the
 * second asked only when the first did not fill the page. Pure.
 */
import type { SqlValue } from "../values.js";
import { KEY_COLUMN } from "./filter/filter.js";
import type { Condition } from "./filter/to-sql.js";
import type { OrderTerm } from "./order.js";

export interface PageQuery {
  readonly filter: Condition | undefined;
  readonly order: readonly OrderTerm[];
  /** Values of the order's columns; undefined at the beginning. */
  readonly place: readonly SqlValue[] | undefined;
  /** What each row tells, in order. */
  readonly columns: readonly string[];
  nameOf(column: string): string;
}

/** One after the other they give the page; each takes its limit as the last value. */
export function pageStatements(query: PageQuery): Condition[] {
  const { filter, order, columns, nameOf } = query;
  // What the table does not have yet orders nothing, and SQLite takes no constant there.
  const terms = order.filter(({ column }) => nameOf(column) !== "NULL");
  const by = terms.map(({ column, descending }) => `${nameOf(column)}${descending ? " DESC" : ""}`).join(", ");
  return stretches(query).map((stretch) => {
    const conditions = [filter, stretch].filter((one) => one !== undefined);
    const where = conditions.length === 0 ? "" : ` WHERE ${conditions.map(({ sql }) => sql).join(" AND ")}`;
    return {
      sql: `SELECT ${columns.map(nameOf).join(", ")} FROM entry${where} ORDER BY ${by} LIMIT ?`,
      values: conditions.flatMap(({ values }) => values),
    };
  });
}

function stretches({ order, place, nameOf }: PageQuery): (Condition | undefined)[] {
  if (place === undefined) return [undefined];
  const [first, ...rest] = order as [OrderTerm, ...OrderTerm[]];
  const [value = null, ...values] = place;
  const name = nameOf(first.column);
  const later = behind(rest, values, nameOf);
  const amongNulls: Condition = { sql: `(${name} IS NULL AND ${later.sql})`, values: later.values };
  const beyondNulls: Condition = { sql: `(${name} IS NOT NULL)`, values: [] };
  if (value === null) return first.descending ? [amongNulls] : [amongNulls, beyondNulls];
  const sign = first.descending ? "<" : ">";
  const range: Condition =
    rest.length === 0
      ? { sql: `(${name} ${sign} ?)`, values: [value] }
      : {
          sql: `(${name} ${sign}= ? AND (${name} ${sign} ? OR ${later.sql}))`,
          values: [value, value, ...later.values],
        };
  const endsWithNulls = first.descending && first.column !== KEY_COLUMN;
  return endsWithNulls ? [range, { sql: `(${name} IS NULL)`, values: [] }] : [range];
}

/** Behind `values` in the order of `terms`, of rows that are equal in what comes before. */
function behind(
  terms: readonly OrderTerm[],
  values: readonly SqlValue[],
  nameOf: (column: string) => string,
): Condition {
  const [term, ...rest] = terms;
  if (term === undefined) return { sql: "0", values: [] };
  const [value = null, ...others] = values;
  const name = nameOf(term.column);
  const later = behind(rest, others, nameOf);
  const equal = `(${name} IS ? AND ${later.sql})`;
  if (value === null) {
    const beyond = term.descending ? "0" : `${name} IS NOT NULL`;
    return { sql: `(${beyond} OR ${equal})`, values: [value, ...later.values] };
  }
  const beyond = term.descending ? `(${name} < ? OR ${name} IS NULL)` : `${name} > ?`;
  return { sql: `(${beyond} OR ${equal})`, values: [value, value, ...later.values] };
}
