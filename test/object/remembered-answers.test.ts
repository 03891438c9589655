/** The memory of answers by itself: what it gives, and what it takes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LuaClass } from "../../src/lua/contract.js";
import { AnswerMemory, ObjectAnswers } from "../../src/object/remembered-answers.js";
import type { PlainValue } from "../../src/values.js";
import "../support/property-seed.js";

const [one, other] = [{ name: "One" }, { name: "Other" }] as unknown as [LuaClass, LuaClass];
const BYTES = 64 * 1_024;

/** Reads as the kernel does. @returns the answer and whether it was remembered */
function read(
  answers: ObjectAnswers,
  mark: number,
  method: string,
  args: readonly PlainValue[],
  run: () => PlainValue,
  lua = one,
): { readonly value: PlainValue; readonly isOld: boolean } {
  const asked = { lua, method, args };
  const known = answers.get(asked, mark);
  if (known !== undefined) return { value: known.value, isOld: true };
  const value = run();
  if (answers.isWorthKeeping(asked, mark)) answers.keep(asked, mark, value);
  return { value, isOld: false };
}

describe("an answer", () => {
  it("is kept from the second reading after a write on, until the next", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const olds = [1, 1, 1, 1, 2, 2, 2].map((mark) => read(answers, mark, "get", [], () => mark).isOld);
    expect(olds).toEqual([false, false, true, true, false, false, true]);
  });

  it("is another class's no more", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const olds = [one, one, one, other, other, other, one].map(
      (lua) => read(answers, 1, "get", [], () => lua.name, lua).isOld,
    );
    expect(olds).toEqual([false, false, true, false, false, true, false]);
  });

  it("that was begun before a write is not kept", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const asked = { lua: one, method: "get", args: [] };
    expect(answers.isWorthKeeping(asked, 1)).toBe(false);
    expect(answers.isWorthKeeping(asked, 1)).toBe(true);
    expect(answers.isWorthKeeping(asked, 2)).toBe(false);
    answers.keep(asked, 1, "old");
    expect(answers.get(asked, 1)).toBeUndefined();
    expect(answers.get(asked, 2)).toBeUndefined();
  });
});

const scalar: fc.Arbitrary<PlainValue> = fc.oneof(
  fc.constantFrom<PlainValue>(null, true, false, 0, -0, 1, "", "1", "null", "[", '"', ",", "a", "\ud800", Number.NaN),
  fc.string({ maxLength: 3 }),
  fc.double(),
);
const call = fc.record({
  method: fc.constantFrom("a", "b", "ab", "a_1"),
  args: fc.array(fc.oneof({ weight: 8, arbitrary: scalar }, { weight: 1, arbitrary: fc.constant<PlainValue>([]) }), {
    maxLength: 3,
  }),
});

it("is never given to another call: by method, by number, type and content of its arguments", () => {
  fc.assert(
    fc.property(fc.array(call, { minLength: 2, maxLength: 30 }), (calls) => {
      const answers = new ObjectAnswers(new AnswerMemory(BYTES * 16));
      read(answers, 1, "first", [], () => null);
      const told: { readonly method: string; readonly args: readonly PlainValue[] }[] = [];
      for (const { method, args } of [...calls, ...calls]) {
        // The answer names the call that it was made for.
        const { value } = read(answers, 1, method, args, () => told.push({ method, args }) - 1);
        const made = told[value as number];
        expect(made?.method).toBe(method);
        expect(made?.args.length).toBe(args.length);
        made?.args.forEach((arg, index) => {
          if (typeof arg !== "object" || arg === null) expect(Object.is(arg, args[index])).toBe(true);
          else expect(args[index]).toBe(arg);
        });
      }
    }),
  );
});

const answer: fc.Arbitrary<PlainValue> = fc.oneof(
  fc.string({ maxLength: 2_000 }),
  fc.array(fc.string({ maxLength: 50 }), { maxLength: 40 }),
  fc.uint8Array({ maxLength: 1_500 }),
  fc.dictionary(fc.string({ maxLength: 8 }), fc.oneof(fc.integer(), fc.string())) as fc.Arbitrary<PlainValue>,
);
const step = fc.record({
  object: fc.nat({ max: 5 }),
  key: fc.nat({ max: 6 }),
  does: fc.constantFrom("read", "read", "read", "read", "write", "close"),
  answer,
});

it("of all objects take no more than the bound, count as none once they are gone, and are what a run gives", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.constantFrom(0, 2_000, BYTES), (steps, bytesMax) => {
      const memory = new AnswerMemory(bytesMax);
      const objects = Array.from({ length: 6 }, () => ({ answers: new ObjectAnswers(memory), mark: 0 }));
      const state = new Map<string, PlainValue>();
      for (const { object, key, does, answer: fresh } of steps) {
        const at = objects[object] as (typeof objects)[number];
        if (does === "close") at.answers.forget();
        else if (does === "write") {
          at.mark++;
          for (const name of state.keys()) if (name.startsWith(`${object}/`)) state.delete(name);
        } else {
          const name = `${object}/${key}`;
          if (!state.has(name)) state.set(name, fresh);
          const { value, isOld } = read(at.answers, at.mark, "get", [key], () => state.get(name) ?? null);
          expect(value).toEqual(state.get(name));
          if (bytesMax === 0) expect(isOld).toBe(false);
        }
        expect(memory.bytes).toBeLessThanOrEqual(bytesMax);
        expect(memory.bytes).toBeGreaterThanOrEqual(0);
      }
      for (const { answers } of objects) answers.forget();
      expect(memory.bytes).toBe(0);
    }),
  );
});

it("that is asked for stays when others must go", () => {
  const memory = new AnswerMemory(BYTES);
  const large = "x".repeat(400);
  const hot = new ObjectAnswers(memory);
  read(hot, 1, "get", [], () => large);
  read(hot, 1, "get", [], () => large);
  let misses = 0;
  for (let index = 0; index < 1_000; index++) {
    const cold = new ObjectAnswers(memory);
    read(cold, 1, "get", [], () => large);
    read(cold, 1, "get", [], () => large);
    if (!read(hot, 1, "get", [], () => large).isOld) misses++;
  }
  expect(misses).toBe(0);
  expect(memory.bytes).toBeGreaterThan(BYTES / 2);
});
