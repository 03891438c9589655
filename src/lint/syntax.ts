/**
 * A Lua file as a syntax tree, by luaparse, and what every check asks of one.
 *
 * The parser is given bytes as Latin-1 text, as Lua sees them; positions and texts are turned back here.
 */
import { type Node as AnyNode, type Comment, type Expression, parse, type StringLiteral } from "luaparse";

export type {
  CallExpression,
  Chunk,
  Expression,
  FunctionDeclaration,
  Identifier,
  MemberExpression,
  StringCallExpression,
  TableCallExpression,
} from "luaparse";

import type { CallExpression, Chunk, StringCallExpression, TableCallExpression } from "luaparse";

export type Node = Exclude<AnyNode, Comment>;
export type AnyCall = CallExpression | StringCallExpression | TableCallExpression;

export interface Place {
  /** From 1. */
  readonly line: number;
  /** From 1, in characters. */
  readonly column: number;
}

export type Parsed =
  | { readonly kind: "parsed"; readonly chunk: Chunk; readonly placeOf: (node: Node) => Place }
  | { readonly kind: "failed"; readonly place: Place; readonly message: string };

export function parseLua(text: string): Parsed {
  const lines = text.split("\n");
  const placeAt = (line: number, byte: number): Place => {
    const before = Buffer.from(lines[line - 1] ?? "", "utf8").subarray(0, byte);
    return { line, column: before.toString("utf8").length + 1 };
  };
  try {
    const chunk = parse(Buffer.from(text, "utf8").toString("latin1"), {
      luaVersion: "5.3",
      encodingMode: "pseudo-latin1",
      locations: true,
      comments: false,
    });
    const placeOf = ({ loc }: Node): Place => (loc ? placeAt(loc.start.line, loc.start.column) : placeAt(1, 0));
    return { kind: "parsed", chunk, placeOf };
  } catch (error) {
    const { line = 1, column = 0, message } = error as Error & { line?: number; column?: number };
    return { kind: "failed", place: placeAt(line, column), message: message.replace(/^\[\d+:\d+\] /, "") };
  }
}

/** The nodes right below one, in the order of the text. */
export function* childrenOf(node: Node): Generator<Node> {
  for (const value of Object.values(node) as unknown[]) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) if (isNode(one)) yield one;
  }
}

function isNode(value: unknown): value is Node {
  return value !== null && typeof value === "object" && typeof (value as { type?: unknown }).type === "string";
}

/** The node and all below it. */
export function* nodesOf(node: Node): Generator<Node> {
  yield node;
  for (const child of childrenOf(node)) yield* nodesOf(child);
}

export function isCall(node: Node | undefined): node is AnyCall {
  return (
    node?.type === "CallExpression" || node?.type === "StringCallExpression" || node?.type === "TableCallExpression"
  );
}

export function argumentsOf(call: AnyCall): readonly Expression[] {
  switch (call.type) {
    case "CallExpression":
      return call.arguments;
    case "StringCallExpression":
      return [call.argument];
    case "TableCallExpression":
      return [call.arguments];
  }
}

/** A literal's text; `undefined` for what is no literal, or no UTF-8. */
export function textOf(node: Node | undefined): string | undefined {
  if (node?.type !== "StringLiteral") return undefined;
  const bytes = Buffer.from((node as StringLiteral).value, "latin1");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
