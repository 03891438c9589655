/** The order of a page: `-top, status`, and how SQLite orders values, for whoever merges what several shards have ordered. Pure. */
import { MoonportError } from "../errors.js";
import { nearest } from "../nearest.js";
import type { SqlValue } from "../values.js";
import { type Columns, KEY_COLUMN, withKey } from "./filter/filter.js";

export interface OrderTerm {
  readonly column: string;
  readonly descending: boolean;
}

export const ORDER_COLUMNS_MAX = 8;
const TERM = /^(-?)([A-Za-z_][A-Za-z0-9_]*)$/;

/**
 * The terms, the key last among them: so every object has a place of its own, and a page can go on behind any of them. The key
 * follows the direction of the term before it, as an index does when it is walked.
 * @throws MoonportError `bad_order`
 */
export function parseOrder(text: string, columns: Columns): OrderTerm[] {
  const known = withKey(columns);
  const terms: OrderTerm[] = [];
  for (const part of text.trim() === "" ? [] : text.split(",")) {
    const [, minus, column = ""] = TERM.exec(part.trim()) ?? [];
    if (minus === undefined) {
      throw badOrder(
        `"${part.trim().slice(0, 80)}" is no column`,
        "columns, with - before those that fall: -top, status",
      );
    }
    if (!Object.hasOwn(known, column)) {
      const names = Object.keys(known);
      const guess = nearest(column, names);
      throw badOrder(
        `there is no column "${column.slice(0, 80)}"`,
        guess ? `did you mean ${guess}?` : `columns are ${names.join(", ")}`,
      );
    }
    if (terms.some((term) => term.column === column)) throw badOrder(`${column} is named twice`);
    terms.push({ column, descending: minus === "-" });
    if (terms.length > ORDER_COLUMNS_MAX) throw badOrder(`more than ${ORDER_COLUMNS_MAX} columns`);
  }
  if (terms.at(-1)?.column === KEY_COLUMN) return terms;
  const without = terms.filter(({ column }) => column !== KEY_COLUMN);
  // Behind the key nothing is left to order.
  if (without.length < terms.length) return terms.slice(0, terms.findIndex(({ column }) => column === KEY_COLUMN) + 1);
  return [...terms, { column: KEY_COLUMN, descending: terms.at(-1)?.descending ?? false }];
}

/** The same order has the same text. */
export function orderText(terms: readonly OrderTerm[]): string {
  return terms.map(({ column, descending }) => `${descending ? "-" : ""}${column}`).join(",");
}

/** Negative when the first stands before the second. */
export function compareByOrder(
  terms: readonly OrderTerm[],
  first: readonly SqlValue[],
  second: readonly SqlValue[],
): number {
  for (let at = 0; at < terms.length; at++) {
    const difference = compareValues(first[at] ?? null, second[at] ?? null);
    if (difference !== 0) return terms[at]?.descending ? -difference : difference;
  }
  return 0;
}

/** As SQLite does: null, numbers, texts by their UTF-8 bytes. */
function compareValues(first: SqlValue, second: SqlValue): number {
  const [one, other] = [rankOf(first), rankOf(second)];
  if (one !== other) return one - other;
  if (typeof first === "number") return first - (second as number);
  if (typeof first === "string") return compareTexts(first, second as string);
  return 0;
}

function rankOf(value: SqlValue): number {
  if (value === null) return 0;
  return typeof value === "number" ? 1 : 2;
}

const SURROGATE = 0xd800;

/** By UTF-8 bytes, which is by signs: units of UTF-16 differ from that only where one of two is a surrogate. */
function compareTexts(first: string, second: string): number {
  const length = Math.min(first.length, second.length);
  for (let at = 0; at < length; at++) {
    const [one, other] = [first.charCodeAt(at), second.charCodeAt(at)];
    if (one === other) continue;
    return one >= SURROGATE && other >= SURROGATE ? signRank(one) - signRank(other) : one - other;
  }
  return first.length - second.length;
}

/** U+E000 and above stand before what is written with surrogates. */
function signRank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x2000 : unit + 0x2000;
}

function badOrder(what: string, hint?: string): MoonportError {
  return MoonportError.of("bad_order", `order: ${what}`, hint === undefined ? {} : { hint });
}
