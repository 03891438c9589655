/** What a class declares of its directory, under a name of its own: two classes of one shape have the same columns and indexes. */
import { createHash } from "node:crypto";
import type { DirectoryDeclaration } from "../lua/contract.js";

const known = new WeakMap<DirectoryDeclaration, string>();

export function shapeOf(declaration: DirectoryDeclaration): string {
  const before = known.get(declaration);
  if (before !== undefined) return before;
  const columns = Object.entries(declaration.columns).sort(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify([columns, [...new Set(declaration.index)].sort()]);
  const shape = createHash("sha256").update(text, "utf8").digest("hex").slice(0, 16);
  known.set(declaration, shape);
  return shape;
}
