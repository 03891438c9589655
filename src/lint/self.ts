/** Methods without `self`, and fields of `self` that are not there. */
import { nearest } from "../nearest.js";
import type { Checked } from "./checked.js";
import type { ClassFunction } from "./class-use.js";
import { nodesOf } from "./syntax.js";

const IDENTITY = ["key", "class", "app", "id"];

export function checkSelf(checked: Checked): void {
  const { classUse, report, file } = checked;
  for (const one of classUse.functions) {
    if (!takesSomethingElse(one) || classUse.calledWithDot.has(one.name)) continue;
    const on = one.isReading ? `${file.name}.read` : file.name;
    report(one.at, `a method's first parameter is self: write \`function ${on}:${one.name}(...)\``);
  }
  checkFields(checked);
}

/** Its first argument is the object itself, whatever it calls it. */
function takesSomethingElse({ hasColon, node }: ClassFunction): boolean {
  const [first] = node.parameters;
  return !hasColon && first?.type === "Identifier" && first.name !== "self" && !first.name.startsWith("_");
}

function checkFields({ classUse, scopes, chunk, file, report }: Checked): void {
  const methods = classUse.methodsOf(file.name);
  if (file.kind !== "class" || methods === undefined) return;
  const own = new Set(classUse.functions.map(({ node }) => node));
  const members = new Set([...IDENTITY, ...methods.keys(), ...classUse.members]);
  const assigned = new Set(
    [...nodesOf(chunk)].flatMap((node) => (node.type === "AssignmentStatement" ? node.variables : [])),
  );
  for (const node of nodesOf(chunk)) {
    if (node.type !== "MemberExpression" || node.base.type !== "Identifier") continue;
    const variable = scopes.variableOf(node.base);
    if (variable?.selfOf === undefined || !own.has(variable.selfOf) || variable.isReassigned) continue;
    const { name } = node.identifier;
    if (assigned.has(node)) {
      report(node.identifier, `self.${name} cannot be set: keep what must last in state.store or state.sql`);
    } else if (!members.has(name) && !classUse.escapes) {
      const guess = nearest(name, members);
      report(
        node.identifier,
        `${file.name} has no '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`,
      );
    }
  }
}
