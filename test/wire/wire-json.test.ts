import { deepStrictEqual } from "node:assert";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { PlainValue } from "../../src/values.js";
import { jsonFaultAt, lineAndColumn } from "../../src/wire/json-fault.js";
import { parseWireJson, toWire, wireJson } from "../../src/wire/wire-json.js";

const name = fc.oneof(fc.constantFrom("$bytes", "$$bytes", "__proto__", "constructor", "a"), fc.string());
const { value: plainValues } = fc.letrec<{ value: PlainValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
    fc.string({ unit: "grapheme" }),
    fc.uint8Array({ maxLength: 20 }).map((bytes) => new Uint8Array(bytes)),
    fc.array(tie("value"), { maxLength: 4 }),
    fc
      .array(fc.tuple(name, tie("value")), { maxLength: 3 })
      .map((entries) => Object.fromEntries(entries) as PlainValue),
  ),
}));

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof MoonportError) return error.code;
    throw error;
  }
  return "no error";
}

describe("plain values as JSON", () => {
  it("come back as what they were, bytes and tables named like bytes included", () => {
    fc.assert(
      fc.property(plainValues, (value) => {
        deepStrictEqual(parseWireJson(wireJson(value), "it", 20), value);
      }),
    );
  });

  it("are passed on untouched when they hold no bytes", () => {
    const value = { deep: [{ a: 1 }, "text"] };
    expect(toWire(value)).toBe(value);
  });

  it("carry __proto__ as a key like any other", () => {
    const value = parseWireJson('{"__proto__":{"polluted":true}}', "it", 5) as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(wireJson(value as PlainValue)).toBe('{"__proto__":{"polluted":true}}');
  });

  it("may be nested as deep as the limit and no deeper", () => {
    expect(parseWireJson("[[[1]]]", "it", 3)).toEqual([[[1]]]);
    expect(codeOf(() => parseWireJson("[[[1]]]", "it", 2))).toBe("too_deep");
    expect(codeOf(() => parseWireJson('[{"a":[]}]', "it", 2))).toBe("too_deep");
  });

  it("cannot overflow the stack", () => {
    const deep = 500_000;
    expect(codeOf(() => parseWireJson("[".repeat(deep) + "]".repeat(deep), "it", 64))).toBe("too_deep");
    expect(codeOf(() => parseWireJson("[".repeat(deep), "it", 64))).toBe("bad_json");
  });

  it("are refused when a number is none or bytes are no base64", () => {
    expect(codeOf(() => parseWireJson("[1e999]", "it", 5))).toBe("bad_value");
    expect(codeOf(() => parseWireJson('{"$bytes":"?"}', "it", 5))).toBe("bad_value");
    expect(codeOf(() => parseWireJson('{"$bytes":1}', "it", 5))).toBe("bad_value");
  });
});

describe("the position of a JSON fault", () => {
  it.each([
    ["", 0],
    ["  ", 2],
    ["{", 1],
    ['{"a":1,}', 7],
    ["[1,]", 3],
    ["[1 2]", 3],
    ['{"a" 1}', 5],
    ["{a:1}", 1],
    ["[1]]", 3],
    ["]", 0],
    ["}", 0],
    ["[}", 1],
    ['"a\nb"', 2],
    ['"\\x"', 2],
    ['"\\u12g4"', 2],
    ['"abc', 4],
    ["01", 1],
    ["-", 0],
    ["1.", 1],
    ["tru", 0],
    ["[1,\n 2,\n oops]", 9],
  ])("of %j is %i", (text, position) => {
    expect(jsonFaultAt(text)).toBe(position);
    expect(codeOf(() => parseWireJson(text, "it", 5))).toBe("bad_json");
  });

  it("exists exactly when JSON.parse refuses the text", () => {
    const pieces = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"a"',
      '"',
      "1",
      "-0.5e3",
      "true",
      "null",
      " ",
      "\\",
      "x",
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = parts.join("");
        let parses = true;
        try {
          JSON.parse(text);
        } catch {
          parses = false;
        }
        expect(jsonFaultAt(text) === -1, text).toBe(parses);
      }),
      { numRuns: 3_000 },
    );
  });

  it("is told as line and column, as an editor counts", () => {
    expect(lineAndColumn("[1,\n 2,\n oops]", 9)).toEqual({ line: 3, column: 2 });
    expect(() => parseWireJson("[1,\n 2,\n oops]", "the body", 5)).toThrow(
      'the body is not JSON: unexpected "o" at line 3, column 2',
    );
    expect(() => parseWireJson("[1", "the body", 5)).toThrow("it ends too early at line 1, column 3");
  });
});
