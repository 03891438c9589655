/** Which expressions of a file stand for a class, and what its own class is given in the text. */
import type { MethodKind } from "../lua/contract.js";
import type { LintApp, LintFile } from "./contract.js";
import type { Scopes, Variable } from "./scopes.js";
import {
  argumentsOf,
  type Chunk,
  type Expression,
  type FunctionDeclaration,
  isCall,
  type MemberExpression,
  type Node,
  nodesOf,
  textOf,
} from "./syntax.js";

/** A function that the text puts on the file's class. */
export interface ClassFunction {
  readonly name: string;
  readonly isReading: boolean;
  /** Written with a colon. */
  readonly hasColon: boolean;
  readonly node: FunctionDeclaration;
  readonly at: Node;
}

export class ClassUse {
  readonly #file: LintFile;
  readonly #app: LintApp;
  readonly #scopes: Scopes;
  readonly functions: ClassFunction[] = [];
  /** Names that the text puts on the class, constants among them. */
  readonly members = new Set<string>();
  /** Names that the text calls with a dot: functions that happen to stand on the class. */
  readonly calledWithDot = new Set<string>();
  /** Whether the class is handed to something that may put more on it. */
  escapes = false;

  constructor(file: LintFile, app: LintApp, chunk: Chunk, scopes: Scopes) {
    this.#file = file;
    this.#app = app;
    this.#scopes = scopes;
    if (file.kind === "class") this.#collect(chunk);
  }

  /** The name of the class that an expression stands for. */
  classNamed(expression: Expression): string | undefined {
    if (expression.type !== "Identifier") return undefined;
    const variable = this.#scopes.variableOf(expression);
    if (variable !== undefined) return this.#isOwnClass(variable) ? this.#file.name : undefined;
    return this.#app.classes.has(expression.name) ? expression.name : undefined;
  }

  /** Of a class that loads. */
  methodsOf(className: string): ReadonlyMap<string, MethodKind> | undefined {
    return this.#app.classes.get(className);
  }

  /** `Class("key")`, or a variable that is nothing else. */
  referenceTo(expression: Expression | undefined): string | undefined {
    if (expression === undefined) return undefined;
    if (isCall(expression)) return this.classNamed(expression.base);
    if (expression.type !== "Identifier") return undefined;
    const variable = this.#scopes.variableOf(expression);
    const value = variable?.isReassigned === false ? variable.value : undefined;
    return value !== undefined && isCall(value) ? this.classNamed(value.base) : undefined;
  }

  /** `Class` or `Class.read`. */
  isOwnClass(expression: Expression): "class" | "read" | undefined {
    if (expression.type === "MemberExpression") {
      return expression.identifier.name === "read" && this.isOwnClass(expression.base) === "class" ? "read" : undefined;
    }
    if (expression.type !== "Identifier") return undefined;
    const variable = this.#scopes.variableOf(expression);
    return variable !== undefined && this.#isOwnClass(variable) ? "class" : undefined;
  }

  #isOwnClass({ value, isReassigned }: Variable): boolean {
    if (isReassigned || value === undefined || !isCall(value) || value.base.type !== "Identifier") return false;
    const isClass = value.base.name === "class" && this.#scopes.variableOf(value.base) === undefined;
    return isClass && textOf(argumentsOf(value)[0]) === this.#file.name;
  }

  #collect(chunk: Chunk): void {
    const expected = new Set<Node>();
    for (const node of nodesOf(chunk)) {
      if (node.type === "FunctionDeclaration" && node.identifier?.type === "MemberExpression") {
        this.#member(node.identifier, node);
      } else if (node.type === "AssignmentStatement") {
        for (const [index, target] of node.variables.entries()) {
          const value = node.init[index];
          if (target.type !== "MemberExpression") continue;
          this.#member(target, value?.type === "FunctionDeclaration" ? value : undefined);
        }
      }
      if (isCall(node) && node.base.type === "MemberExpression" && node.base.indexer === ".") {
        if (this.isOwnClass(node.base.base) !== undefined) this.calledWithDot.add(node.base.identifier.name);
      }
      for (const usual of usualUses(node)) expected.add(usual);
      if (node.type !== "Identifier" || expected.has(node)) continue;
      if (this.isOwnClass(node) === "class") this.escapes = true;
    }
  }

  #member(target: MemberExpression, node: FunctionDeclaration | undefined): void {
    const where = this.isOwnClass(target.base);
    if (where === undefined) return;
    const { name } = target.identifier;
    this.members.add(name);
    if (node === undefined) return;
    const hasColon = target.indexer === ":";
    this.functions.push({ name, isReading: where === "read", hasColon, node, at: target.identifier });
  }
}

/** Where a class's name stands without the class being handed on: before a dot or a call, and after `local` and `return`. */
function usualUses(node: Node): readonly Node[] {
  if (node.type === "MemberExpression") return [node.base];
  if (isCall(node)) return [node.base];
  if (node.type === "ReturnStatement") return node.arguments;
  return node.type === "LocalStatement" ? node.variables : [];
}
