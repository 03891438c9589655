import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Columns, type Filter, withKey } from "../../src/directory/filter/filter.js";
import { FILTER_DEPTH_MAX, FILTER_TERMS_MAX, parseFilter } from "../../src/directory/filter/parse.js";
import { conditionOf } from "../../src/directory/filter/to-sql.js";
import { MoonportError } from "../../src/errors.js";
import type { PlainValue, SqlValue } from "../../src/values.js";

const COLUMNS: Columns = { top: "integer", price: "real", status: "text", open: "boolean", order: "text" };

function parse(text: string, params: readonly PlainValue[] | Record<string, PlainValue> = []): Filter {
  return parseFilter(text, COLUMNS, params, { bytesMax: 8192 });
}

function refusal(text: string, params: readonly PlainValue[] | Record<string, PlainValue> = []): MoonportError {
  try {
    parse(text, params);
  } catch (error) {
    if (error instanceof MoonportError) return error;
    throw error;
  }
  throw new Error(`"${text}" was understood`);
}

type Row = Readonly<Record<string, SqlValue>>;
const ROWS: readonly Row[] = [
  { key: "a", top: 5, price: 1.5, status: "open", open: 1, order: "x" },
  { key: "b", top: 100, price: null, status: "closed", open: 0, order: null },
  { key: "lot_1", top: null, price: -2, status: "it's", open: null, order: "%" },
  { key: "lot-2", top: -5, price: 1e9, status: "Open", open: 1, order: "\u{10ffff}z" },
  { key: "\u{1f600}", top: 0, price: 0, status: "", open: 0, order: "a\ud7ff!" },
];

const database = new Database(":memory:");
database.exec("CREATE TABLE entry (key, top, price, status, open, 'order')");
const insert = database.prepare("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)");
for (const { key, top, price, status, open, order } of ROWS) insert.run(key, top, price, status, open, order);

function selected(filter: Filter): string[] {
  const { sql, values } = conditionOf(filter, (column) => `"${column}"`);
  const rows = database.prepare(`SELECT key FROM entry WHERE ${sql}`).all(...values) as { key: string }[];
  return rows.map(({ key }) => key);
}

const keys = (text: string, params?: readonly PlainValue[] | Record<string, PlainValue>): string[] =>
  selected(parse(text, params));

