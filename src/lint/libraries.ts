/** Fields of `state`, `schedule`, `json`, ... and of Lua's libraries that are not there, and colons where a dot is meant. */
import type { NameTree } from "../lua/contract.js";
import { nearest } from "../nearest.js";
import type { Checked } from "./checked.js";
import { type Expression, isCall, type MemberExpression, nodesOf } from "./syntax.js";

/** Reading a field of these that is not there gives nil and may be meant; calling it cannot. */
const LUAS_OWN = new Set(["string", "table", "math", "utf8", "coroutine", "os"]);

export function checkLibraries(checked: Checked): void {
  const called = new Set<Expression>();
  for (const node of nodesOf(checked.chunk)) {
    if (isCall(node)) called.add(node.base);
    if (node.type === "MemberExpression") checkMember(checked, node, called.has(node));
  }
}

function checkMember({ names, scopes, report }: Checked, node: MemberExpression, isCalled: boolean): void {
  const found = tableAt(names.known, scopes, node.base);
  if (found === undefined) return;
  const { name } = node.identifier;
  const isLuasOwn = LUAS_OWN.has(found.path);
  if (!found.fields.has(name)) {
    if (isLuasOwn && !isCalled) return;
    const guess = nearest(name, found.fields.keys());
    report(node.identifier, `${found.path} has no '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`);
  } else if (node.indexer === ":" && !isLuasOwn) {
    report(node.identifier, `write a dot: ${found.path}.${name}(...)`);
  }
}

/** The table of the library that `state` or `state.sql` is. */
function tableAt(
  known: NameTree,
  scopes: Checked["scopes"],
  expression: Expression,
): { readonly path: string; readonly fields: NameTree } | undefined {
  if (expression.type === "Identifier") {
    const fields = scopes.variableOf(expression) === undefined ? known.get(expression.name) : undefined;
    return fields && { path: expression.name, fields };
  }
  if (expression.type !== "MemberExpression" || expression.indexer !== ".") return undefined;
  const outer = tableAt(known, scopes, expression.base);
  const fields = outer?.fields.get(expression.identifier.name);
  return outer && fields && { path: `${outer.path}.${expression.identifier.name}`, fields };
}
