/**
 * All states that can be reached, in order of their distance from the first: what is found to be wrong comes with a
 * shortest way there.
 */
import { MoonportError } from "../../src/errors.js";
import { Canonical } from "./canonical.js";
import { check, type Violation } from "./checks.js";
import type { Model } from "./rules.js";
import { SeenStates } from "./seen-states.js";
import { type Sink, stepText } from "./sink.js";
import { type ModelState, stateText } from "./state.js";
import { firstState, steps } from "./steps.js";

export interface Exploration {
  readonly states: number;
  readonly transitions: number;
  readonly depth: number;
  /** States in which fewer recorded journals are left than a takeover must hear. */
  readonly unavailable: number;
  /** Every state that can be reached was seen. */
  readonly complete: boolean;
  readonly violation: (Violation & { readonly trace: readonly string[] }) | undefined;
}

interface Found {
  readonly violation: Violation;
  /** Number of the state before the step, and the step. */
  readonly from: number;
  readonly step: string;
}

interface Numbered {
  readonly state: ModelState;
  readonly number: number;
}

class Explorer {
  readonly #model: Model;
  readonly #canonical = new Canonical();
  readonly #seen = new SeenStates();
  readonly #tally = { unavailable: 0 };
  #transitions = 0;
  #next: Numbered[] = [];
  #found: Found | undefined;

  constructor(model: Model) {
    this.#model = model;
  }

  run(statesMax: number): Exploration {
    const first = firstState(this.#model);
    this.#canonical.hash(first);
    this.#seen.add(this.#canonical.hashLow, this.#canonical.hashHigh, -1);
    let layer: Numbered[] = [{ state: first, number: 0 }];
    let depth = 0;
    while (layer.length > 0 && this.#found === undefined && this.#seen.size < statesMax) {
      this.#next = [];
      for (const from of layer) {
        this.#expand(from);
        if (this.#found !== undefined || this.#seen.size >= statesMax) break;
      }
      layer = this.#next;
      depth++;
    }
    const complete = this.#found === undefined && layer.length === 0;
    const { unavailable } = this.#tally;
    const found = this.#found && { ...this.#found.violation, trace: this.#trace(this.#found) };
    return { states: this.#seen.size, transitions: this.#transitions, depth, unavailable, complete, violation: found };
  }

  #expand(from: Numbered): void {
    const sink: Sink = {
      step: (next, what, first, second, third) => {
        this.#transitions++;
        this.#canonical.hash(next);
        const number = this.#seen.add(this.#canonical.hashLow, this.#canonical.hashHigh, from.number);
        if (number < 0 || this.#found !== undefined) return;
        this.#next.push({ state: next, number });
        const violation = check(this.#model, next, this.#tally);
        if (violation) this.#found = { violation, from: from.number, step: stepText(what, first, second, third) };
      },
      violation: (violation, what, first, second, third) => {
        this.#found ??= { violation, from: from.number, step: stepText(what, first, second, third) };
      },
    };
    try {
      steps(this.#model, from.state, sink);
    } catch (error) {
      if (!(error instanceof MoonportError)) throw error;
      const violation = { kind: "assertion", text: error.message } as const;
      this.#found ??= { violation, from: from.number, step: "the next step" };
    }
  }

  /** Only numbers of states are kept: the way is walked again. */
  #trace({ from, step }: Found): string[] {
    const trace: string[] = [];
    let state = firstState(this.#model);
    for (const number of this.#seen.pathTo(from).slice(1)) {
      const next = this.#stepTo(state, number);
      trace.push(`${next.what}\n     ${stateText(next.state)}`);
      state = next.state;
    }
    return [...trace, step];
  }

  #stepTo(state: ModelState, number: number): { state: ModelState; what: string } {
    let found: { state: ModelState; what: string } | undefined;
    const step: Sink["step"] = (next, what, first, second, third) => {
      if (found !== undefined) return;
      this.#canonical.hash(next);
      const { hashLow, hashHigh } = this.#canonical;
      if (this.#seen.isNumbered(number, hashLow, hashHigh))
        found = { state: next, what: stepText(what, first, second, third) };
    };
    steps(this.#model, state, { step, violation: () => undefined });
    if (found === undefined) throw new Error("a step can not be found again: states that hash alike differ");
    return found;
  }
}

/** @param statesMax ends the exploration, incomplete */
export function explore(model: Model, statesMax = Number.POSITIVE_INFINITY): Exploration {
  return new Explorer(model).run(statesMax);
}
