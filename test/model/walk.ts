/** Random walks, for worlds that are too large to be explored whole. A seed makes the same walks again. */
import { MoonportError } from "../../src/errors.js";
import { SeededRandom } from "../../src/testing/seeded-random.js";
import { check, type Violation } from "./checks.js";
import type { Model } from "./rules.js";
import { type Sink, stepText } from "./sink.js";
import { type ModelState, stateText } from "./state.js";
import { firstState, steps } from "./steps.js";

export interface Walks {
  readonly walks: number;
  readonly steps: number;
  readonly violation: (Violation & { readonly trace: readonly string[] }) | undefined;
}

interface Step {
  readonly text: () => string;
  readonly next: ModelState | undefined;
  readonly violation: Violation | undefined;
}

export interface WalkOptions {
  readonly seed: number;
  readonly walks: number;
  readonly stepsMax?: number;
}

const STEPS_MAX = 90;

export function walk(model: Model, { seed, walks, stepsMax = STEPS_MAX }: WalkOptions): Walks {
  const random = new SeededRandom(seed);
  let taken = 0;
  for (let count = 1; count <= walks; count++) {
    let state = firstState(model);
    const trace: string[] = [];
    for (let length = 0; length < stepsMax; length++) {
      const step = pick(stepsByKind(model, state), random);
      if (step === undefined) break;
      taken++;
      trace.push(step.text());
      const violation = step.violation ?? (step.next && check(model, step.next, { unavailable: 0 }));
      if (violation) return { walks: count, steps: taken, violation: { ...violation, trace } };
      if (step.next === undefined) break;
      state = step.next;
      trace.push(`     ${stateText(state)}`);
    }
  }
  return { walks, steps: taken, violation: undefined };
}

/** Kinds of steps are taken equally often, however many steps of a kind there are: rare ones would else never come. */
function stepsByKind(model: Model, state: ModelState): Step[][] {
  const kinds = new Map<string, Step[]>();
  const add = (what: string, step: Step): void => {
    const list = kinds.get(what);
    if (list === undefined) kinds.set(what, [step]);
    else list.push(step);
  };
  const sink: Sink = {
    step: (next, what, ...numbers) => add(what, { next, violation: undefined, text: () => stepText(what, ...numbers) }),
    violation: (violation, what, ...numbers) =>
      add(what, { next: undefined, violation, text: () => stepText(what, ...numbers) }),
  };
  try {
    steps(model, state, sink);
  } catch (error) {
    if (!(error instanceof MoonportError)) throw error;
    const violation: Violation = { kind: "assertion", text: error.message };
    return [[{ next: undefined, violation, text: () => "the next step" }]];
  }
  return [...kinds.values()];
}

function pick(kinds: readonly (readonly Step[])[], random: SeededRandom): Step | undefined {
  const kind = kinds[random.below(kinds.length)];
  return kind?.[random.below(kind.length)];
}
