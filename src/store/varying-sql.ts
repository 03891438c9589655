/**
 * Whether what a statement gives depends on more than the database and its parameters: on chance, the time, or what the
 * connection did before. Pure.
 */
import type { SqlToken } from "./sql-tokens.js";

/** Those that SQLite does not call deterministic, and those of date and time, which take `now` from wherever it comes. */
export const VARYING_FUNCTIONS: ReadonlySet<string> = new Set([
  "random",
  "randomblob",
  "changes",
  "total_changes",
  "last_insert_rowid",
  "date",
  "time",
  "datetime",
  "julianday",
  "unixepoch",
  "strftime",
  "timediff",
  "current_date",
  "current_time",
  "current_timestamp",
]);
const VARYING_WORDS = new Set(["current_date", "current_time", "current_timestamp"]);

export function varies(tokens: readonly SqlToken[]): boolean {
  return tokens.some((token, index) => {
    if (!("lower" in token)) return false;
    if (token.kind === "word" && VARYING_WORDS.has(token.lower)) return true;
    const next = tokens[index + 1];
    return next?.kind === "sign" && next.text === "(" && VARYING_FUNCTIONS.has(token.lower);
  });
}
