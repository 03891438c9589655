import { describe, expect, it } from "vitest";
import { EXIT_CODES, EXIT_DAMAGED } from "../../cli/exit-codes.js";
import { tableOf } from "../../cli/table.js";
import { argumentOf, objectOf, pointOf, sqlParameterOf } from "../../cli/words.js";
import { CLASS_ERROR, ERROR_CODES } from "../../src/errors.js";

describe("words of a command line", () => {
  it.each([
    ["25", 25],
    ["-5", -5],
    ["1.5e3", 1500],
    ["true", true],
    ["null", null],
    ['"25"', "25"],
    ['{"a":[1]}', { a: [1] }],
    ['{"$bytes":"AQ=="}', new Uint8Array([1])],
    ["ada", "ada"],
    ["", ""],
    ["{bad", "{bad"],
    ["[hello] everyone", "[hello] everyone"],
    ["007", "007"],
  ])("%s is JSON where it parses as JSON, else a string", (word, value) => {
    expect(argumentOf(word)).toEqual(value);
  });

  it("name a state of the past by its seq or by a time", () => {
    const nowMs = new Date("2026-03-02T12:00:00").getTime();
    expect(pointOf("42", nowMs)).toEqual({ seq: 42 });
    expect(pointOf("2026-01-31T14:03:20Z", nowMs)).toEqual({ atMs: Date.UTC(2026, 0, 31, 14, 3, 20) });
    expect(pointOf("2026-01-31 14:03:20", nowMs)).toEqual({ atMs: new Date(2026, 0, 31, 14, 3, 20).getTime() });
    expect(pointOf("11:59", nowMs)).toEqual({ atMs: nowMs - 60_000 });
    expect(pointOf("12:00:01", nowMs)).toEqual({ atMs: nowMs + 1_000 - 86_400_000 });
    for (const word of [
      "",
      "-5",
      "1.5",
      "soon",
      "25:00",
      "12:60",
      "2026",
      "2026-13-40",
      "2026-02-30 14:03",
      "March 7",
    ]) {
      if (word !== "2026") expect(() => pointOf(word, nowMs)).toThrow(/neither a seq nor a time/);
    }
  });

  it("are refused where a number would silently become another", () => {
    expect(() => argumentOf("12345678901234567890")).toThrow(/beyond 2\^53/);
    expect(() => argumentOf("1e999")).toThrow(/beyond what a double can be/);
    expect(() => argumentOf('[{"id":12345678901234567890}]')).toThrow(/^12345678901234567890 is .* beyond 2\^53/);
    expect(argumentOf("9007199254740991")).toBe(9007199254740991);
    const exact = '{"12345678901234567890":"\\"12345678901234567890","size":1.2345678901234567890e19}';
    expect(argumentOf(exact)).toEqual(JSON.parse(exact));
    expect(argumentOf("[12345678901234567890")).toBe("[12345678901234567890");
    expect(() => sqlParameterOf("12345678901234567890")).toThrow(/beyond 2\^53/);
    expect(sqlParameterOf("[12345678901234567890]")).toBe("[12345678901234567890]");
  });

  it("name an object up to the first slash", () => {
    expect(objectOf("default", "Chat/rooms/lobby")).toMatchObject({ className: "Chat", key: "rooms/lobby" });
    expect(() => objectOf("default", "Chat")).toThrow(/names no object/);
    expect(() => objectOf("default", "/lobby")).toThrow(/is no class name/);
    expect(() => objectOf("default", "Chat/")).toThrow(/a key is 1 to 256 bytes/);
  });

  it("become what SQLite has types for", () => {
    expect(["1", "x", "null", "true", '{"a":1}'].map(sqlParameterOf)).toEqual([1, "x", null, 1, '{"a":1}']);
  });
});

describe("exit codes", () => {
  it("are all explained, and all explained ones exist", () => {
    const given = new Set([0, EXIT_DAMAGED, CLASS_ERROR.exit, ...Object.values(ERROR_CODES).map(({ exit }) => exit)]);
    expect([...given].sort()).toEqual(Object.keys(EXIT_CODES).map(Number).sort());
  });
});

describe("a table", () => {
  it("aligns text to the left and numbers to the right", () => {
    const text = tableOf({
      columns: ["who", "amount"],
      rows: [
        ["ada", 5],
        ["grace", 1000],
      ],
    });
    expect(text).toBe(["who    amount", "-----  ------", "ada         5", "grace    1000"].join("\n"));
  });

  it("shows bytes, nulls and control characters on one line, and cuts what is long", () => {
    const rows = [[new Uint8Array([1, 255]), null, "a\nb\u001b[31m", "x".repeat(100)]] as const;
    const line = tableOf({ columns: ["a", "b", "c", "d"], rows }).split("\n")[2];
    expect(line).toBe(`x'01ff'  null  a\\nb\\u001b[31m  ${"x".repeat(57)}...`);
  });
});
