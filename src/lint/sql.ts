/** SQL that stands in a file as literal text, and where. */
import { ClassUse } from "./class-use.js";
import type { LintApp, LintFile } from "./contract.js";
import { resolveNames, type Scopes } from "./scopes.js";
import { argumentsOf, type Expression, isCall, type Node, nodesOf, type Place, parseLua, textOf } from "./syntax.js";

export interface SqlText extends Place {
  readonly sql: string;
  readonly call: "exec" | "one" | "all" | "each";
  /** In a reading method. */
  readonly isReading: boolean;
}

const CALLS = ["exec", "one", "all", "each"] as const;

/** The first arguments of `state.sql.exec` and its like, as far as they are literals. */
export function sqlTexts(file: LintFile, app: LintApp): SqlText[] {
  const parsed = parseLua(file.text);
  if (parsed.kind === "failed") return [];
  const { chunk, placeOf } = parsed;
  const scopes = resolveNames(chunk);
  const { functions } = new ClassUse(file, app, chunk, scopes);
  const reading = new Set<Node>(
    functions.filter(({ isReading }) => isReading).flatMap(({ node }) => [...nodesOf(node)]),
  );
  const texts: SqlText[] = [];
  for (const node of nodesOf(chunk)) {
    if (!isCall(node)) continue;
    const call = sqlCall(node.base, scopes);
    const [first] = argumentsOf(node);
    const sql = textOf(first);
    if (call === undefined || first === undefined || sql === undefined) continue;
    texts.push({ ...placeOf(first), sql, call, isReading: reading.has(node) });
  }
  return texts;
}

/** Where each migration begins, as far as they stand in one list; where the list does, for others. */
export function migrationPlaces(file: LintFile): { readonly list: Place; readonly each: readonly Place[] } {
  const parsed = parseLua(file.text);
  const start = { line: 1, column: 1 };
  if (parsed.kind === "failed") return { list: start, each: [] };
  for (const node of nodesOf(parsed.chunk)) {
    if (node.type !== "AssignmentStatement") continue;
    const [target] = node.variables;
    const [value] = node.init;
    if (target?.type !== "MemberExpression" || target.identifier.name !== "migrations" || value === undefined) continue;
    const entries = value.type === "TableConstructorExpression" ? value.fields : [];
    const each = entries.flatMap((entry) => (entry.type === "TableValue" ? [parsed.placeOf(entry.value)] : []));
    return { list: parsed.placeOf(node), each };
  }
  return { list: start, each: [] };
}

function sqlCall(expression: Expression, scopes: Scopes): SqlText["call"] | undefined {
  if (expression.type !== "MemberExpression" || expression.indexer !== ".") return undefined;
  const { base, identifier } = expression;
  if (base.type !== "MemberExpression" || base.identifier.name !== "sql" || base.base.type !== "Identifier")
    return undefined;
  const isState = base.base.name === "state" && scopes.variableOf(base.base) === undefined;
  return isState ? CALLS.find((name) => name === identifier.name) : undefined;
}