describe("a filter", () => {
  it("selects by comparisons, lists, prefixes and null, and binds or, and, not as SQL does", () => {
    expect(keys("top > 0")).toEqual(["a", "b"]);
    expect(keys("TOP > 0".toLowerCase())).toEqual(["a", "b"]);
    expect(keys("status = 'it''s'")).toEqual(["lot_1"]);
    expect(keys("top in (5, -5) AND open")).toEqual(["a", "lot-2"]);
    expect(keys("key like 'lot%'")).toEqual(["lot_1", "lot-2"]);
    expect(keys("key like 'lot_%'")).toEqual(["lot_1"]);
    expect(keys("key not like 'lot%' and not top = 5")).toEqual(["b", "\u{1f600}"]);
    expect(keys("top is null or price is null")).toEqual(["b", "lot_1"]);
    expect(keys("top is not null and price >= 1.5e0")).toEqual(["a", "lot-2"]);
    expect(keys("top = 5 or top = 100 and open = true")).toEqual(["a"]);
    expect(keys("(top = 5 or top = 100) and open = false")).toEqual(["b"]);
    expect(keys("top <> 5 and price != top")).toEqual(["lot-2"]);
    expect(keys(`"order" like ?`, ["\u{10ffff}%"])).toEqual(["lot-2"]);
    expect(keys(`"order" like 'a\ud7ff%'`)).toEqual(["\u{1f600}"]);
    expect(keys("top >= :least and status = :status", { least: 5, status: "open" })).toEqual(["a"]);
  });

  it.each([
    ["tpo > 100", 1, "tpo", "did you mean top?"],
    ["top > 100 and stauts = 'open'", 15, "stauts", "did you mean status?"],
    ["top > 'high'", 7, "top is integer", undefined],
    ["top >", 6, "value for top", undefined],
    ["top = null", 7, "null", "write top is null"],
    ["top == 5", 5, "==", "write ="],
    ["status like 'a'", 13, "like", "status like 'lot-%'"],
    ["top like '5%'", 10, "like is for text", undefined],
    ["open > true", 8, "no order", undefined],
    ["top > 5 status = 'a'", 9, "end here", undefined],
    ["(top > 5", 9, ") should", undefined],
    ["top > 5;drop table entry", 8, '";"', undefined],
    ["status = 'open", 10, "not closed", undefined],
    ["top > ?", 7, "parameters", undefined],
    ["top > :least", 7, "no parameter is called least", undefined],
    ["top between 1 and 2", 5, "comparison", undefined],
    ["select 1", 1, "no column", undefined],
    ["top > 1e999", 7, "too large", undefined],
    ["top > 5x", 7, "no number", undefined],
  ])("%s is refused at %i", (text, position, message, hint) => {
    const error = refusal(text);
    expect(error.code).toBe("bad_filter");
    expect(error.details?.position).toBe(position);
    expect(error.message).toContain(message);
    if (hint !== undefined) expect(error.hint).toBe(hint);
  });

  it("is refused when parameters are left over, of the wrong kind, or name what every object has", () => {
    expect(refusal("top > ?", [1, 2]).message).toContain("2 parameters are given, and 1 are used");
    expect(refusal("top > ?", ["1"]).message).toContain("top is integer");
    expect(refusal("top > ?", [null]).message).toContain("this is null");
    expect(refusal("top > :constructor", {}).message).toContain("no parameter");
    expect(refusal("constructor = 1").message).toContain('no column "constructor"');
  });

  it("is bounded in depth, tests and length, and what is just within the bounds runs", () => {
    const nested = (depth: number): string => `${"(".repeat(depth)}top = 5${")".repeat(depth)}`;
    expect(keys(nested(FILTER_DEPTH_MAX))).toEqual(["a"]);
    expect(refusal(nested(FILTER_DEPTH_MAX + 1)).message).toContain("nested deeper");
    expect(refusal("not ".repeat(1_000).concat("open")).message).toContain("nested deeper");
    const many = (count: number): string => Array.from({ length: count }, () => "top=5").join(" or ");
    expect(keys(many(FILTER_TERMS_MAX))).toEqual(["a"]);
    expect(refusal(many(FILTER_TERMS_MAX + 1)).message).toContain("more than");
    expect(refusal(`top in (${"1,".repeat(FILTER_TERMS_MAX)}1)`).message).toContain("more than");
    expect(refusal(`status = '${"x".repeat(9_000)}'`).hint).toContain("parameters");
  });

  it("of any tree selects what the tree says", () => {
    fc.assert(
      fc.property(tree, (filter) => {
        const expected = ROWS.filter((row) => truth(filter, row) === true).map(({ key }) => key);
        expect(selected(parse(written(filter)))).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  it("of any text is understood or refused with a place in the text, and never anything else", () => {
    const word = fc.constantFrom(
      ...["top", "status", "and", "or", "not", "in", "like", "is", "null", "(", ")", ",", "=", "<", ">="],
    );
    const piece = fc.oneof(
      word,
      fc.string(),
      fc.constantFrom("'a'", "'", '"', "--", "/*", ";", "5", "?", ":a", "\0", "\ud800"),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        const text = pieces.join(" ");
        let filter: Filter;
        try {
          filter = parse(text);
        } catch (error) {
          const { code, details } = error as MoonportError;
          expect(code).toBe("bad_filter");
          expect(details?.position).toBeGreaterThanOrEqual(1);
          expect(details?.position).toBeLessThanOrEqual(text.length + 1);
          return;
        }
        selected(filter);
      }),
      { numRuns: 2_000 },
    );
  });
});

const literal: Readonly<Record<string, fc.Arbitrary<SqlValue>>> = {
  text: fc.oneof(
    fc.constantFrom("open", "it's", "", "lot", "\u{10ffff}", "a\ud7ff"),
    fc.string().map((s) => s.toWellFormed()),
  ),
  integer: fc.oneof(fc.constantFrom(5, 100, -5, 0), fc.integer()),
  real: fc.oneof(fc.constantFrom(1.5, -2, 1e9), fc.double({ noNaN: true, noDefaultInfinity: true })),
  boolean: fc.constantFrom(0, 1),
};
const column = fc.constantFrom(...Object.keys(withKey(COLUMNS)));
const typeOf = (name: string): string => withKey(COLUMNS)[name] as string;

const leaf: fc.Arbitrary<Filter> = column.chain((name) => {
  const value = literal[typeOf(name)] as fc.Arbitrary<string | number>;
  const comparisons =
    typeOf(name) === "boolean" ? (["=", "!="] as const) : (["=", "!=", "<", "<=", ">", ">="] as const);
  const compare = fc.tuple(fc.constantFrom(...comparisons), value).map(
    ([comparison, one]): Filter => ({
      kind: "compare",
      column: name,
      comparison,
      with: { kind: "value", value: one },
    }),
  );
  const others: fc.Arbitrary<Filter>[] = [
    fc.constant<Filter>({ kind: "null", column: name }),
    fc.array(value, { minLength: 1, maxLength: 3 }).map((values): Filter => ({ kind: "in", column: name, values })),
  ];
  if (typeOf(name) === "text")
    others.push(value.map((one): Filter => ({ kind: "prefix", column: name, prefix: String(one) })));
  return fc.oneof(compare, ...others);
});

const tree: fc.Arbitrary<Filter> = fc.letrec<{ tree: Filter }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.record({
      kind: fc.constantFrom("and" as const, "or" as const),
      terms: fc.array(tie("tree"), { minLength: 2, maxLength: 3 }),
    }),
    fc.record({ kind: fc.constant("not" as const), term: tie("tree") }),
  ),
})).tree;

