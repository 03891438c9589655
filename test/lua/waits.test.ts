import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { LuaEngine, LuaInvocation, LuaStep, UnitSource, WaitAnswer, WaitRequest } from "../../src/lua/contract.js";
import type { PlainValue } from "../../src/values.js";
import { FakeHost, loadThing, makeEngine, SteppingClock } from "./support/fake-host.js";

type Answer = (request: WaitRequest, nth: number) => WaitAnswer;

const returned = (value: PlainValue): WaitAnswer => ({ kind: "returned", value });
const failed = (error: MoonportError): WaitAnswer => ({ kind: "failed", error });
/** Answers a call with its arguments, numbered. */
const echo: Answer = (request, nth) => returned([nth, ...(request.kind === "call" ? request.args : [request.kind])]);

function drive(invocation: LuaInvocation, answer: Answer = echo): { end: LuaStep; waits: WaitRequest[] } {
  const waits: WaitRequest[] = [];
  let step = invocation.resume();
  for (;;) {
    if (step.kind === "wait") {
      waits.push(step.request);
      step = invocation.resume(answer(step.request, waits.length));
    } else if (step.kind === "slice") step = invocation.resume();
    else return { end: step, waits };
  }
}

function method(code: string, answer?: Answer, engine?: LuaEngine, host = new FakeHost()) {
  const thing = loadThing(`function Thing:go() ${code}\nend`, engine);
  return drive(thing.start({ kind: "method", name: "go" }, [], host), answer);
}

function unitSource(text: string): UnitSource {
  return { kind: "unit", app: "default", name: "sum", file: "units/sum.lua", text };
}

function unit(text: string, request: Record<string, PlainValue> = {}, answer?: Answer, engine = makeEngine()) {
  return drive(engine.loadUnit(unitSource(text), ["Auction"]).start(request, new FakeHost()), answer);
}

