import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PlainValue } from "../../src/values.js";
import { FakeHost, loadThing, makeEngine, SteppingClock } from "./support/fake-host.js";

/** Everything that keeps state on Lua's stack: calls, varargs, open results, metamethods, pcall, iterators, concat. */
const PROGRAM = `
  local mt = {
    __index = function(t, k) return k .. "?" end,
    __add = function(a, b) return a.n + (type(b) == "table" and b.n or b) end,
    __lt = function(a, b) return a.n < b.n end,
    __le = function(a, b) return a.n <= b.n end,
    __eq = function(a, b) return a.n == b.n end,
    __concat = function(a, b) return "<" .. (type(a) == "table" and a.n or a) .. "," .. (type(b) == "table" and b.n or b) .. ">" end,
    __len = function(t) return t.n end,
    __call = function(t, x, y) return x, y, t.n end,
    __unm = function(t) return -t.n end,
  }
  local function box(n) return setmetatable({ n = n }, mt) end
  local function many(...) return ... end
  local function sum(...) local s = 0 for _, v in ipairs({ ... }) do s = s + v end return s, select("#", ...) end
  function Thing:go(n)
    local out = {}
    local function add(...) for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...))) end end
    add(sum(many(1, 2, many(3, 4), many(5, 6))))
    local a, b = box(3), box(4)
    add(a + b, a + 1, a < b, a <= b, b <= a, a == box(3), a .. b .. "x" .. "y", "p" .. "q" .. a, #a, -b, a.missing)
    add(a(1, 2))
    add(pcall(function() add("in") error({ code = "x" }) end))
    add(pcall(function(...) return select("#", ...), ... end, 1, nil, 3))
    add(xpcall(function() error("bad") end, function(e) return "handled " .. e end))
    local co = coroutine.wrap(function(x) for i = 1, 3 do x = coroutine.yield(x * i) + 1 end return "end" end)
    add(co(2), co(3), co(4), co(5))
    for k, v in pairs({ x = 1, y = { z = 2 } }) do add(k, type(v)) end
    for word in ("one two"):gmatch("%a+") do add(word) end
    local t = { 5, 3, 9, 1 }
    table.sort(t, function(p, q) return p > q end)
    add(table.unpack(t))
    add((("abc"):gsub("%a", function(c) return c:upper() .. n end)))
    local fns = {}
    for i = 1, 3 do local v = i fns[i] = function() v = v + 1 return v end end
    add(fns[1](), fns[1](), fns[2](), fns[3]())
    local i = 0
    while true do i = i + 1 if i % 2 == 0 then goto continue end if i > 7 then break end add(i) ::continue:: end
    repeat local z = i i = i - 1 until z < 3
    state.store.set("n", n) emit("e", { n = n })
    return out, state.store.get("n")
  end
  function Thing:error(n) local t = {} for i = 1, n do t[i] = i end error { code = "late", sum = #t } end
`;

/** Runs through without a pause. */
function whole(): PlainValue {
  const result = loadThing(PROGRAM).start({ kind: "method", name: "go" }, [7], new FakeHost()).resume();
  if (result.kind !== "returned") throw new Error(JSON.stringify(result));
  return result.value;
}

/** Put aside at every `k`-th instruction where Lua can stand still. */
function inSlices(k: number, method = "go", args: readonly PlainValue[] = [7]) {
  const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: k, limits: { methodBudgetMs: 1e12 } });
  const invocation = loadThing(PROGRAM, engine).start({ kind: "method", name: method }, args, new FakeHost());
  let slices = 0;
  for (;;) {
    const result = invocation.resume();
    if (result.kind !== "slice") return { result, slices };
    slices += 1;
  }
}

