/** Tests that a broken system is found out. For vitest alone. */
import { describe, expect, it } from "vitest";
import { firstCaught } from "./run-variant.js";
import type { Variant } from "./variants/variant.js";

/**
 * What a seed means changes with every timer and every draw that the system under test makes: the pinned seed is only where
 * the search begins. So many further ones may be tried.
 */
const FURTHER_SEEDS = Number(process.env.MOONPORT_VARIANT_SEEDS ?? 60);

/**
 * Of these the suite makes sure at every run: they are found within a few seeds. MOONPORT_VARIANTS=all searches for all of
 * them, which takes its time.
 */
const EVERY_RUN = new Set([
  "a tail is let go when it has been handed over",
  "a journal answers before its sync",
  "a tail is read back through shared bytes",
  "W − 1 acknowledgements release",
  "a gap is taken for an acknowledgement",
  "a session is called dead without its time being up",
  "what no record names is collected at once",
  "a call's id is recorded in another transaction",
  "an object is released before all of it has landed",
  "what landed while a watched object was looked for is not read",
  "the last event that was told counts as the last that landed",
  "who watches an object is not told that its owner has lost it",
  "a message leaves the outbox before whom it is for has it",
  "that a command was delivered is not written down",
  "a cancel is answered by done whenever it comes",
  "the row of an object that is gone stays",
  "the record of releases is written without a condition",
  "the version of a class does not tell its text",
  "an older release is let at what a newer one has migrated",
  "an answer is remembered beyond a write",
  "a copy that is there is good enough",
  "a copy is read by whatever class its node has",
]);
const IS_ALL = process.env.MOONPORT_VARIANTS === "all";

export function findsOut(variants: Readonly<Record<string, Variant>>): void {
  describe("a system with one fault is found out", () => {
    const searched = Object.entries(variants).filter(([name]) => IS_ALL || EVERY_RUN.has(name));
    it.each(searched)(
      "%s",
      async (name, variant) => {
        const others = Array.from({ length: FURTHER_SEEDS }, (_, index) => index + 1);
        const caught = await firstCaught(variant, [variant.seed, ...others.filter((seed) => seed !== variant.seed)]);
        const checks = [...new Set(caught?.result.violations.map(({ check }) => check))];
        console.log(`FOUND ${name}: seed ${caught?.seed ?? "none"}: ${checks.join(", ")}`);
        expect(caught, `not caught within ${FURTHER_SEEDS} seeds`).toBeDefined();
      },
      600_000,
    );
  });
}
