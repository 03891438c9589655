import fc from "fast-check";
import { expect, it } from "vitest";
import { FAULT_KINDS } from "./plan.js";
import { type Shortening, shortened } from "./shorten.js";

const kind = fc.option(fc.constantFrom(...FAULT_KINDS), { nil: undefined });

it("what is left of a failing simulation fails, and not without any strike, client, object or node of it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(kind, { minLength: 1, maxLength: 40 }),
      fc.array(fc.nat(39), { maxLength: 4 }),
      fc.record({ clients: fc.integer({ min: 1, max: 5 }), objects: fc.integer({ min: 1, max: 12 }) }),
      async (struck, guilty, needed) => {
        const strikes = new Set(guilty.filter((strike) => struck[strike] !== undefined));
        const fails = async ({ skipped, clients, objects }: Shortening): Promise<boolean> => {
          const isWhole = ![...strikes].some((strike) => skipped.includes(strike));
          return isWhole && clients >= needed.clients && objects >= needed.objects;
        };
        const left = await shortened({ struck, skipped: [], clients: 5, objects: 12, nodes: 4 }, fails);
        const kept = struck.flatMap((one, strike) => (one && !left.skipped.includes(strike) ? [strike] : []));
        expect(kept).toEqual([...strikes].sort((a, b) => a - b));
        expect(left).toMatchObject({ ...needed, nodes: 1 });
      },
    ),
  );
});
