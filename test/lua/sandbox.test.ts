import { describe, expect, test } from "vitest";
import { evaluate, FakeHost, failure, loadThing, makeEngine, run } from "./support/fake-host.js";

describe("a class cannot reach", () => {
  test.each(["io", "debug", "package", "load", "loadstring", "loadfile", "dofile", "collectgarbage", "_G"])(
    "%s, and is told why",
    (name) => {
      expect(failure(`return ${name}`).message).toContain(`'${name}' is not there: `);
    },
  );

  test("string.dump, os.exit, os.execute, os.getenv, os.remove", () => {
    expect(
      evaluate("return { string.dump == nil, os.exit == nil, os.execute == nil, os.getenv == nil, os.remove == nil }"),
    ).toEqual([true, true, true, true, true]);
  });

  test("the metatable of strings", () => {
    expect(evaluate("return getmetatable(''), ('x'):upper()")).toEqual([false, "X"]);
    expect(failure("setmetatable('', {})").message).toContain("bad argument");
  });
});

describe("what is shared is frozen", () => {
  test("a global is refused, with what to write instead", () => {
    expect(failure("count = 1").message).toBe(
      "classes/Thing.lua:1: assignment to the global 'count': write `local count`, and keep what must last in state.store or state.sql",
    );
    expect(failure("function helper() end").message).toContain("assignment to the global 'helper'");
    expect(failure("print = nil").message).toContain("assignment to the global 'print'");
    expect(failure("_ENV.count = 1").message).toContain("assignment to the global 'count'");
  });

  test("a global that nobody set is a mistake, answered with the nearest", () => {
    expect(failure("return Auctoin('x')").message).toBe(
      "classes/Thing.lua:1: no global is called 'Auctoin'; did you mean 'Auction'?",
    );
    expect(failure("return zzz").message).toBe("classes/Thing.lua:1: no global is called 'zzz'");
  });

  test("globals, locals and tables of the class file work while it loads, and stay as it left them", () => {
    const thing = loadThing(`
      function helper(n) return n * limits.step end
      limits = { step = 10, list = { 1 } }
      local known = { a = 1 }
      function Thing:go() return helper(2), known.a end
      function Thing:global() limits.step = 11 end
      function Thing:deep() limits.list[2] = 2 end
      function Thing:kept() known.b = 2 end
      function Thing:raw() rawset(known, "b", 2) end
      function Thing:insert() table.insert(limits.list, 2) end
      function Thing:remove() table.remove(limits.list) end
    `);
    expect(run(thing, "go")).toEqual([20, 1]);
    for (const method of ["global", "deep", "kept", "raw", "insert", "remove"]) {
      expect(() => run(thing, method)).toThrow("shared by all objects and cannot be changed by a call");
    }
    expect(run(thing, "go")).toEqual([20, 1]);
  });

  test("one class's globals are not another's", () => {
    const engine = makeEngine();
    loadThing("secret = 1", engine);
    expect(failure("return secret", engine).message).toContain("no global is called 'secret'");
  });

  test("a table made by the call is the call's own", () => {
    expect(
      evaluate(
        "local t = {} rawset(t, 'a', 1) t.b = 2 setmetatable(t, { __index = { c = 3 } }) return t.a + t.b + t.c",
      ),
    ).toBe(6);
  });
});

