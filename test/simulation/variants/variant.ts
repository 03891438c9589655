import type { FaultWeights, Plan } from "../plan.js";
import type { Check } from "../simulate.js";
import type { Replacement } from "./replacing.js";

export interface Variant {
  /** What it does, in the present tense, and with that wrong. */
  readonly breaks: string;
  readonly replaces: readonly Replacement[];
  /** Makes the situation likelier in which it matters; a sound system takes it like any other. */
  readonly plan?: Partial<Plan>;
  /** False: in simulations as the first ones were (plan.ts). */
  readonly isVaried?: false;
  /** Catches it. */
  readonly seed: number;
  /** By which check, among others. */
  readonly caughtBy: Check;
}

/** Of all kinds these alone, each as often as it says. */
export function only(weights: FaultWeights): { readonly faults: FaultWeights } {
  return { faults: weights };
}
