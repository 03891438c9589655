/** What the kill and crash tests do to Ledgers, drawn at random: operations in terms of the calls before them. */
import fc from "fast-check";
import type { LedgerCall, LedgerOperation } from "./ledger-model.js";

/** An operation that is not yet at its place: it names earlier calls by how far they lie back. */
export type Draft =
  | { readonly method: "add" | "refuse" | "stumble"; readonly rows: number; readonly units: number }
  | { readonly method: "rewrite"; readonly back: number; readonly units: number }
  | { readonly method: "drop"; readonly back: number };

const rows = fc.integer({ min: 1, max: 6 });
/** A unit is some five bytes and a page 1,024: above two hundred a row has overflow pages. */
const units = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 20 }) },
  { weight: 1, arbitrary: fc.integer({ min: 200, max: 1_500 }) },
);
const back = fc.integer({ min: 1, max: 12 });

export const draft: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ method: fc.constant("add" as const), rows, units }) },
  { weight: 3, arbitrary: fc.record({ method: fc.constant("rewrite" as const), back, units }) },
  { weight: 1, arbitrary: fc.record({ method: fc.constant("drop" as const), back }) },
  {
    weight: 3,
    arbitrary: fc.record({ method: fc.constantFrom("refuse" as const, "stumble" as const), rows, units }),
  },
);

/** @param tag the call's own; those of its object count up from 1 */
export function callOf(tag: number, wanted: Draft, callId: string | undefined): LedgerCall {
  return { tag, operation: operationOf(tag, wanted), callId };
}

function operationOf(tag: number, wanted: Draft): LedgerOperation {
  switch (wanted.method) {
    case "rewrite":
      return { method: "rewrite", of: tag - wanted.back, units: wanted.units };
    case "drop":
      return { method: "drop", through: tag - wanted.back };
    default:
      return wanted;
  }
}
