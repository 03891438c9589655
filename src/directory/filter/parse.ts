/**
 * Reads a filter: `top > 100 and (status = 'open' or key like 'lot-%')`.
 *
 *     filter     = term { "or" term }
 *     term       = factor { "and" factor }
 *     factor     = "not" factor | "(" filter ")" | test
 *     test       = column                                  a boolean one
 *                | column ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) ( value | column )
 *                | column [ "not" ] "in" "(" value { "," value } ")"
 *                | column [ "not" ] "like" text            a prefix, with % behind it
 *                | column "is" [ "not" ] "null"
 *     value      = text | number | "true" | "false" | parameter
 *
 * Every column is a declared one and every value fits its type, or the filter is refused with the place in its text. Depth and
 * size are bounded: what comes out can be neither too deep nor too wide for SQLite.
 */
import { nearest } from "../../nearest.js";
import type { PlainValue } from "../../values.js";
import { type Columns, type Comparison, type Filter, type FilterValue, type Operand, withKey } from "./filter.js";
import { filterError } from "./filter-error.js";
import { type Token, tokensOf } from "./tokens.js";

/** Of `?` in order, or of `:name` by name. */
export type Parameters = readonly PlainValue[] | Readonly<Record<string, PlainValue>>;

export interface FilterLimits {
  /** Of the text, UTF-8. */
  readonly bytesMax: number;
}

export const FILTER_DEPTH_MAX = 32;
/** Tests, and values of `in`, all together. */
export const FILTER_TERMS_MAX = 500;

const COMPARISONS: Readonly<Record<string, Comparison>> = {
  "=": "=",
  "!=": "!=",
  "<>": "!=",
  "<": "<",
  "<=": "<=",
  ">": ">",
  ">=": ">=",
};
const INSTEAD: Readonly<Record<string, string>> = { "==": "=", "~=": "!=" };
const KEYWORDS = new Set(["and", "or", "not", "in", "like", "is", "null", "true", "false"]);

/** @throws MoonportError `bad_filter` */
export function parseFilter(source: string, columns: Columns, parameters: Parameters, limits: FilterLimits): Filter {
  const bytes = Buffer.byteLength(source, "utf8");
  if (bytes > limits.bytesMax) {
    throw filterError(source, 0, `a filter may be ${limits.bytesMax} bytes long; this one has ${bytes}`, {
      hint: "pass values as parameters: top > ? or top > :least",
    });
  }
  if (!source.isWellFormed()) throw filterError(source, 0, "the text is not well-formed Unicode");
  return new Parser(source, withKey(columns), parameters).whole();
}

class Parser {
  readonly #source: string;
  readonly #columns: Columns;
  readonly #parameters: Parameters;
  readonly #tokens: readonly Token[];
  #next = 0;
  #depth = 0;
  #terms = 0;
  #positional = 0;

  constructor(source: string, columns: Columns, parameters: Parameters) {
    this.#source = source;
    this.#columns = columns;
    this.#parameters = parameters;
    this.#tokens = tokensOf(source);
  }

  whole(): Filter {
    const filter = this.#anyOf();
    const rest = this.#peek();
    if (rest.kind !== "end") throw this.#error(rest, "the filter should end here, or go on with and / or");
    if (Array.isArray(this.#parameters) && this.#positional < this.#parameters.length) {
      throw this.#error(rest, `${this.#parameters.length} parameters are given, and ${this.#positional} are used`);
    }
    return filter;
  }

  #anyOf(): Filter {
    return this.#joined("or", () => this.#allOf());
  }

