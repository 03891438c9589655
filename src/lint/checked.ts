/** One file under check, as each check sees it. */
import type { GlobalNames } from "../lua/contract.js";
import type { ClassUse } from "./class-use.js";
import type { LintApp, LintFile } from "./contract.js";
import type { Scopes } from "./scopes.js";
import type { Chunk, Node } from "./syntax.js";

export interface Checked {
  readonly file: LintFile;
  readonly app: LintApp;
  readonly names: GlobalNames;
  readonly chunk: Chunk;
  readonly scopes: Scopes;
  readonly classUse: ClassUse;
  report(node: Node, message: string): void;
}
