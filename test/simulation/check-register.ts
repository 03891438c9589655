/**
 * Whether a history of one register, or of one counter, is linearizable, by searching for an order (Wing and Gong 1993, with
 * the states that were seen remembered as Lowe 2017 does). Operations of unknown outcome may stand anywhere after their
 * beginning, or nowhere.
 */
import type { Ended, Operation, Recorded } from "./history.js";

interface Step {
  readonly one: Recorded;
  readonly mustStand: boolean;
  readonly endedAt: number;
}

const STATES_MAX = 2_000_000;

export function checkRegister(history: readonly Recorded[]): readonly string[] {
  // A write that may not have happened, and whose value nobody read, explains nothing: it need not have happened.
  const read = new Set(history.flatMap(({ operation, ended }) => (isRead(operation, ended) ? [ended.value] : [])));
  const telling = history.filter(
    ({ operation, ended }) => ended.kind !== "unknown" || !("value" in operation) || read.has(operation.value),
  );
  return search(telling, (state, { operation, ended }) => {
    if (operation.kind === "write" || operation.kind === "fill") return operation.value;
    if (operation.kind === "destroy") return 0;
    if (operation.kind === "read") return ended.kind === "ok" && ended.value !== state ? undefined : state;
    return undefined;
  });
}

function isRead(operation: Operation, ended: Ended): ended is Extract<Ended, { kind: "ok" }> {
  return operation.kind === "read" && ended.kind === "ok";
}

export function checkCounter(history: readonly Recorded[]): readonly string[] {
  return search(history, (state, { operation, ended }) => {
    if (operation.kind === "read") return ended.kind === "ok" && ended.value !== state ? undefined : state;
    if (operation.kind === "destroy") return 0;
    if (operation.kind !== "add") return undefined;
    const next = state + operation.amount;
    return ended.kind === "ok" && ended.value !== next ? undefined : next;
  });
}

/** @param apply the state after an operation; undefined when it cannot have happened in that state */
function search(
  history: readonly Recorded[],
  apply: (state: number, one: Recorded) => number | undefined,
): readonly string[] {
  const steps: Step[] = history
    .filter(
      ({ ended, operation }) => ended.kind !== "failed" && !(ended.kind === "unknown" && operation.kind === "read"),
    )
    .map((one) => {
      const mustStand = one.ended.kind === "ok";
      return { one, mustStand, endedAt: mustStand ? one.endedAt : Number.POSITIVE_INFINITY };
    })
    .sort((left, right) => left.one.begunAt - right.one.begunAt);
  const taken = new Array<boolean>(steps.length).fill(false);
  const seen = new Set<string>();
  let left = steps.filter(({ mustStand }) => mustStand).length;
  let firstOpen = 0;
  let furthest = left;

  const goOnWith = (index: number, step: Step, state: number): boolean => {
    const next = apply(state, step.one);
    if (next === undefined) return false;
    const before = firstOpen;
    taken[index] = true;
    if (step.mustStand) left--;
    while (firstOpen < steps.length && taken[firstOpen]) firstOpen++;
    if (go(next)) return true;
    firstOpen = before;
    taken[index] = false;
    if (step.mustStand) left++;
    return false;
  };

  const go = (state: number): boolean => {
    if (left === 0) return true;
    const key = `${state}|${firstOpen}|${takenFrom(taken, firstOpen)}`;
    if (seen.has(key)) return false;
    if (seen.size > STATES_MAX) throw new Error("the search for an order of a history has grown too large");
    seen.add(key);
    furthest = Math.min(furthest, left);
    let bound = Number.POSITIVE_INFINITY;
    for (let index = firstOpen; index < steps.length; index++) {
      if (!taken[index]) bound = Math.min(bound, (steps[index] as Step).endedAt);
    }
    // What must stand comes first: what may or may not is only tried where nothing else fits.
    for (const mustStand of [true, false]) {
      const triedEffects = new Set<string>();
      for (let index = firstOpen; index < steps.length; index++) {
        const step = steps[index] as Step;
        // Whatever began after another had to end cannot come before that one.
        if (step.one.begunAt > bound) break;
        if (taken[index] || step.mustStand !== mustStand) continue;
        // Of those that may stand and do the same, the first may stand wherever another does, and that one in its place.
        if (!mustStand && triedEffects.size === triedEffects.add(effectOf(step.one.operation)).size) continue;
        if (goOnWith(index, step, state)) return true;
      }
    }
    return false;
  };
  return go(0) ? [] : [`${history[0]?.object}: no order explains its history; ${furthest} of its answers never fit`];
}

/** What an operation of unknown outcome does, if it stands. */
function effectOf(operation: Operation): string {
  return `${operation.kind} ${"amount" in operation ? operation.amount : "value" in operation ? operation.value : ""}`;
}

function takenFrom(taken: readonly boolean[], first: number): string {
  let last = taken.length;
  while (last > first && !taken[last - 1]) last--;
  let text = "";
  for (let index = first; index < last; index++) text += taken[index] ? "1" : "0";
  return text;
}