describe("a call to another object", () => {
  test("stands still until the answer is there", () => {
    const { end, waits } = method(`local r = Auction("lot-42"):bid("ada", { n = 25 }) return r[1], r[2], r[3].n`);
    expect(waits).toEqual([
      { kind: "call", className: "Auction", key: "lot-42", method: "bid", args: ["ada", { n: 25 }] },
    ]);
    expect(end).toEqual({ kind: "returned", value: [1, "ada", 25] });
  });

  test("is asked of the host first, which may refuse", () => {
    const host = new FakeHost();
    host.refusesToWait = MoonportError.of("call_after_write", "too late", { hint: "send" });
    const { end, waits } = method(
      `local ok, e = pcall(function() Auction("a"):bid() end) return ok, e.code, e.hint`,
      echo,
      undefined,
      host,
    );
    expect(end).toEqual({ kind: "returned", value: [false, "call_after_write", "send"] });
    expect(waits).toEqual([]);
  });

  test("waits inside pcall, xpcall, coroutines, iterators, metamethods, and as a tail call", () => {
    const code = `
      local out = {}
      local function ask(x) return Auction("a"):bid(x)[2] end
      local function note(...) for i = 1, select("#", ...) do out[#out + 1] = (select(i, ...)) end end
      note(pcall(ask, 1))
      note(xpcall(ask, function(e) return e end, 2))
      local co = coroutine.wrap(function(x) local y = coroutine.yield(ask(x)) return ask(y) end)
      note(co(3), co(4))
      local nested = coroutine.wrap(function() return coroutine.wrap(function() return (pcall(ask, 5)), ask(6) end)() end)
      note(nested())
      local function iterate(_, i) if i < 2 then return i + 1, ask(7 + i) end end
      for _, v in iterate, nil, 0 do note(v) end
      local mt = { __index = function(_, k) return ask(k) end, __add = function(a, b) return ask(b) end, __call = function(_, x) return ask(x) end }
      local t = setmetatable({}, mt)
      note(t[9], t + 10, t(11))
      return (function() return out end)()`;
    const expected = [true, 1, true, 2, 3, 4, true, 6, 7, 8, 9, 10, 11];
    expect(method(code).end).toEqual({ kind: "returned", value: expected });
    // And put aside between any two instructions besides.
    const engine = makeEngine({ clock: new SteppingClock(6), stepsPerLook: 1, limits: { methodBudgetMs: 1e12 } });
    expect(method(code, echo, engine).end).toEqual({ kind: "returned", value: expected });
  });

  test("raises what the other method threw: code, message, details", () => {
    const thrown = MoonportError.byClass("too_low", "bid more", { details: { top: 25 }, object: "default/Auction/a" });
    const refuse: Answer = () => failed(thrown);
    expect(
      method(
        `local ok, e = pcall(function() return Auction("a"):bid() end)
      return ok, e.code, e.message, e.details.top, tostring(e)`,
        refuse,
      ).end,
    ).toEqual({
      kind: "returned",
      value: [false, "too_low", "bid more", 25, "bid more"],
    });
    const { end } = method(`Auction("a"):bid()`, refuse);
    expect(end.kind === "failed" && end.error).toBe(thrown);
    const inCoroutine = method(`coroutine.wrap(function() Auction("a"):bid() end)()`, refuse).end;
    expect(inCoroutine.kind === "failed" && inCoroutine.error).toBe(thrown);
    const handled = method(
      `return select(2, xpcall(function() Auction("a"):bid() end, function(e) return "handled " .. e.code end))`,
      refuse,
    );
    expect(handled.end).toEqual({ kind: "returned", value: "handled too_low" });
  });

  test("says where it cannot wait", () => {
    const sort = `table.sort({ 2, 1, 3 }, function(a, b) Auction("a"):bid() return a < b end)`;
    const gsub = `("abc"):gsub("%a", function() Auction("a"):bid() end)`;
    const text = `tostring(setmetatable({}, { __tostring = function() Auction("a"):bid() return "x" end }))`;
    for (const code of [sort, gsub, text]) {
      const { end, waits } = method(code);
      expect(end).toMatchObject({
        kind: "failed",
        error: {
          code: "method_error",
          message: expect.stringMatching(/^classes\/Thing.lua:1: Auction\("a"\):bid waits for an answer, and nothing/),
        },
      });
      expect(waits).toEqual([]);
    }
  });

  test("wants a colon, a public method and values that can travel", () => {
    const codes = [
      [`Auction("a").bid("x")`, /write a colon before the method: Class\("key"\):bid/],
      [`Auction("a"):_close()`, /'_close' is private to Auction/],
      [`Auction("a"):Bid()`, /is no method name/],
      [`Auction("a"):bid(function() end)`, /argument 1 is a function/],
    ] as const;
    for (const [code, message] of codes) {
      const { end } = method(code);
      expect(end).toMatchObject({ kind: "failed", error: { message: expect.stringMatching(message) } });
    }
  });

  test("takes nothing from the budget while it waits, and what is used up stays so", () => {
    const clock = new SteppingClock(0);
    const engine = makeEngine({ clock, limits: { methodBudgetMs: 100 } });
    const wait: Answer = () => {
      clock.nowMs += 3_600_000;
      return returned(null);
    };
    expect(method(`for i = 1, 3 do Auction("a"):bid() end return "done"`, wait, engine).end).toEqual({
      kind: "returned",
      value: "done",
    });
    clock.stepMs = 30;
    const { end, waits } = method(`for i = 1, 100 do Auction("a"):bid() for j = 1, 2000 do end end`, wait, engine);
    expect(end).toMatchObject({ kind: "failed", error: { code: "budget_exceeded" } });
    expect(waits.length).toBeLessThan(10);
  });

  test("that is given up leaves the engine as it was", () => {
    const engine = makeEngine();
    const thing = loadThing(`function Thing:go() return Auction("a"):bid() end`, engine);
    const first = thing.start({ kind: "method", name: "go" }, [], new FakeHost());
    expect(first.resume().kind).toBe("wait");
    expect(() => first.resume()).toThrow("who waits gets an answer");
    first.abandon();
    const second = drive(thing.start({ kind: "method", name: "go" }, [], new FakeHost()), () => returned("yes"));
    expect(second.end).toEqual({ kind: "returned", value: "yes" });
  });

  test("of several at once each gets its own answer", () => {
    const engine = makeEngine();
    const thing = loadThing(`function Thing:go(n) local r = Auction("a"):bid(n) return { n, r, self.key } end`, engine);
    const open = [1, 2, 3].map((n) => thing.start({ kind: "method", name: "go" }, [n], new FakeHost()));
    for (const one of open) expect(one.resume().kind).toBe("wait");
    expect(open.map((one, index) => one.resume(returned(index * 10)))).toEqual(
      [1, 2, 3].map((n, index) => ({ kind: "returned", value: [n, index * 10, "one"] })),
    );
  });
});

