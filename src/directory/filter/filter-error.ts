/** `bad_filter`: what is wrong with a filter, and where in its text. */
import { type ErrorOptionsBag, MoonportError } from "../../errors.js";

const SHOWN_LENGTH = 24;

/** @param at place in the text, from 0; people are told it from 1 */
export function filterError(source: string, at: number, what: string, bag: ErrorOptionsBag = {}): MoonportError {
  const shown = source.slice(at, at + SHOWN_LENGTH).toWellFormed();
  const rest = at + SHOWN_LENGTH < source.length ? `${shown}...` : shown;
  const where = rest === "" ? "at its end" : `at ${at + 1}: ${rest}`;
  return MoonportError.of("bad_filter", `where: ${what} (${where})`, {
    ...bag,
    details: { ...bag.details, position: at + 1 },
  });
}
