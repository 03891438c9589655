/** The memory of answers by itself: what it gives, and what it takes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LuaClass } from "../../src/lua/contract.js";
import { AnswerMemory, type CallText, ObjectAnswers } from "../../src/object/remembered-answers.js";
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
  const found = answers.find({ lua, method, args }, mark);
  if (typeof found === "object") return { value: found.value, isOld: true };
  const value = run();
  if (found !== undefined) answers.keep(found, lua, mark, value);
  return { value, isOld: false };
}

describe("an answer", () => {
  it("is kept when the same is asked again after a write's first reading, until the next write", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const olds = [1, 1, 1, 1, 1, 2, 2, 2, 2].map((mark) => read(answers, mark, "get", [], () => mark).isOld);
    expect(olds).toEqual([false, false, false, true, true, false, false, false, true]);
  });

  it("to what nobody asks twice takes no memory", () => {
    const memory = new AnswerMemory(BYTES);
    const answers = new ObjectAnswers(memory);
    for (let index = 0; index < 10_000; index++) read(answers, 1, "get", [index], () => index);
    expect(memory.bytes).toBe(0);
  });

  it("is another class's no more", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const told = [one, one, one, one, other, other, other, one, one].map((lua) =>
      read(answers, 1, "get", [], () => lua.name, lua),
    );
    expect(told.map(({ isOld }) => isOld)).toEqual([false, false, false, true, false, false, true, false, false]);
    expect(told.map(({ value }) => value).join(" ")).toBe("One One One One Other Other Other One One");
  });

  it("that was begun before a write is not kept", () => {
    const answers = new ObjectAnswers(new AnswerMemory(BYTES));
    const asked = { lua: one, method: "get", args: [] };
    const call = [1, 1, 1].map((mark) => answers.find(asked, mark))[2] as CallText;
    expect(typeof call).toBe("string");
    expect(answers.find(asked, 2)).toBeUndefined();
    expect(answers.keep(call, one, 1, "old")).toBeUndefined();
    expect(answers.find(asked, 2)).toBeUndefined();
    expect(answers.keep(call, other, 2, "another's")).toBeUndefined();
    expect(answers.keep(call, one, 2, "new")?.value).toBe("new");
    expect(answers.find(asked, 2)).toEqual({ value: "new", isShared: true });
  });
});

it("is never given to another call: by method, by number, type and content of its arguments", () => {
  const texts = ["", ":", "t", "f", "0", "n0", "n1", "1", "-0", "a", "a:0", "1:a", ":t", ":0", "null", "\ud800"];
  const scalars: PlainValue[] = [null, true, false, 0, -0, 1, 1.5, Number.NaN, ...texts];
  const rows: PlainValue[][] = [[], [[]], ...scalars.map((one) => [one])];
  for (const first of scalars) for (const second of scalars) rows.push([first, second]);
  for (const first of texts) for (const second of texts) for (const third of texts) rows.push([first, second, third]);
  const calls = ["a", "a_1", "ab"].flatMap((method) => rows.map((args) => ({ method, args })));

  const answers = new ObjectAnswers(new AnswerMemory(BYTES * 1_024));
  read(answers, 1, "first", [], () => null);
  let remembered = 0;
  for (let pass = 0; pass < 3; pass++) {
    for (const [index, { method, args }] of calls.entries()) {
      const { value, isOld } = read(answers, 1, method, args, () => index);
      if (value !== index) expect({ method, args }).toEqual(calls[value as number]);
      if (isOld) remembered++;
    }
  }
  expect(remembered).toBeGreaterThan(calls.length / 2);
});

it("of a reading that ends after its file was closed is not kept", () => {
  const memory = new AnswerMemory(BYTES);
  const answers = new ObjectAnswers(memory);
  const asked = { lua: one, method: "get", args: [] };
  const call = [1, 1, 1].map((mark) => answers.find(asked, mark))[2] as CallText;
  answers.end();
  expect(answers.keep(call, one, 1, "late")).toBeUndefined();
  expect(memory.bytes).toBe(0);
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
  for (let time = 0; time < 3; time++) read(hot, 1, "get", [], () => large);
  let misses = 0;
  for (let index = 0; index < 1_000; index++) {
    const cold = new ObjectAnswers(memory);
    for (let time = 0; time < 3; time++) read(cold, 1, "get", [], () => large);
    if (!read(hot, 1, "get", [], () => large).isOld) misses++;
  }
  expect(misses).toBe(0);
  expect(memory.bytes).toBeGreaterThan(BYTES / 2);
});