  #allOf(): Filter {
    return this.#joined("and", () => this.#factor());
  }

  #joined(kind: "and" | "or", part: () => Filter): Filter {
    const terms = [part()];
    while (this.#takeWord(kind)) terms.push(part());
    return terms.length === 1 ? (terms[0] as Filter) : { kind, terms };
  }

  #factor(): Filter {
    const token = this.#peek();
    if (this.#takeWord("not")) return { kind: "not", term: this.#deeper(token, () => this.#factor()) };
    if (!this.#takeSign("(")) return this.#test();
    const inner = this.#deeper(token, () => this.#anyOf());
    this.#expectSign(")");
    return inner;
  }

  #deeper(token: Token, read: () => Filter): Filter {
    if (++this.#depth > FILTER_DEPTH_MAX) throw this.#error(token, `it is nested deeper than ${FILTER_DEPTH_MAX}`);
    const filter = read();
    this.#depth--;
    return filter;
  }

  #test(): Filter {
    const token = this.#peek();
    const column = this.#column();
    this.#countTerm(token);
    if (this.#takeWord("is")) return this.#isNull(column);
    const negated = this.#takeWord("not");
    if (this.#takeWord("in")) return negatedIf(negated, this.#in(column));
    if (this.#takeWord("like")) return negatedIf(negated, this.#like(column));
    if (negated) throw this.#error(this.#peek(), "after not comes in or like");
    const sign = this.#peek();
    if (sign.kind === "sign" && Object.hasOwn(INSTEAD, sign.text)) {
      throw this.#error(sign, `${sign.text} is no comparison`, `write ${INSTEAD[sign.text]}`);
    }
    const comparison = sign.kind === "sign" ? COMPARISONS[sign.text] : undefined;
    if (comparison === undefined) return this.#flag(column, token);
    this.#next++;
    return { kind: "compare", column, comparison, with: this.#operand(column, comparison) };
  }

  /** A boolean column alone. */
  #flag(column: string, token: Token): Filter {
    if (this.#columns[column] === "boolean") {
      return { kind: "compare", column, comparison: "=", with: { kind: "value", value: 1 } };
    }
    const follows = this.#peek();
    const at = follows.kind === "end" ? token : follows;
    throw this.#error(at, `a comparison should follow the column ${column}`, "= != < <= > >= in like is");
  }

  #isNull(column: string): Filter {
    const negated = this.#takeWord("not");
    const token = this.#peek();
    if (!this.#takeWord("null")) throw this.#error(token, "after is comes null or not null");
    return negatedIf(negated, { kind: "null", column });
  }

  #in(column: string): Filter {
    this.#expectSign("(");
    const values = [this.#value(column)];
    while (this.#takeSign(",")) {
      this.#countTerm(this.#peek());
      values.push(this.#value(column));
    }
    this.#expectSign(")");
    return { kind: "in", column, values };
  }

  #like(column: string): Filter {
    const token = this.#peek();
    if (this.#columns[column] !== "text")
      throw this.#error(token, `like is for text, and ${column} is ${this.#columns[column]}`);
    const pattern = this.#value(column);
    if (typeof pattern !== "string" || !pattern.endsWith("%")) {
      throw this.#error(token, "like takes what a text begins with, and % behind it", `${column} like 'lot-%'`);
    }
    return { kind: "prefix", column, prefix: pattern.slice(0, -1) };
  }

  #operand(column: string, comparison: Comparison): Operand {
    const token = this.#peek();
    if (token.kind === "quoted" || (token.kind === "word" && !KEYWORDS.has(token.lower))) {
      const other = this.#column();
      if (familyOf(this.#columns[other]) !== familyOf(this.#columns[column])) {
        throw this.#error(token, `${column} is ${this.#columns[column]}, ${other} is ${this.#columns[other]}`);
      }
      return { kind: "column", column: other };
    }
    if (this.#columns[column] === "boolean" && comparison !== "=" && comparison !== "!=") {
      throw this.#error(token, `${column} is boolean: it has no order, only = and !=`);
    }
    return { kind: "value", value: this.#value(column) };
  }

  #column(): string {
    const token = this.#peek();
    const isName = token.kind === "quoted" || (token.kind === "word" && !KEYWORDS.has(token.lower));
    if (!isName) throw this.#error(token, "a column's name should stand here");
    this.#next++;
    if (Object.hasOwn(this.#columns, token.text)) return token.text;
    const known = Object.keys(this.#columns);
    const guess = nearest(token.text, known);
    const inQuotes = token.kind === "quoted" ? "; text stands in single quotes" : "";
    throw this.#error(
      token,
      `there is no column "${token.text}"`,
      guess === undefined ? `columns are ${known.join(", ")}${inQuotes}` : `did you mean ${guess}?`,
      { column: token.text },
    );
  }

  /** A value that fits the column. */
  #value(column: string): FilterValue {
    const token = this.#peek();
    this.#next++;
    switch (token.kind) {
      case "text":
      case "number":
        return this.#fitting(token, column, token.value);
      case "parameter":
        return this.#fitting(token, column, this.#parameter(token));
      case "word":
        if (token.lower === "true" || token.lower === "false")
          return this.#fitting(token, column, token.lower === "true");
        if (token.lower === "null") throw this.#error(token, "nothing equals null", `write ${column} is null`);
    }
    throw this.#error(token, `a value for ${column} should stand here: 'text', a number, true, false, ? or :name`);
  }

  #fitting(token: Token, column: string, value: PlainValue): FilterValue {
    const type = this.#columns[column];
    const family = familyOf(type);
    if (family === "boolean" && typeof value === "boolean") return value ? 1 : 0;
    if (family === "number" && typeof value === "number" && Number.isFinite(value)) return value;
    if (family === "text" && typeof value === "string" && value.isWellFormed()) return value;
    const given = value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
    throw this.#error(token, `${column} is ${type}, and this is ${given}`);
  }

  #parameter(token: Extract<Token, { kind: "parameter" }>): PlainValue {
    const given = this.#parameters;
    if (token.name === undefined) {
      if (!Array.isArray(given))
        throw this.#error(token, "? takes parameters in a list; these have names", "write :name");
      const value = given[this.#positional++] as PlainValue | undefined;
      if (value === undefined) throw this.#error(token, `only ${given.length} parameters are given`);
      return value;
    }
    if (Array.isArray(given) || !Object.hasOwn(given, token.name)) {
      throw this.#error(token, `no parameter is called ${token.name}`);
    }
    return (given as Readonly<Record<string, PlainValue>>)[token.name] as PlainValue;
  }

  #countTerm(token: Token): void {
    if (++this.#terms > FILTER_TERMS_MAX) throw this.#error(token, `it has more than ${FILTER_TERMS_MAX} tests`);
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }

  #takeWord(word: string): boolean {
    const token = this.#peek();
    const isIt = token.kind === "word" && token.lower === word;
    if (isIt) this.#next++;
    return isIt;
  }

  #takeSign(sign: string): boolean {
    const token = this.#peek();
    const isIt = token.kind === "sign" && token.text === sign;
    if (isIt) this.#next++;
    return isIt;
  }

  #expectSign(sign: string): void {
    const token = this.#peek();
    if (!this.#takeSign(sign)) throw this.#error(token, `${sign} should stand here`);
  }

  #error(token: Token, what: string, hint?: string, details?: Readonly<Record<string, unknown>>): Error {
    return filterError(this.#source, token.at, what, { ...(hint && { hint }), ...(details && { details }) });
  }
}

function negatedIf(negated: boolean, term: Filter): Filter {
  return negated ? { kind: "not", term } : term;
}

function familyOf(type: string | undefined): "text" | "number" | "boolean" {
  return type === "text" || type === "boolean" ? type : "number";
}
