/**
 * Keeps SQLite from planning a statement anew each time it runs.
 *
 * Since 3.48 its planner looks at the value that is bound to a bare `LIMIT ?`, and so every binding of it makes the next step
 * prepare the whole statement again: ten times the cost of a short query. With a sign before it the parameter is an expression,
 * whose value the planner does not ask for and which is the same. Source: `sqlite3ExprIsInteger` in SQLite's expr.c.
 */
import type { SqlToken } from "./sql-tokens.js";

/** Of one statement of class code. @param tokens the statement's, which stand in `sql` */
export function withSteadyLimits(sql: string, tokens: readonly SqlToken[]): string {
  let text = "";
  let from = tokens[0]?.start ?? 0;
  for (const [index, token] of tokens.entries()) {
    const before = tokens[index - 1];
    if (token.kind !== "parameter" || before?.kind !== "word" || before.lower !== "limit") continue;
    text += `${sql.slice(from, token.start)}+`;
    from = token.start;
  }
  return text + sql.slice(from, tokens.at(-1)?.end);
}

/** Of a statement of the kernel's own, which holds neither strings nor comments that say LIMIT. */
export function withSteadyKernelLimits(sql: string): string {
  return sql.replace(/\bLIMIT (?=[?:])/g, "LIMIT +");
}
