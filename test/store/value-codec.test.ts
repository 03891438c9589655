import { deepStrictEqual } from "node:assert";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeValue, encodeValue } from "../../src/store/value-codec.js";
import type { PlainValue } from "../../src/values.js";
import { errorOf } from "./object-file.js";

const awkwardKeys = fc.constantFrom("__proto__", "constructor", "toJSON", "hasOwnProperty", "length", "then", "");
const { value: values } = fc.letrec<{ value: PlainValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.string({ unit: "binary" }),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
    fc.uint8Array({ maxLength: 40 }),
    fc.array(tie("value"), { maxLength: 20 }),
    fc
      .array(fc.tuple(fc.oneof(awkwardKeys, fc.string({ unit: "binary" })), tie("value")), { maxLength: 20 })
      .map(Object.fromEntries),
  ),
}));

test("every plain value comes back equal, whatever its keys are called", () => {
  fc.assert(
    fc.property(values, (value) => {
      deepStrictEqual(decodeValue(encodeValue(value, 1_048_576, "it")), value);
    }),
    { numRuns: 1_000 },
  );
});

test("a decoded value is the reader's own, and no prototype was touched", () => {
  const bytes = encodeValue(JSON.parse('{"__proto__": {"polluted": 1}}'), 1_024, "it");
  const decoded = decodeValue(bytes) as Record<string, unknown>;
  expect(Object.getPrototypeOf(decoded)).toBe(Object.prototype);
  expect(Object.keys(decoded)).toEqual(["__proto__"]);
  expect("polluted" in {}).toBe(false);
  const blob = decodeValue(encodeValue(Uint8Array.of(1, 2), 1_024, "it")) as Uint8Array;
  expect(blob.buffer.byteLength).toBe(2);
});

test("what is too large, or no msgpack, or no bytes, is refused by its code", () => {
  expect(errorOf(() => encodeValue("x".repeat(100), 50, "the reply")).message).toBe(
    "the reply is 102 bytes; the limit is 50",
  );
  for (const stored of [Uint8Array.of(0xc1), Uint8Array.of(0xa5, 1), Uint8Array.of(1, 2), "text", null]) {
    expect(errorOf(() => decodeValue(stored)).code).toBe("object_corrupt");
  }
});
