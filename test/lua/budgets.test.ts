import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { evaluate, FakeHost, failure, loadThing, makeEngine, run, SteppingClock, step } from "./support/fake-host.js";

const MANY_STEPS = { limits: { instructionsMax: 200_000 } };

describe("a method that runs for ever is killed", () => {
  test("by its running time, which waiting between slices does not count", () => {
    const clock = new SteppingClock(1);
    const engine = makeEngine({ clock, limits: { methodBudgetMs: 50, sliceMs: 5 } });
    const thing = loadThing("function Thing:go() while true do end end", engine);
    const invocation = thing.start({ kind: "method", name: "go" }, [], new FakeHost());
    let slices = 0;
    let result = invocation.resume();
    for (; result.kind === "slice"; result = invocation.resume()) {
      slices += 1;
      clock.nowMs += 10_000;
    }
    expect(result).toMatchObject({ kind: "failed", error: { code: "budget_exceeded", details: { kind: "time" } } });
    expect(slices).toBeGreaterThan(3);
  });

  test("by the directory's shorter time, without slices", () => {
    const engine = makeEngine({ clock: new SteppingClock(1) });
    const thing = loadThing(
      'Thing.directory = { columns = { n = "integer" }, row = function() while true do end end }',
      engine,
    );
    const result = thing.start({ kind: "row" }, [], new FakeHost()).resume();
    expect(result).toMatchObject({ kind: "failed", error: { code: "budget_exceeded", details: { kind: "time" } } });
  });

  test("while its class file loads", () => {
    const engine = makeEngine(MANY_STEPS);
    expect(() => loadThing("while true do end", engine)).toThrow(
      "classes/Thing.lua: the top of the file ran more than",
    );
    expect(evaluate("return 1", engine)).toBe(1);
  });
});

test.each(["json.decode(long)", "hash.sha256(long)", "state.store.get(long)"])(
  "work of the host on long text counts by its length: %s",
  (code) => {
    const engine = makeEngine(MANY_STEPS);
    const long = 'local long = "1" for i = 1, 20 do long = long .. long end';
    const result = failure(`${long} for i = 1, 100 do pcall(function() ${code} end) end`, engine);
    expect(result).toMatchObject({ code: "budget_exceeded", details: { kind: "instructions" } });
  },
);

test("a message names no more than a part of what is long", () => {
  const code = "local long = ('a'):rep(1000000) return #select(2, pcall(function() math[long] = 1 end))";
  expect(evaluate(code)).toBeLessThan(3_000);
});

describe("memory", () => {
  const engine = makeEngine({ limits: { memoryBytesMax: 1024 * 1024 } });
  test("of one string has a cap, which is an ordinary error", () => {
    const small = makeEngine({ limits: { stringBytesMax: 1_000 } });
    for (const code of [
      "('x'):rep(1001)",
      "local s = ('x'):rep(600) return s .. s",
      "string.format(('y'):rep(501), 1) .. ('z'):rep(900)",
    ]) {
      expect(
        evaluate(
          `local ok, e = pcall(function() return ${code.replace("return ", "").replace("local s = ('x'):rep(600) s .. s", "(('x'):rep(600)) .. (('x'):rep(600))")} end) return ok`,
          small,
        ),
      ).toBe(false);
    }
  });

  test("does not count rows that a loop over each has left behind", () => {
    const host = new FakeHost();
    const row = ["x".repeat(200)];
    host.rows = { columns: ["text"], rows: Array.from({ length: 20_000 }, () => row) };
    expect(
      evaluate("local n = 0 for row in state.sql.each('SELECT') do n = n + #row.text end return n", engine, host),
    ).toBe(4_000_000);
  });
});

test("recursion within the bound is fine", () => {
  expect(evaluate("local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(150)")).toBe(150);
});

test("a deep bound still ends in an error and never takes the process", () => {
  const engine = makeEngine({ limits: { callDepthMax: 100_000, instructionsMax: 10_000_000 } });
  for (const code of [
    "local function f() return 1 + f() end return f()",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) return t[1]",
  ]) {
    expect(failure(code, engine)).toBeInstanceOf(MoonportError);
  }
  expect(evaluate("return 1", engine)).toBe(1);
});

test("a call given up between slices leaves the engine as it was", () => {
  const engine = makeEngine({ clock: new SteppingClock(10) });
  const thing = loadThing("function Thing:go() for row in state.sql.each('x') do while true do end end end", engine);
  const host = new FakeHost();
  host.rows = { columns: ["a"], rows: [[1]] };
  const invocation = thing.start({ kind: "method", name: "go" }, [], host);
  expect(invocation.resume().kind).toBe("slice");
  expect(host.cursorsOpen).toBe(1);
  invocation.abandon();
  expect(host.cursorsOpen).toBe(0);
  expect(evaluate("return 1", engine)).toBe(1);
});

test("a kill inside a host error's handling is still a kill", () => {
  const host = new FakeHost();
  host.failure = MoonportError.of("sql_error", "no such table");
  const engine = makeEngine(MANY_STEPS);
  const thing = loadThing(
    "function Thing:go() xpcall(state.sql.exec, function(e) while true do end end, 'x') return 'survived' end",
    engine,
  );
  expect(step(thing, "go", [], host)).toMatchObject({ kind: "failed", error: { code: "budget_exceeded" } });
  expect(run(loadThing("function Thing:go() return 1 end", engine), "go")).toBe(1);
});

test("time that host calls take is noticed long before a thousand instructions", () => {
  const clock = new SteppingClock();
  const engine = makeEngine({ clock, limits: { methodBudgetMs: 100, sliceMs: 1_000 } });
  const host = new FakeHost();
  let calls = 0;
  host.storeSet = () => {
    calls += 1;
    clock.nowMs += 20;
  };
  expect(failure("for i = 1, 100 do state.store.set('a', i) end", engine, host)).toMatchObject({
    code: "budget_exceeded",
  });
  expect(calls).toBeLessThan(20);
});
