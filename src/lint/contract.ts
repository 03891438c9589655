/** What the linter is asked about, and what it answers. */
import type { GlobalNames, LuaFileKind, MethodKind } from "../lua/contract.js";
import type { Place } from "./syntax.js";

export interface LintFile {
  readonly kind: LuaFileKind;
  /** The class's, unit's, module's or test file's. */
  readonly name: string;
  /** As errors show it. */
  readonly file: string;
  readonly text: string;
}

/** What the file may count on. */
export interface LintApp {
  readonly names: Readonly<Record<LuaFileKind, GlobalNames>>;
  /** Methods by class; without those of a class that does not load, nothing is said of its methods. */
  readonly classes: ReadonlyMap<string, ReadonlyMap<string, MethodKind> | undefined>;
}

export interface Finding extends Place {
  readonly file: string;
  readonly message: string;
}
