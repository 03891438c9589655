/**
 * SQL text cut into tokens exactly as SQLite cuts it, so that a word in a comment or a string is never taken for a keyword
 * and a keyword is never hidden in what only looks like one. Pure; knows no grammar beyond the tokens.
 */
import { MoonportError } from "../errors.js";

export type SqlToken =
  /** A bare word: keyword or identifier. */
  | {
      readonly kind: "word";
      readonly text: string;
      readonly lower: string;
      readonly start: number;
      readonly end: number;
    }
  /** `"x"`, `` `x` `` or `[x]`: an identifier, never a keyword. `text` is what stands inside. */
  | {
      readonly kind: "quoted" | "string";
      readonly text: string;
      readonly lower: string;
      readonly start: number;
      readonly end: number;
    }
  | {
      readonly kind: "parameter" | "number" | "blob" | "sign";
      readonly text: string;
      readonly start: number;
      readonly end: number;
    };

const SPACE = /[ \t\n\f\r\ufeff]+/y;
const LINE_COMMENT = /--[^\n]*/y;
const WORD = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/y;
const BLOB = /[xX]'(?:[0-9a-fA-F]{2})*'/y;
const NUMBER = /(?:0[xX][0-9a-fA-F_]+|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?)/y;
const PARAMETER = /\?[0-9]*|[@:$][A-Za-z0-9_$\u0080-\uffff]+/y;
const SIGNS = new Set("(),;.+-*/%<>=!&|~");
const WORD_PART = /[A-Za-z0-9_$\u0080-\uffff]/;
const CLOSING: Readonly<Record<string, string>> = { "'": "'", '"': '"', "`": "`", "[": "]" };

/** @throws MoonportError `sql_refused` where SQLite would see an unrecognised token */
export function tokenize(sql: string): SqlToken[] {
  const tokens: SqlToken[] = [];
  let at = 0;
  const match = (pattern: RegExp): number => {
    pattern.lastIndex = at;
    return pattern.test(sql) ? pattern.lastIndex : -1;
  };
  while (at < sql.length) {
    const skipped = Math.max(match(SPACE), match(LINE_COMMENT), endOfBlockComment(sql, at));
    if (skipped > at) {
      at = skipped;
      continue;
    }
    const token = tokenAt(sql, at, match);
    tokens.push(token);
    at = token.end;
  }
  return tokens;
}

/** An unclosed one runs to the end of the text, as it does for SQLite. */
function endOfBlockComment(sql: string, start: number): number {
  if (!sql.startsWith("/*", start)) return -1;
  const close = sql.indexOf("*/", start + 2);
  return close < 0 ? sql.length : close + 2;
}

function tokenAt(sql: string, start: number, match: (pattern: RegExp) => number): SqlToken {
  const first = sql.charAt(start);
  if (CLOSING[first] !== undefined) return quotedAt(sql, start, first);
  if ((first === "x" || first === "X") && sql[start + 1] === "'") {
    const end = match(BLOB);
    if (end < 0) throw unrecognised(sql, start);
    return { kind: "blob", text: sql.slice(start, end), start, end };
  }
  const wordEnd = match(WORD);
  if (wordEnd > start) {
    const text = sql.slice(start, wordEnd);
    return { kind: "word", text, lower: text.toLowerCase(), start, end: wordEnd };
  }
  const numberEnd = match(NUMBER);
  if (numberEnd > start) {
    if (WORD_PART.test(sql.charAt(numberEnd))) throw unrecognised(sql, start);
    return { kind: "number", text: sql.slice(start, numberEnd), start, end: numberEnd };
  }
  const parameterEnd = match(PARAMETER);
  if (parameterEnd > start) {
    return { kind: "parameter", text: sql.slice(start, parameterEnd), start, end: parameterEnd };
  }
  if (!SIGNS.has(first)) throw unrecognised(sql, start);
  return { kind: "sign", text: first, start, end: start + 1 };
}

function quotedAt(sql: string, start: number, open: string): SqlToken {
  const close = CLOSING[open] as string;
  let end = start + 1;
  for (;;) {
    end = sql.indexOf(close, end);
    if (end < 0) throw MoonportError.of("sql_refused", `a ${open} at character ${start + 1} is never closed`);
    if (open === "[" || sql[end + 1] !== close) break;
    end += 2;
  }
  const inside = sql.slice(start + 1, end);
  const text = open === "[" ? inside : inside.replaceAll(close + close, close);
  return { kind: open === "'" ? "string" : "quoted", text, lower: text.toLowerCase(), start, end: end + 1 };
}

function unrecognised(sql: string, at: number): MoonportError {
  const shown = JSON.stringify(sql.slice(at, at + 12));
  return MoonportError.of("sql_refused", `unrecognised text ${shown} at character ${at + 1} of the statement`);
}
