import { describe, expect, it } from "vitest";
import { firstCaught } from "./run-variant.js";
import { VARIANTS } from "./variants/index.js";

/** So many seeds from 1 are tried instead of the pinned one, and what is found is printed. */
const SEARCHED = Number(process.env.MOONPORT_VARIANT_SEEDS ?? 0);

describe("a system with one fault is found out", () => {
  it.each(Object.entries(VARIANTS))(
    "%s",
    async (name, variant) => {
      const seeds = SEARCHED > 0 ? Array.from({ length: SEARCHED }, (_, index) => index + 1) : [variant.seed];
      const caught = await firstCaught(variant, seeds);
      const checks = new Set(caught?.result.violations.map(({ check }) => check));
      if (SEARCHED > 0) {
        const [first] = caught?.result.violations ?? [];
        console.log(`FOUND ${name}: ${caught?.seed ?? "not caught"}: ${[...checks].join(", ")}: ${first?.what}`);
      }
      expect(checks).toContain(variant.caughtBy);
    },
    3_600_000,
  );
});
