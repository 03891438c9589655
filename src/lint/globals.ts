/** Globals that are not there, and assignments to globals. */
import { nearest } from "../nearest.js";
import type { Checked } from "./checked.js";

export function checkGlobals({ names, scopes, app, classUse, file, report }: Checked): void {
  const written = new Set(scopes.globals.filter(({ isWritten }) => isWritten).map(({ node }) => node.name));
  const known = [...names.known.keys(), ...app.classes.keys()];
  for (const { node, isWritten } of scopes.globals) {
    const { name } = node;
    const reason = Object.hasOwn(names.absent, name) ? names.absent[name] : undefined;
    if (isWritten) report(node, `assignment to the global '${name}': write \`local ${name}\``);
    else if (reason !== undefined) report(node, `'${name}' is not there: ${reason}`);
    else if (names.known.has(name) || app.classes.has(name) || written.has(name)) continue;
    else if (name === "self" && file.kind === "class") report(node, selfText(classUse.functions, node));
    else {
      const guess = nearest(name, known);
      report(node, `no global is called '${name}'${guess === undefined ? "" : `; did you mean '${guess}'?`}`);
    }
  }
}

/** `self` outside of a method: mostly a dot where a colon was meant. */
function selfText(functions: Checked["classUse"]["functions"], { loc }: { loc?: Checked["chunk"]["loc"] }): string {
  const line = loc?.start.line ?? 0;
  const around = functions.find(({ hasColon, node }) => {
    return !hasColon && node.loc !== undefined && node.loc.start.line <= line && line <= node.loc.end.line;
  });
  return around === undefined
    ? "there is no self here: it belongs to methods, `function Class:name(...)`"
    : `there is no self here: define '${around.name}' with a colon instead of a dot`;
}
