import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { LuaEngine } from "../../src/lua/contract.js";
import { evaluate, FakeHost, failure, loadThing, makeEngine, run, SteppingClock, step } from "./support/fake-host.js";

const MANY_STEPS = { limits: { instructionsMax: 200_000 } };

function killKind(code: string, engine: LuaEngine = makeEngine(MANY_STEPS)): unknown {
  const error = failure(code, engine) as MoonportError;
  expect(error.code).toBe("budget_exceeded");
  // The engine and the class stay usable.
  expect(evaluate("return 'fine'", engine)).toBe("fine");
  return error.details;
}

describe("a method that runs for ever is killed", () => {
  test.each([
    ["in a plain loop", "while true do end"],
    ["inside pcall, again and again", "while true do pcall(function() while true do end end) end"],
    ["after a caught error", "pcall(error) while true do end"],
    [
      "inside xpcall with a handler that loops",
      "xpcall(function() while true do end end, function() while true do end end)",
    ],
    ["inside an error handler", "xpcall(error, function() while true do end end)"],
    ["inside a coroutine", "coroutine.wrap(function() while true do end end)()"],
    ["in many short coroutines", "while true do coroutine.wrap(function() end)() end"],
    ["in coroutines inside pcall", "while true do pcall(coroutine.wrap(function() while true do end end)) end"],
    ["in a metamethod", "local t = setmetatable({}, { __index = function() while true do end end }) return t.x"],
    ["in a comparison", "table.sort({ 3, 2, 1 }, function() while true do end end)"],
    ["in gsub's function", "('x'):gsub('x', function() while true do end end)"],
    ["in __tostring", "tostring(setmetatable({}, { __tostring = function() while true do end end }))"],
    ["in an iterator", "for _ in function() return 1 end do end"],
    ["in a backtracking pattern", "local s = ('a'):rep(28) return (s):find(('a?'):rep(28) .. 'b')"],
    ["in table.move over nothing", "table.move({}, 1, 2000000000, 2, {})"],
    [
      "in table.concat over a lying length",
      "table.concat(setmetatable({}, { __len = function() return 2147483646 end, __index = function() return '' end }))",
    ],
    ["in string.rep of nothing", "(''):rep(2000000000)"],
    ["in goto", "::top:: goto top"],
    ["by calling itself in tail position", "local function f() return f() end return f()"],
  ])("%s", (_name, code) => {
    expect(killKind(code)).toEqual({ kind: "instructions" });
  });

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

describe("memory", () => {
  const engine = makeEngine({ limits: { memoryBytesMax: 1024 * 1024 } });
  test.each([
    ["in tables", "local t = {} for i = 1, 1e9 do t[i] = {} end"],
    ["in entries", "local t = {} for i = 1, 1e9 do t[i] = i end"],
    ["in strings", "local t = {} for i = 1, 1e9 do t[i % 2] = ('x'):rep(1000) .. i end"],
    ["in closures", "local f = nil for i = 1, 1e9 do local g = f f = function() return g end end"],
    ["in coroutines", "local t = {} for i = 1, 1e9 do t[i % 2] = coroutine.create(print) end"],
    ["in decoded JSON", "local s = '[' .. ('1,'):rep(100000) .. '1]' return json.decode(s)"],
    ["caught by pcall or not", "while true do pcall(string.rep, 'x', 500000) end"],
  ])("is bounded: %s", (_name, code) => {
    expect(killKind(code, engine)).toEqual({ kind: "memory" });
  });

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

test("deep recursion is killed, also through coroutines, metamethods and pcall", () => {
  for (const code of [
    "local function f() return 1 + f() end return f()",
    "local function f() pcall(f) return 1 end return f()",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) return t[1]",
  ]) {
    expect(killKind(code)).toEqual({ kind: "depth" });
  }
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
