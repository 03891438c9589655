/** What judges the simulations can itself fail: each checker is shown something that is wrong. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { checkEvents } from "./check-events.js";
import { checkList } from "./check-list.js";
import { checkCounter, checkRegister } from "./check-register.js";
import type { Ended, Operation, Recorded } from "./history.js";

const ok = (value: unknown = null): Ended => ({ kind: "ok", value });
const unknown: Ended = { kind: "unknown", code: "outcome_unknown" };
const failed: Ended = { kind: "failed", code: "moved" };

/** One after the other. */
function inTurn(...calls: readonly (readonly [Operation, Ended])[]): Recorded[] {
  return calls.map(([operation, ended], index) => recorded(operation, ended, 2 * index, 2 * index + 1));
}

function recorded(operation: Operation, ended: Ended, begunAt: number, endedAt: number): Recorded {
  return { object: "A/k", client: 0, operation, ended, begunAt, endedAt, begunMs: begunAt, endedMs: endedAt };
}

const append = (value: number): Operation => ({ kind: "append", value });
const write = (value: number): Operation => ({ kind: "write", value });
const add = (amount: number): Operation => ({ kind: "add", amount });
const [list, read, destroy] = [{ kind: "list" }, { kind: "read" }, { kind: "destroy" }] as const;

it.each([
  ["an append that was acknowledged and is missing", inTurn([append(1), ok(1)], [list, ok([])])],
  ["an append that failed and is there", inTurn([append(1), failed], [list, ok([1])])],
  ["a value that stands there twice", inTurn([append(1), ok(1)], [list, ok([1, 1])])],
  ["a value that was never appended", inTurn([list, ok([1])])],
  ["a reading that is shorter than one before it", inTurn([append(1), unknown], [list, ok([1])], [list, ok([])])],
  [
    "two readings that differ in their order",
    inTurn([append(1), unknown], [append(2), unknown], [list, ok([1, 2])], [list, ok([2, 1])]),
  ],
  ["a value that was read before its append began", inTurn([list, ok([1])], [append(1), ok(1)])],
  ["a place that was said to be another's", inTurn([append(1), ok(2)], [list, ok([1])])],
])("a list's history with %s is refused", (_, history) => {
  expect(checkList(history)).not.toEqual([]);
});

it("a list's history in which nothing is wrong is not", () => {
  const history = inTurn([append(1), unknown], [append(2), ok(1)], [list, ok([2])], [list, ok([2, 1])]);
  expect(checkList(history)).toEqual([]);
});

it.each([
  ["a stale reading", checkRegister, inTurn([write(1), ok()], [write(2), ok()], [read, ok(1)])],
  ["a write that was lost", checkRegister, inTurn([write(1), ok()], [read, ok(0)])],
  [
    "a value that comes back",
    checkRegister,
    inTurn([write(1), unknown], [write(2), ok()], [read, ok(1)], [read, ok(2)]),
  ],
  ["what was ended and is there", checkRegister, inTurn([write(1), ok()], [destroy, ok()], [read, ok(1)])],
  ["an addition that was made twice", checkCounter, inTurn([add(2), ok(2)], [read, ok(4)])],
  ["an addition that was lost", checkCounter, inTurn([add(2), ok(2)], [add(3), ok(3)])],
])("a history with %s is refused", (_, check, history) => {
  expect(check(history)).not.toEqual([]);
});

it("calls that overlap, and those of unknown outcome, may stand in any order that fits", () => {
  const history = [recorded(write(1), ok(), 0, 5), recorded(write(2), unknown, 1, 2), recorded(read, ok(2), 3, 4)];
  expect(checkRegister([...history, recorded(read, ok(1), 6, 7)])).toEqual([]);
});

const event = (number: number, value: number, place = number) => ({
  number,
  name: "appended",
  data: { value, place },
  atMs: 0,
});
const told = (life: string, number: number, value: number) => ({
  life,
  object: "default/List/k",
  number,
  data: { value, place: number },
});
const rows = [event(1, 7), event(2, 8)];

it.each([
  ["a gap", [7, 8], [event(1, 7), event(3, 8, 2)], []],
  ["one too few", [7, 8], [event(1, 7)], []],
  ["one of another value", [7, 8], [event(1, 7), event(2, 9)], []],
  ["one that was told twice", [7, 8], rows, [told("a", 1, 7), told("b", 1, 7)]],
  ["one that was told and is another one", [7, 8], rows, [told("a", 2, 9)]],
  ["one that was told and is not there", [7, 8], rows, [told("a", 3, 9)]],
  ["one that was told after a later one", [7, 8], rows, [told("a", 2, 8), told("a", 1, 7)]],
])("events with %s are refused", (_, values, events, tellings) => {
  expect(checkEvents(values, events, tellings)).not.toEqual([]);
});

const operation = fc.oneof(
  fc.record({ kind: fc.constant("add" as const), amount: fc.integer({ min: 1, max: 2 }) }),
  fc.constant({ kind: "read" as const }),
  fc.constant({ kind: "destroy" as const }),
);

/** Begun and ended at places that nobody shares. */
const shortHistory = fc
  .array(fc.tuple(operation, fc.option(fc.integer({ min: 0, max: 5 }))), { minLength: 1, maxLength: 6 })
  .chain((calls) => {
    const places = Array.from({ length: 2 * calls.length }, (_, index) => index);
    return fc.shuffledSubarray(places, { minLength: places.length }).map((shuffled) =>
      calls.map(([one, value], index) => {
        const [begun, ended] = shuffled.slice(2 * index, 2 * index + 2).sort((a, b) => a - b) as [number, number];
        return recorded(one, value === null ? unknown : ok(value), begun, ended);
      }),
    );
  });

/** Whether any order of what must stand, with any of what may, explains all that was told. */
function isExplained(history: readonly Recorded[], state: number): boolean {
  if (history.every(({ ended }) => ended.kind === "unknown")) return true;
  const firstEnd = Math.min(...history.map(({ ended, endedAt }) => (ended.kind === "ok" ? endedAt : Infinity)));
  return history.some((one) => {
    const { operation, ended, begunAt } = one;
    if (begunAt > firstEnd) return false;
    const next = operation.kind === "add" ? state + operation.amount : operation.kind === "destroy" ? 0 : state;
    if (ended.kind === "ok" && operation.kind !== "destroy" && ended.value !== next) return false;
    return isExplained(
      history.filter((other) => other !== one),
      next,
    );
  });
}

it("a counter's history is refused exactly when no order at all explains it", () => {
  fc.assert(
    fc.property(shortHistory, (history) => {
      expect(checkCounter(history).length === 0).toBe(isExplained(history, 0));
    }),
    { numRuns: 3_000 },
  );
});

it("many additions that may stand do not make the search for an order too long, whether there is one or not", () => {
  const maybe = Array.from({ length: 40 }, (_, index) => recorded(add(1 + (index % 2)), unknown, index, 1_000));
  const told = (...values: readonly number[]): Recorded[] =>
    values.map((value, index) => recorded(read, ok(value), 100 + 2 * index, 101 + 2 * index));
  expect(checkCounter([...maybe, ...told(7, 20, 59)])).toEqual([]);
  expect(checkCounter([...maybe, ...told(7, 20, 61)])).not.toEqual([]);
  expect(checkCounter([...maybe, ...told(7, 20, 19)])).not.toEqual([]);
});

it("events that are as they were told are not", () => {
  expect(checkEvents([7, 8], rows, [told("a", 1, 7), told("b", 2, 8)])).toEqual([]);
});
