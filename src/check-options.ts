/** Options as a JavaScript program hands them over: a misspelled name fails with the nearest right one, a wrong type says what is right. */
import { MoonportError } from "./errors.js";
import { nearest } from "./nearest.js";

/** What one option may be; `is` in words for the message. */
export interface OptionRule {
  readonly is: string;
  accepts(value: unknown): boolean;
}

export type OptionRules<Options> = Readonly<Record<keyof Options & string, OptionRule>>;

export const text: OptionRule = { is: "a string", accepts: (value) => typeof value === "string" };

export const filledText: OptionRule = {
  is: "a string with something in it",
  accepts: (value) => typeof value === "string" && value !== "",
};

export const flatObject: OptionRule = {
  is: "an object",
  accepts: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

export const callback: OptionRule = { is: "a function", accepts: (value) => typeof value === "function" };

export const flag: OptionRule = { is: "true or false", accepts: (value) => typeof value === "boolean" };

export const abortSignal: OptionRule = { is: "an AbortSignal", accepts: (value) => value instanceof AbortSignal };

export function wholeNumber(min: number, max: number): OptionRule {
  return {
    is: `a whole number from ${min} to ${max}`,
    accepts: (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  };
}

export function oneOf(...words: readonly string[]): OptionRule {
  return {
    is: words.map((word) => `"${word}"`).join(" or "),
    accepts: (value) => words.some((word) => word === value),
  };
}

export function listOf(rule: OptionRule, what: string): OptionRule {
  return { is: what, accepts: (value) => Array.isArray(value) && value.every((one) => rule.accepts(one)) };
}

/**
 * An option that is `undefined` counts as left out.
 * @param whose begins the messages: `Moonport.open`
 * @throws MoonportError `bad_option`
 */
export function checkOptions<Options>(whose: string, given: unknown, rules: OptionRules<Options>): void {
  if (!flatObject.accepts(given)) throw MoonportError.of("bad_option", `${whose} takes its options as an object`);
  for (const [name, value] of Object.entries(given as object)) {
    const rule = Object.hasOwn(rules, name) ? rules[name as keyof Options & string] : undefined;
    if (rule === undefined) throw unknownOption(whose, name, Object.keys(rules));
    if (value === undefined || rule.accepts(value)) continue;
    throw MoonportError.of("bad_option", `${whose}: ${name} is ${rule.is}`);
  }
}

function unknownOption(whose: string, name: string, known: readonly string[]): MoonportError {
  const guess = nearest(name, known);
  return MoonportError.of("bad_option", `${whose} has no option called "${name}"`, {
    hint: guess === undefined ? `its options: ${known.join(", ")}` : `did you mean ${guess}?`,
  });
}
