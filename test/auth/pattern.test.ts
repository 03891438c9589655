import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { patternOf } from "../../src/auth/pattern.js";

describe("a pattern", () => {
  it.each([
    ["lot-42", "lot-42", true],
    ["lot-42", "lot-421", false],
    ["lot-*", "lot-", true],
    ["lot-*", "lot-42/photo", true],
    ["lot-*", "slot-42", false],
    ["*", "", true],
    ["*", "anything at all", true],
    ["*-open", "-open", true],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a*b*c", "a1b2b3c", true],
    ["a*b*c", "acb", false],
    ["a**b", "ab", true],
    ["a.c", "abc", false],
    ["[a]", "a", false],
    ["Lot*", "lot", false],
  ])("%s against %s: %s", (pattern, text, matches) => {
    expect(patternOf(pattern)(text)).toBe(matches);
  });

  it("means what the same regular expression means", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 8 });
    const name = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 12 });
    fc.assert(
      fc.property(text, name, (pattern, candidate) => {
        const expression = new RegExp(`^${pattern.replaceAll(/\*+/g, ".*")}$`);
        expect(patternOf(pattern)(candidate)).toBe(expression.test(candidate));
      }),
      { numRuns: 2_000 },
    );
  });

  it("does not take long over a text made to make it try everything", () => {
    expect(patternOf("*a".repeat(100))(`${"a".repeat(50_000)}b`)).toBe(false);
  });
});
