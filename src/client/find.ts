/** What `find` may be told, here and in a program that embeds its node. */
import { abortSignal, checkOptions, filledText, type OptionRules, text } from "../check-options.js";
import type { DirectoryQuery } from "../lua/contract.js";
import { plainCopy } from "../plain-copy.js";
import type { PlainObject, PlainValue } from "../values.js";
import { amount } from "./options.js";

/** A question to the directory of a class; docs/directory.md has the language of filters. */
export interface FindQuery {
  /** `top > 100 and status = 'open'`. Default: all. */
  readonly where?: string;
  /** Values for `?` in order, or for `:name`. */
  readonly params?: readonly unknown[] | Readonly<Record<string, unknown>>;
  /** Columns, with `-` before those that fall: `-top, status`. Default: by key. */
  readonly order?: string;
  /** Rows of the page. Default 20. */
  readonly limit?: number;
  /** Where the page before ended. */
  readonly after?: string;
  /** How many rows the filter selects in all, too. */
  readonly count?: boolean;
}

export interface FindOptions {
  /** Aborted: it rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** How long it may take in all, milliseconds. Default: the client's. */
  readonly timeoutMs?: number;
}

const QUERY_RULES: OptionRules<FindQuery> = {
  where: text,
  params: {
    is: "an array, or an object of values by name",
    accepts: (value) => typeof value === "object" && value !== null,
  },
  order: text,
  limit: { is: "a number", accepts: (value) => typeof value === "number" },
  after: filledText,
  count: { is: "true or false", accepts: (value) => typeof value === "boolean" },
};
const OPTION_RULES: OptionRules<FindOptions> = { signal: abortSignal, timeoutMs: amount };
const DEPTH_MAX = 1_000;

/** @throws MoonportError `bad_option`, `bad_value` */
export function queryOf(query: FindQuery, options: FindOptions): DirectoryQuery {
  checkOptions("find", query, QUERY_RULES);
  checkOptions("find", options, OPTION_RULES);
  const given = Object.entries(query).filter(([name, value]) => value !== undefined && name !== "params");
  const params = query.params === undefined ? undefined : plainCopy(query.params, "params", DEPTH_MAX);
  return {
    ...Object.fromEntries(given),
    ...(params !== undefined && { params: params as PlainObject | PlainValue[] }),
  };
}
