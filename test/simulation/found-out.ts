/** Tests that a broken system is found out. For vitest alone. */
import { describe, expect, it } from "vitest";
import { firstCaught } from "./run-variant.js";
import type { Variant } from "./variants/variant.js";

/**
 * What a seed means changes with every timer and every draw that the system under test makes: the pinned seed is only where
 * the search begins. So many further ones may be tried.
 */
const FURTHER_SEEDS = Number(process.env.MOONPORT_VARIANT_SEEDS ?? 60);

export function findsOut(variants: Readonly<Record<string, Variant>>): void {
  describe("a system with one fault is found out", () => {
    it.each(Object.entries(variants))(
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