describe("coroutines of a class", () => {
  test("work, and the method itself is not one", () => {
    expect(
      evaluate(`
        local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
        local main, isMain = coroutine.running()
        local ok1, one = coroutine.resume(co, 1)
        local ok2, two = coroutine.resume(co, 5)
        return one, two, coroutine.status(co), isMain, coroutine.isyieldable(), (coroutine.resume(co))`),
    ).toEqual([2, 10, "dead", true, false, false]);
    expect(failure("coroutine.yield(1)").message).toContain("attempt to yield from outside a coroutine");
    expect(evaluate("return coroutine.resume(coroutine.running())")).toEqual([
      false,
      "cannot resume non-suspended coroutine",
    ]);
    expect(failure("local f f = coroutine.wrap(function() f() end) f()").message).toContain("non-suspended coroutine");
    expect(failure("coroutine.wrap(1)").message).toContain("coroutine.wrap(f) takes a function");
    expect(failure("coroutine.resume(print)").message).toContain("coroutine.resume(co) takes a coroutine");
    expect(
      evaluate(`local co co = coroutine.create(function()
        local inner = coroutine.create(function() return coroutine.status(co) end)
        return coroutine.resume(inner)
      end) return coroutine.resume(co)`),
    ).toEqual([true, true, "normal"]);
    expect(
      evaluate(
        "return coroutine.wrap(function() return coroutine.isyieldable(), select(2, coroutine.running()) end)()",
      ),
    ).toEqual([true, false]);
  });

  test("cannot yield where Lua cannot stand still, and say so", () => {
    expect(
      failure("coroutine.wrap(function() ('x'):gsub('x', function() coroutine.yield() end) end)()").message,
    ).toContain("attempt to yield inside a comparison of table.sort, a function given to gsub, or a metamethod");
  });
});

describe("randomness and time are the call's", () => {
  test("random draws from the host", () => {
    expect(evaluate("math.randomseed(1) return random(), math.random(10), math.random(5, 6), random(-3, -1)")).toEqual([
      0.5, 6, 6, -2,
    ]);
    expect(failure("random(0)").message).toContain("the interval is empty");
    expect(failure("random('x')").message).toContain("random takes whole numbers");
  });

  test("os tells the call's time in UTC", () => {
    const host = new FakeHost();
    host.startedMs = Date.UTC(2024, 1, 29, 13, 5, 9) + 250;
    expect(
      evaluate(
        `return os.time(), os.clock() == now(), os.date("%Y-%m-%d %H:%M:%S"), os.date("!%A %d %B %y %I %p %j %w %%"),
          os.date("%c"), os.date("*t").yday, os.date("*t", 0).wday, os.time { year = 1970, month = 1, day = 2, hour = 0 },
          os.time { year = 2023, month = 14, day = 31 }, os.difftime(5, 3)`,
        undefined,
        host,
      ),
    ).toEqual([
      1_709_211_909,
      true,
      "2024-02-29 13:05:09",
      "Thursday 29 February 24 01 PM 060 4 %",
      "Thu Feb 29 13:05:09 2024",
      60,
      5,
      86_400,
      Date.UTC(2024, 2, 2, 12) / 1_000,
      2,
    ]);
    // As in Lua 5.3: what string.match finds in a date is text.
    const found = 'local y, m, d = ("2023-03-02"):match("(%d+)-(%d+)-(%d+)")';
    expect(evaluate(`${found} return os.time { year = y, month = m, day = d }`)).toBe(Date.UTC(2023, 2, 2, 12) / 1_000);
    expect(failure("os.time { year = '20x', month = 1, day = 1 }").message).toContain("'year' must be a whole number");
    expect(failure("os.date('%Q')").message).toContain("unknown conversion");
    expect(failure("os.date(('%c'):rep(501))").message).toContain("a format has 1000 characters at most");
    expect(failure("os.time {}").message).toContain("field 'year' must be a whole number");
  });

  test("calendar arithmetic agrees with the platform's over 4,000 years", () => {
    const thing = loadThing(
      "function Thing:go(t) local d = os.date('*t', t) return os.date('%F %T', t), os.time(d), d.yday end",
    );
    for (let day = -200_000; day < 900_000; day += 9_973) {
      const seconds = day * 86_400 + 86_399;
      const date = new Date(seconds * 1_000);
      const yearDay = Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
      const text = date.toISOString().slice(0, 19).replace("T", " ");
      expect(run(thing, "go", [seconds])).toEqual([text, seconds, yearDay]);
    }
  });
});
