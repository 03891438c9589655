/** A filter as it was understood: a tree over columns that exist and values that fit them. */
import type { ColumnType } from "../../lua/contract.js";

/** What a column is compared with, as SQLite holds it: booleans are 0 and 1. */
export type FilterValue = string | number;

export type Comparison = "=" | "!=" | "<" | "<=" | ">" | ">=";

export type Operand =
  | { readonly kind: "value"; readonly value: FilterValue }
  | { readonly kind: "column"; readonly column: string };

export type Filter =
  | { readonly kind: "and" | "or"; readonly terms: readonly Filter[] }
  | { readonly kind: "not"; readonly term: Filter }
  | { readonly kind: "compare"; readonly column: string; readonly comparison: Comparison; readonly with: Operand }
  | { readonly kind: "in"; readonly column: string; readonly values: readonly FilterValue[] }
  | { readonly kind: "prefix"; readonly column: string; readonly prefix: string }
  | { readonly kind: "null"; readonly column: string };

/** The object's own key can be asked for like a column. */
export const KEY_COLUMN = "key";

/** What may be named: the declared columns, and the key. */
export type Columns = Readonly<Record<string, ColumnType>>;

export function withKey(columns: Columns): Columns {
  return { ...columns, [KEY_COLUMN]: "text" };
}