describe("a unit", () => {
  test("is a function of a request", () => {
    const text = `local function double(n) return n * 2 end
      return function(request) return { n = double(request.n), who = caller.id, at = now() } end`;
    expect(unit(text, { n: 21 }).end).toEqual({
      kind: "returned",
      value: { n: 42, who: "ada", at: 1_700_000_000.25 },
    });
  });

  test("calls objects, settles and fetches", () => {
    const text = `return function(request)
      Auction("a"):bid(1)
      settle()
      local r = fetch("https://example.com/x", { json = { a = 1 }, headers = { ["X-Key"] = "k" }, timeout = "2s" })
      fetch("https://example.com/y", { method = "put", body = blob("raw") })
      fetch("https://example.com/z")
      return r
    end`;
    const { end, waits } = unit(text);
    expect(end).toEqual({ kind: "returned", value: [3, "fetch"] });
    expect(waits.map(({ kind }) => kind)).toEqual(["call", "settle", "fetch", "fetch", "fetch"]);
    expect(waits.slice(2)).toEqual([
      {
        kind: "fetch",
        url: "https://example.com/x",
        method: "POST",
        headers: { "x-key": "k", "content-type": "application/json" },
        body: '{"a":1}',
        timeoutMs: 2_000,
      },
      {
        kind: "fetch",
        url: "https://example.com/y",
        method: "PUT",
        headers: {},
        body: new Uint8Array(Buffer.from("raw")),
        timeoutMs: undefined,
      },
      {
        kind: "fetch",
        url: "https://example.com/z",
        method: "GET",
        headers: {},
        body: undefined,
        timeoutMs: undefined,
      },
    ]);
  });

  test("has no state, and is told so", () => {
    const missing = (code: string) => unit(`return function(request) ${code} end`).end;
    expect(missing("state.store.set('a', 1)")).toMatchObject({
      kind: "failed",
      error: { message: expect.stringContaining("'state' is not there: a unit has no state of its own") },
    });
    for (const name of ["emit", "schedule", "destroy"]) {
      expect(missing(`${name}()`)).toMatchObject({ kind: "failed", error: { code: "method_error" } });
    }
    expect(missing(`send(Auction("a")):bid()`)).toMatchObject({ kind: "failed", error: { code: "not_in_unit" } });
    expect(method("settle()").end).toMatchObject({
      kind: "failed",
      error: { message: expect.stringContaining("'settle' is not there: only a unit settles") },
    });
  });

  test("keeps nothing from request to request", () => {
    const load = (text: string) => () => makeEngine().loadUnit(unitSource(text), []);
    expect(load("local n = 0 return function() n = n + 1 return n end")).toThrow(/units\/sum.lua:1: 'n' is a variable/);
    expect(unit("local t = {} return function() t[1] = 1 end").end).toMatchObject({
      kind: "failed",
      error: { message: expect.stringContaining("shared by all requests") },
    });
    expect(unit("return function() count = 1 end").end).toMatchObject({
      kind: "failed",
      error: { message: expect.stringContaining("assignment to the global 'count'") },
    });
  });

  test("that is none is refused with file and line", () => {
    const refusal = (text: string): Partial<MoonportError> => {
      try {
        makeEngine().loadUnit(unitSource(text), []);
      } catch (error) {
        if (error instanceof MoonportError) return error;
      }
      throw new Error("was not refused");
    };
    expect(refusal("return 1")).toMatchObject({ code: "unit_invalid", details: { file: "units/sum.lua" } });
    expect(refusal("\nlocal x = = 1")).toMatchObject({ code: "unit_invalid", details: { line: 2 } });
    expect(refusal("error('no')")).toMatchObject({ code: "unit_invalid", message: expect.stringContaining(":1: no") });
    expect(refusal(`class "Sum"`).message).toContain("classes are in classes/");
    expect(refusal(`Auction("a"):bid()`)).toMatchObject({ code: "unit_invalid" });
  });
});
