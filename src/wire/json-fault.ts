/**
 * Where a text stops being JSON.
 *
 * JSON.parse is the judge and is fast, but on this Node it names a position only for some faults. This scanner runs after it
 * has refused a text, and answers with the index of the first character that no valid JSON text could have there; the text's
 * length means that it ends too early. It keeps its own stack, so depth cannot overflow it.
 */

type Expecting = "value" | "value_or_end" | "name" | "name_or_end" | "colon" | "comma_or_end" | "nothing";

const SPACE = /[ \t\n\r]*/y;
const ESCAPED = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const SCALAR = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;

/** The index of the fault, or -1 when the text is JSON after all. */
export function jsonFaultAt(text: string): number {
  const open: ("{" | "[")[] = [];
  let expecting: Expecting = "value";
  let at = 0;
  for (;;) {
    at = endOf(SPACE, text, at);
    const sign = text[at];
    if (expecting === "nothing") return at === text.length ? -1 : at;
    if (sign === undefined) return text.length;
    const closes = open.at(-1) === "{" ? "}" : "]";
    const mayClose = expecting === "value_or_end" || expecting === "name_or_end" || expecting === "comma_or_end";
    if (mayClose && sign === closes && open.length > 0) {
      open.pop();
      expecting = open.length === 0 ? "nothing" : "comma_or_end";
      at += 1;
      continue;
    }
    switch (expecting) {
      case "colon":
        if (sign !== ":") return at;
        expecting = "value";
        at += 1;
        continue;
      case "comma_or_end":
        if (sign !== ",") return at;
        expecting = open.at(-1) === "{" ? "name" : "value";
        at += 1;
        continue;
      case "name":
      case "name_or_end": {
        const end = stringEnd(text, at);
        if (!end.whole) return end.at;
        expecting = "colon";
        at = end.at;
        continue;
      }
      case "value":
      case "value_or_end": {
        if (sign === "{" || sign === "[") {
          open.push(sign);
          expecting = sign === "{" ? "name_or_end" : "value_or_end";
          at += 1;
          continue;
        }
        const end = sign === '"' ? stringEnd(text, at) : scalarEnd(text, at);
        if (!end.whole) return end.at;
        expecting = open.length === 0 ? "nothing" : "comma_or_end";
        at = end.at;
      }
    }
  }
}

/** `line 2, column 7`, both from 1, as editors count. */
export function lineAndColumn(text: string, at: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, at);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: at - lineStart + 1 };
}

interface End {
  readonly whole: boolean;
  /** Behind the token when it is whole, else at its fault. */
  readonly at: number;
}

function stringEnd(text: string, start: number): End {
  if (text[start] !== '"') return { whole: false, at: start };
  let at = start + 1;
  for (;;) {
    const code = text.charCodeAt(at);
    if (Number.isNaN(code)) return { whole: false, at: text.length };
    if (code === 0x22) return { whole: true, at: at + 1 };
    if (code < 0x20) return { whole: false, at };
    if (code !== 0x5c) {
      at += 1;
      continue;
    }
    const end = endOf(ESCAPED, text, at);
    if (end === at) return { whole: false, at: Math.min(at + 1, text.length) };
    at = end;
  }
}

function scalarEnd(text: string, start: number): End {
  const end = endOf(SCALAR, text, start);
  return { whole: end > start, at: end };
}

function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
