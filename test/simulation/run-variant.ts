/** Runs simulations of a broken system: its modules are loaded anew, with those that the variant replaces. For vitest alone. */
import { vi } from "vitest";
import type { SimulationResult } from "./simulate.js";
import type { Variant } from "./variants/variant.js";

export interface Caught {
  readonly seed: number;
  readonly result: SimulationResult;
}

/** The first of the seeds in which a check fails; undefined when it gets through all. */
export async function firstCaught(variant: Variant, seeds: Iterable<number>): Promise<Caught | undefined> {
  const simulate = await brokenSimulate(variant);
  for (const seed of seeds) {
    // Watchers and doers have faults of their own to find, and change what a seed means.
    const result = await simulate({ seed, plan: { watchers: 0, doers: 0, ...variant.plan } });
    if (result.violations.length > 0) return { seed, result };
  }
  return undefined;
}

async function brokenSimulate({ replaces }: Variant): Promise<typeof import("./simulate.js").simulate> {
  vi.resetModules();
  for (const { module, broken } of replaces) {
    vi.doMock(`../../src/${module}.js`, async (importOriginal) => {
      const original = (await importOriginal()) as object;
      return { ...original, ...broken(original) };
    });
  }
  try {
    return (await import("./simulate.js")).simulate;
  } finally {
    for (const { module } of replaces) vi.doUnmock(`../../src/${module}.js`);
  }
}
