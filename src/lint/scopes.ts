/** Which variable each name of a file means: a local one, a parameter, the `self` of a method, or a global. */
import {
  type Chunk,
  childrenOf,
  type Expression,
  type FunctionDeclaration,
  type Identifier,
  type Node,
} from "./syntax.js";

export interface Variable {
  readonly name: string;
  /** The function whose `self` it is. */
  readonly selfOf?: FunctionDeclaration;
  /** What it was declared with. */
  readonly value?: Expression;
  /** Whether it is assigned to after its declaration. */
  isReassigned: boolean;
}

export interface GlobalUse {
  readonly node: Identifier;
  readonly isWritten: boolean;
}

export interface Scopes {
  readonly globals: readonly GlobalUse[];
  /** `undefined` for a global. */
  variableOf(identifier: Identifier): Variable | undefined;
}

export function resolveNames(chunk: Chunk): Scopes {
  const resolver = new Resolver();
  resolver.block(chunk.body);
  return { globals: resolver.globals, variableOf: (identifier) => resolver.meant.get(identifier) };
}

class Resolver {
  readonly meant = new Map<Identifier, Variable>();
  readonly globals: GlobalUse[] = [];
  #scope = new Map<string, Variable>();

  block(body: readonly Node[]): void {
    this.#within(() => {
      for (const statement of body) this.#visit(statement);
    });
  }

  #within(work: () => void): void {
    const outer = this.#scope;
    this.#scope = new Map(outer);
    work();
    this.#scope = outer;
  }

  #declare(name: string, more: Partial<Variable> = {}): Variable {
    const variable = { name, isReassigned: false, ...more };
    this.#scope.set(name, variable);
    return variable;
  }

  #declareAll(identifiers: readonly Identifier[], values: readonly Expression[] = []): void {
    for (const [index, identifier] of identifiers.entries()) {
      const value = values[index];
      this.meant.set(identifier, this.#declare(identifier.name, value && { value }));
    }
  }

  #use(identifier: Identifier, isWritten: boolean): void {
    const variable = this.#scope.get(identifier.name);
    if (variable === undefined) {
      this.globals.push({ node: identifier, isWritten });
      return;
    }
    if (isWritten) variable.isReassigned = true;
    this.meant.set(identifier, variable);
  }

  #visit(node: Node): void {
    switch (node.type) {
      case "Identifier":
        return this.#use(node, false);
      case "LocalStatement":
        this.#visitAll(node.init);
        return this.#declareAll(node.variables, node.init);
      case "AssignmentStatement":
        this.#visitAll(node.init);
        for (const target of node.variables) {
          if (target.type === "Identifier") this.#use(target, true);
          else this.#visit(target);
        }
        return;
      case "FunctionDeclaration":
        return this.#function(node);
      case "MemberExpression":
        return this.#visit(node.base);
      case "TableKeyString":
        return this.#visit(node.value);
      case "ForNumericStatement":
        this.#visitAll([node.start, node.end, ...(node.step ? [node.step] : [])]);
        return this.#within(() => {
          this.#declareAll([node.variable]);
          this.block(node.body);
        });
      case "ForGenericStatement":
        this.#visitAll(node.iterators);
        return this.#within(() => {
          this.#declareAll(node.variables);
          this.block(node.body);
        });
      case "RepeatStatement":
        // Its condition sees the locals of its body.
        return this.#within(() => this.#visitAll([...node.body, node.condition]));
      case "WhileStatement":
        this.#visit(node.condition);
        return this.block(node.body);
      case "IfClause":
      case "ElseifClause":
        this.#visit(node.condition);
        return this.block(node.body);
      case "ElseClause":
      case "DoStatement":
        return this.block(node.body);
      case "GotoStatement":
      case "LabelStatement":
        return;
      default:
        this.#visitAll([...childrenOf(node)]);
    }
  }

  #visitAll(nodes: readonly Node[]): void {
    for (const node of nodes) this.#visit(node);
  }

  #function(node: FunctionDeclaration): void {
    const { identifier } = node;
    if (identifier?.type === "MemberExpression") this.#visit(identifier.base);
    else if (identifier && node.isLocal) this.#declareAll([identifier], [node]);
    else if (identifier) this.#use(identifier, true);
    this.#within(() => {
      if (identifier?.type === "MemberExpression" && identifier.indexer === ":")
        this.#declare("self", { selfOf: node });
      this.#declareAll(node.parameters.filter((one) => one.type === "Identifier"));
      this.block(node.body);
    });
  }
}
