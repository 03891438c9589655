import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import {
  evaluate,
  FakeHost,
  failure,
  type LogLine,
  loadThing,
  makeEngine,
  recordingLogger,
  run,
  step,
} from "./support/fake-host.js";

function thrown(code: string): MoonportError {
  return failure(code) as MoonportError;
}

describe("what a class throws", () => {
  test("as text reaches the caller with file and line", () => {
    const thing = loadThing("\n\nfunction Thing:go()\n  error('no bids')\nend");
    expect(step(thing, "go")).toMatchObject({
      kind: "failed",
      error: { code: "method_error", message: "classes/Thing.lua:4: no bids", source: "moonport" },
    });
    expect(thrown("error('bare', 0)").message).toBe("bare");
  });

  test("as a table becomes an error with its own code and fields", () => {
    expect(thrown("error { code = 'too_low', message = 'bid more', top = 3, seen = { 1, 2 } }")).toMatchObject({
      code: "too_low",
      source: "class",
      message: "bid more",
      details: { top: 3, seen: [1, 2] },
    });
    expect(thrown("error { code = 'closed' }")).toMatchObject({
      code: "closed",
      message: "closed",
      details: undefined,
    });
  });

  test("may have a code that Moonport uses too, and is told apart by its source", () => {
    expect(thrown("error { code = 'outcome_unknown', message = 'ha' }")).toMatchObject({
      code: "outcome_unknown",
      source: "class",
      retryable: false,
    });
  });

  test("is as long as a line of the log at most", () => {
    const long = 'local long = ("ä"):rep(20000)';
    for (const code of ["error(long, 0)", "error { message = long }", "error { code = 'c', message = long }"]) {
      expect(thrown(`${long} ${code}`).message).toBe(`${"ä".repeat(8_192)}...`);
    }
  });

  test("as anything else is an error all the same", () => {
    for (const value of ["nil", "true", "print", "null", "{}", "{ message = 1 }", "42"]) {
      expect(thrown(`error(${value})`).code).toBe("method_error");
    }
    expect(thrown("error { message = 'no code' }")).toMatchObject({ code: "method_error", message: "no code" });
  });

  test("with fields that cannot travel still arrives", () => {
    expect(thrown("error { code = 'odd', message = 'm', f = print }")).toMatchObject({
      code: "odd",
      details: { omitted: "error.f is a function" },
    });
  });

  test("by mistake names the line and the variable", () => {
    expect(thrown("local x = nil return x.y").message).toBe(
      "classes/Thing.lua:1: attempt to index a nil value (local 'x')",
    );
    expect(thrown("return 1 + {}").message).toBe("classes/Thing.lua:1: attempt to perform arithmetic on a table value");
    expect(thrown("return ('x'):bad()").message).toContain("attempt to call a nil value (method 'bad')");
    expect(thrown("string.rep()").message).toContain("bad argument #1 to 'rep'");
    expect(thrown("return 1 < 'x'").message).toContain("attempt to compare number with string");
  });

  test("passes through coroutines", () => {
    expect(thrown("coroutine.wrap(function() error { code = 'inner', message = 'm' } end)()")).toMatchObject({
      code: "inner",
    });
  });
});

describe("what a host function throws", () => {
  const failing = () => {
    const host = new FakeHost();
    host.failure = MoonportError.of("sql_error", "no such table: bids", { hint: "look at migrations" });
    return host;
  };

  test("comes out as the very same error when nobody catches it", () => {
    const host = failing();
    expect(failure("state.sql.exec('x')", undefined, host)).toBe(host.failure);
    expect(failure("local ok, e = pcall(state.sql.exec, 'x') error(e)", undefined, host)).toBe(host.failure);
    expect(failure("coroutine.wrap(function() state.sql.exec('x') end)()", undefined, host)).toBe(host.failure);
    expect(failure("table.sort({ 2, 1 }, function() state.sql.exec('x') end)", undefined, host)).toBe(host.failure);
  });

  test("is a table with code and message to pcall", () => {
    const code = `local ok, e = pcall(state.sql.exec, 'x')
      return ok, e.code, e.message, e.hint, tostring(e), type(e), getmetatable(e), pcall(function() e.code = 'x' end)`;
    expect(evaluate(code, undefined, failing())).toEqual([
      false,
      "sql_error",
      "no such table: bids",
      "look at migrations",
      "no such table: bids",
      "table",
      false,
      false,
      "classes/Thing.lua:2: an error cannot be changed",
    ]);
  });

  test("leaves the method running after pcall", () => {
    const host = failing();
    expect(evaluate("pcall(state.sql.exec, 'x') emit('after') return 'went on'", undefined, host)).toBe("went on");
    expect(host.events).toHaveLength(1);
  });

  test("that is no MoonportError is a fault of ours, logged with its stack", () => {
    const lines: LogLine[] = [];
    const engine = makeEngine({ engineLog: recordingLogger(lines) });
    const host = new FakeHost();
    host.failure = new TypeError("undefined is not a function");
    expect(failure("state.sql.exec('x')", engine, host)).toMatchObject({
      code: "internal",
      message: "undefined is not a function",
    });
    expect(lines.find(({ level }) => level === "error")?.fields).toEqual({ err: host.failure });
  });
});

describe("the log", () => {
  test("has the traceback and the object, and the caller has neither", () => {
    const lines: LogLine[] = [];
    const engine = makeEngine({ engineLog: recordingLogger(lines) });
    const thing = loadThing(
      "\nfunction Thing:go()\n  return self:_deep() + 1\nend\nfunction Thing:_deep()\n  error('x')\nend",
      engine,
    );
    const result = step(thing, "go");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ level: "warn", fields: { object: "default/Thing/one", code: "method_error" } });
    const traceback = String(lines[0]?.fields.traceback);
    expect(traceback).toContain("classes/Thing.lua:6: in method '_deep'");
    expect(traceback).toContain("classes/Thing.lua:3:");
    expect(JSON.stringify(result)).not.toContain("traceback");
  });

  test("notes a class's own error quietly", () => {
    const lines: LogLine[] = [];
    const engine = makeEngine({ engineLog: recordingLogger(lines) });
    failure("error { code = 'too_low', message = 'more' }", engine);
    expect(lines).toEqual([
      {
        level: "debug",
        fields: { object: "default/Thing/one", code: "too_low", at: "classes/Thing.lua:1" },
        message: "more",
      },
    ]);
  });
});

test("stack overflow in JavaScript is a Lua error, not the end of the process", () => {
  const thing = loadThing("function Thing:go() return pcall(string.rep, 'x', -1) end");
  expect(run(thing, "go")).toEqual([true, ""]);
  const nested = `return ${"(".repeat(150)}1${")".repeat(150)}`;
  expect(evaluate(nested)).toBe(1);
  expect(() => evaluate(`return ${"(".repeat(5000)}1${")".repeat(5000)}`)).toThrow("classes/Thing.lua:1");
});