function written(filter: Filter): string {
  const name = (one: string): string => `"${one}"`;
  switch (filter.kind) {
    case "and":
    case "or":
      return `(${filter.terms.map(written).join(` ${filter.kind} `)})`;
    case "not":
      return `not ${written(filter.term)}`;
    case "null":
      return `${name(filter.column)} is null`;
    case "prefix":
      return `${name(filter.column)} like ${writtenValue(`${filter.prefix}%`, "text")}`;
    case "in":
      return `${name(filter.column)} in (${filter.values.map((one) => writtenValue(one, typeOf(filter.column))).join(",")})`;
    case "compare": {
      const other =
        filter.with.kind === "value" ? writtenValue(filter.with.value, typeOf(filter.column)) : filter.with.column;
      return `${name(filter.column)} ${filter.comparison} ${other}`;
    }
  }
}

function writtenValue(value: SqlValue, type: string): string {
  if (type === "boolean") return value === 1 ? "true" : "false";
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);
}

/** With null for what SQL does not know. */
function truth(filter: Filter, row: Row): boolean | null {
  switch (filter.kind) {
    case "and": {
      const terms = filter.terms.map((term) => truth(term, row));
      return terms.includes(false) ? false : terms.includes(null) ? null : true;
    }
    case "or": {
      const terms = filter.terms.map((term) => truth(term, row));
      return terms.includes(true) ? true : terms.includes(null) ? null : false;
    }
    case "not": {
      const term = truth(filter.term, row);
      return term === null ? null : !term;
    }
    case "null":
      return row[filter.column] === null;
  }
  const cell = row[filter.column] ?? null;
  if (cell === null) return null;
  if (filter.kind === "prefix") return String(cell).startsWith(filter.prefix);
  if (filter.kind === "in") return filter.values.some((value) => compared(cell, value) === 0);
  const difference = compared(cell, filter.with.kind === "value" ? filter.with.value : null);
  const holds = {
    "=": difference === 0,
    "!=": difference !== 0,
    "<": difference < 0,
    "<=": difference <= 0,
    ">": difference > 0,
    ">=": difference >= 0,
  };
  return holds[filter.comparison];
}

function compared(one: SqlValue, other: SqlValue): number {
  if (typeof one === "number") return one - (other as number);
  return Buffer.compare(Buffer.from(String(one)), Buffer.from(String(other)));
}
