/**
 * Makes a simulation that fails smaller while it goes on failing: it leaves out kinds of faults, then strikes in ever smaller
 * groups, then clients, objects and nodes. What is left is not the least that there could be, and mostly small enough to be read.
 *
 * A strike that is left out changes no other one, and a client no other one; another number of objects or nodes is another
 * simulation, which may fail all the same.
 */
import type { FaultKind, Plan } from "./plan.js";

/** What can be left out of a plan. */
export type Shortening = Pick<Plan, "skipped" | "clients" | "objects" | "nodes">;

export interface Failing extends Shortening {
  /** Kinds of the strikes in order; undefined for one that came to nothing. */
  readonly struck: readonly (FaultKind | undefined)[];
}

/** @param fails whether a simulation with these changes fails as the first one does */
export async function shortened(
  failing: Failing,
  fails: (changes: Shortening) => Promise<boolean>,
): Promise<Shortening> {
  const { struck, ...whole } = failing;
  const tries = new Tries(whole, fails);
  const strikes = struck.flatMap((kind, strike) => (kind === undefined ? [] : [{ kind, strike }]));
  for (const kind of new Set(strikes.map((one) => one.kind))) {
    await tries.skip(strikes.filter((one) => one.kind === kind).map(({ strike }) => strike));
  }
  for (let size = Math.ceil(struck.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (const group of groupsOf(tries.left(struck.length), size)) await tries.skip(group);
  }
  for (const part of ["clients", "objects", "nodes"] as const) await tries.fewest(part);
  return tries.best;
}

class Tries {
  best: Shortening;
  readonly #fails: (changes: Shortening) => Promise<boolean>;

  constructor(best: Shortening, fails: (changes: Shortening) => Promise<boolean>) {
    this.best = best;
    this.#fails = fails;
  }

  /** Strikes that are not skipped yet. */
  left(count: number): readonly number[] {
    return Array.from({ length: count }, (_, strike) => strike).filter((strike) => !this.best.skipped.includes(strike));
  }

  async skip(strikes: readonly number[]): Promise<void> {
    const more = strikes.filter((strike) => !this.best.skipped.includes(strike));
    if (more.length > 0) await this.#try({ skipped: [...this.best.skipped, ...more].sort((a, b) => a - b) });
  }

  async fewest(part: "clients" | "objects" | "nodes"): Promise<void> {
    for (let count = 1; count < this.best[part]; count++) if (await this.#try({ [part]: count })) return;
  }

  async #try(changes: Partial<Shortening>): Promise<boolean> {
    const shorter = { ...this.best, ...changes };
    if (!(await this.#fails(shorter))) return false;
    this.best = shorter;
    return true;
  }
}

function groupsOf(strikes: readonly number[], size: number): (readonly number[])[] {
  const groups: (readonly number[])[] = [];
  for (let at = 0; at < strikes.length; at += size) groups.push(strikes.slice(at, at + size));
  return groups;
}
