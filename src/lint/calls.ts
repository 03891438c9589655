/** Methods that are called, sent or scheduled and are not there. */
import type { MethodKind } from "../lua/contract.js";
import { nearest } from "../nearest.js";
import type { Checked } from "./checked.js";
import { type AnyCall, argumentsOf, type Expression, type Identifier, isCall, type Node, nodesOf } from "./syntax.js";

const TIMERS = new Set(["after", "at", "every", "cron"]);

export function checkCalls(checked: Checked): void {
  const meant = checked.file.kind === "test" ? expectedToFail(checked) : new Set<Node>();
  for (const node of nodesOf(checked.chunk)) {
    if (meant.has(node) || !isCall(node) || node.base.type !== "MemberExpression" || node.base.indexer !== ":")
      continue;
    const { base, identifier } = node.base;
    if (isTimer(checked, base)) checkTimer(checked, identifier);
    else checkMethod(checked, identifier, checked.classUse.referenceTo(sentTo(checked, base) ?? base));
  }
}

/** A test may call what is not there to see that it is refused. */
function expectedToFail({ chunk, scopes }: Checked): ReadonlySet<Node> {
  const expected = new Set<Node>();
  for (const node of nodesOf(chunk)) {
    if (!isCall(node) || !isGlobal(scopes, node.base, "expect")) continue;
    for (const argument of argumentsOf(node)) for (const inner of nodesOf(argument)) expected.add(inner);
  }
  return expected;
}

function checkMethod({ classUse, report }: Checked, at: Identifier, className: string | undefined): void {
  const methods = className === undefined ? undefined : classUse.methodsOf(className);
  if (methods === undefined) return;
  const { name } = at;
  if (name.startsWith("_")) report(at, `'${name}' is private to ${className}`);
  else if (!methods.has(name)) report(at, noMethod(`${className}`, name, publicOf(methods)));
}

/** A timer calls a writing method of its own object, private or not. */
function checkTimer({ classUse, file, report }: Checked, at: Identifier): void {
  const methods = file.kind === "class" ? classUse.methodsOf(file.name) : undefined;
  const kind = methods?.get(at.name);
  if (methods === undefined || kind === "write") return;
  const writing = [...methods].filter(([, one]) => one === "write").map(([name]) => name);
  if (kind === "read") report(at, `'${at.name}' is a reading method; a timer calls a writing one`);
  else report(at, noMethod(file.name, at.name, writing));
}

/** The object of `send(Class("key"), options)`. */
function sentTo({ scopes }: Checked, expression: Expression): Expression | undefined {
  if (!isCall(expression) || !isGlobal(scopes, expression.base, "send")) return undefined;
  return argumentsOf(expression)[0];
}

/** `schedule.after(...)` and its like. */
function isTimer({ scopes }: Checked, expression: Expression): expression is AnyCall {
  if (!isCall(expression) || expression.base.type !== "MemberExpression") return false;
  const { base, identifier } = expression.base;
  return TIMERS.has(identifier.name) && isGlobal(scopes, base, "schedule");
}

function isGlobal(scopes: Checked["scopes"], expression: Expression, name: string): boolean {
  return expression.type === "Identifier" && expression.name === name && scopes.variableOf(expression) === undefined;
}

function publicOf(methods: ReadonlyMap<string, MethodKind>): string[] {
  return [...methods.keys()].filter((name) => !name.startsWith("_"));
}

function noMethod(className: string, name: string, candidates: readonly string[]): string {
  const guess = nearest(name, candidates);
  return `${className} has no method '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`;
}