describe("a method put aside", () => {
  test("at every single instruction gives the same result", () => {
    const { result, slices } = inSlices(1);
    expect(result).toEqual({ kind: "returned", value: whole() });
    expect(slices).toBeGreaterThan(300);
  });

  test("at every k-th instruction gives the same result", () => {
    const expected = whole();
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 60 }), (k) => {
        expect(inSlices(k).result).toEqual({ kind: "returned", value: expected });
      }),
      { numRuns: 30 },
    );
  });

  test("fails the same way", () => {
    const { result, slices } = inSlices(3, "error", [50]);
    expect(result).toMatchObject({ kind: "failed", error: { code: "late", details: { sum: 50 } } });
    expect(slices).toBeGreaterThan(20);
  });

  test("leaves others their turn in the same engine", () => {
    const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: 5 });
    const thing = loadThing(
      "function Thing:go(n) local s = 0 for i = 1, n do s = s + i end return s, self.key end",
      engine,
    );
    const waiting = [10, 20, 30].map((n) => thing.start({ kind: "method", name: "go" }, [n], new FakeHost()));
    const values: PlainValue[] = [];
    while (waiting.length > 0) {
      const invocation = waiting.shift();
      const result = invocation?.resume();
      if (result?.kind === "slice" && invocation) waiting.push(invocation);
      if (result?.kind === "returned") values.push(result.value);
    }
    expect(values).toEqual([
      [55, "one"],
      [210, "one"],
      [465, "one"],
    ]);
  });

  test("inside a coroutine of the class goes on there, and its resume never sees it", () => {
    const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: 1, limits: { methodBudgetMs: 1e12 } });
    const code = `function Thing:go()
      local inner = coroutine.wrap(function(n) for i = 1, 3 do n = coroutine.yield(n + i) end error({ code = "inner", n = n }) end)
      local co = coroutine.create(function(...)
        local s = select("#", ...)
        for i = 1, 20 do s = s + i end
        local got = { coroutine.yield(s, inner(1), coroutine.isyieldable()) }
        local ok, e = pcall(function() inner(2) inner(3) inner(4) end)
        return got[1], got[2], ok, e.code, e.n
      end)
      local log = { coroutine.status(co) }
      local function note(...) for i = 1, select("#", ...) do log[#log + 1] = tostring((select(i, ...))) end end
      note(coroutine.resume(co, "a", "b", "c"))
      note(coroutine.status(co))
      note(coroutine.resume(co, "x", "y"))
      note(coroutine.status(co), coroutine.resume(co))
      note(coroutine.resume(coroutine.create(function() error("bad") end)))
      return log
    end`;
    const invocation = loadThing(code, engine).start({ kind: "method", name: "go" }, [], new FakeHost());
    let slices = 0;
    let result = invocation.resume();
    for (; result.kind === "slice"; slices++) result = invocation.resume();
    const direct = loadThing(code).start({ kind: "method", name: "go" }, [], new FakeHost()).resume();
    expect(result).toEqual(direct);
    expect(result).toEqual({
      kind: "returned",
      value: [
        ...["suspended", "true", "213", "2", "true", "suspended"],
        ...["true", "x", "y", "false", "inner", "4"],
        ...["dead", "false", "cannot resume dead coroutine"],
        ...["false", "classes/Thing.lua:16: bad"],
      ],
    });
    expect(slices).toBeGreaterThan(150);
  });

  test("waits until a comparison of table.sort is done", () => {
    const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: 1, limits: { methodBudgetMs: 1e12 } });
    const code = `function Thing:go()
      local t = { 5, 2, 8, 1 }
      table.sort(t, function(a, b) local x = 0 for i = 1, 50 do x = x + i end return a < b end)
      return t
    end`;
    const invocation = loadThing(code, engine).start({ kind: "method", name: "go" }, [], new FakeHost());
    let slices = 0;
    let result = invocation.resume();
    for (; result.kind === "slice"; slices++) result = invocation.resume();
    expect(result).toEqual({ kind: "returned", value: [1, 2, 5, 8] });
    expect(slices).toBeLessThan(40);
  });

  test("inside a coroutine can still be killed and given up", () => {
    const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: 10, limits: { methodBudgetMs: 600 } });
    const thing = loadThing("function Thing:go() coroutine.wrap(function() while true do end end)() end", engine);
    const first = thing.start({ kind: "method", name: "go" }, [], new FakeHost());
    let result = first.resume();
    while (result.kind === "slice") result = first.resume();
    expect(result).toMatchObject({ kind: "failed", error: { details: { kind: "time" } } });
    const second = thing.start({ kind: "method", name: "go" }, [], new FakeHost());
    expect(second.resume().kind).toBe("slice");
    second.abandon();
  });
});
