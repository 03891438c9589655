/** The words of a filter, each with its place in the text, so that an error can point at it. Pure. */
import { filterError } from "./filter-error.js";

export type Token =
  | { readonly kind: "word"; readonly text: string; readonly lower: string; readonly at: number }
  /** `"name"`: a column, whatever it is called. */
  | { readonly kind: "quoted"; readonly text: string; readonly at: number }
  | { readonly kind: "text"; readonly value: string; readonly at: number }
  | { readonly kind: "number"; readonly value: number; readonly at: number }
  /** `?`, or `:name`. */
  | { readonly kind: "parameter"; readonly name: string | undefined; readonly at: number }
  | { readonly kind: "sign"; readonly text: string; readonly at: number }
  | { readonly kind: "end"; readonly at: number };

const SPACE = /[ \t\r\n]+/y;
const WORD = /[A-Za-z_][A-Za-z0-9_]*/y;
const NUMBER = /-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const PARAMETER = /\?|:[A-Za-z_][A-Za-z0-9_]*/y;
const SIGN = /<=|>=|!=|<>|==|~=|[=<>(),]/y;

/** @throws MoonportError `bad_filter` */
export function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  while (at < source.length) {
    const space = take(SPACE);
    if (space !== undefined) {
      at += space.length;
      continue;
    }
    const [token, length] = tokenAt(source, at, take);
    tokens.push(token);
    at += length;
  }
  tokens.push({ kind: "end", at: source.length });
  return tokens;
}

function tokenAt(source: string, at: number, take: (pattern: RegExp) => string | undefined): [Token, number] {
  const sign = source[at];
  if (sign === "'") {
    const [value, length] = quoted(source, at, "'");
    return [{ kind: "text", value, at }, length];
  }
  if (sign === '"') {
    const [text, length] = quoted(source, at, '"');
    return [{ kind: "quoted", text, at }, length];
  }
  const number = take(NUMBER);
  if (number !== undefined) return [{ kind: "number", value: numberOf(source, at, number), at }, number.length];
  const word = take(WORD);
  if (word !== undefined) return [{ kind: "word", text: word, lower: word.toLowerCase(), at }, word.length];
  const parameter = take(PARAMETER);
  if (parameter !== undefined) {
    const name = parameter === "?" ? undefined : parameter.slice(1);
    return [{ kind: "parameter", name, at }, parameter.length];
  }
  const text = take(SIGN);
  if (text !== undefined) return [{ kind: "sign", text, at }, text.length];
  const shown = String.fromCodePoint(source.codePointAt(at) ?? 0);
  throw filterError(source, at, `${JSON.stringify(shown)} has no meaning here`);
}

/** A quote inside is written twice. */
function quoted(source: string, at: number, quote: string): [string, number] {
  let text = "";
  for (let from = at + 1; ; ) {
    const end = source.indexOf(quote, from);
    if (end < 0) throw filterError(source, at, `the ${quote} that begins here is not closed`);
    text += source.slice(from, end);
    if (source[end + 1] !== quote) return [text, end + 1 - at];
    text += quote;
    from = end + 2;
  }
}

function numberOf(source: string, at: number, text: string): number {
  const follows = source[at + text.length];
  const value = Number(text);
  if (follows !== undefined && /[A-Za-z0-9_.]/.test(follows))
    throw filterError(source, at, `"${text}${follows}" is no number`);
  if (!Number.isFinite(value)) throw filterError(source, at, `${text} is too large a number`);
  return value;
}
