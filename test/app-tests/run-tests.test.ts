import fs from "node:fs";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { readAppSource, readTestSources } from "../../src/app-source.js";
import { runTests, type TestResult } from "../../src/app-tests/run-tests.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { silentLogger } from "../../src/world/logger.js";
import { RealFolder } from "../../src/world/real-folder.js";
import { realWorld } from "../../src/world/real-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const Item = `
local Item = class "Item"
function Item:put(x) state.store.set("x", x) emit("put", { x = x }) return x end
function Item:who() log.info("asked") return caller.id, caller.claims and caller.claims.role end
function Item:fall() return nil + 1 end
function Item:none() end
function Item:refuse() error { code = "not_today", message = "come back", day = 3 } end
function Item:spend(n) for _ = 1, n do end return n end
function Item.read:get() return state.store.get("x") end
function Item.read:at() return now() end
return Item
`;
const unit = "return function(request) return { status = 201, body = { got = request.body, at = request.path } } end";
const BASE = { "classes/Item.lua": Item, "units/echo.lua": unit, "lib/words.lua": 'return { hello = "hello" }' };

interface More {
  readonly files?: Readonly<Record<string, string>>;
  readonly only?: string;
  readonly settings?: Readonly<Record<string, number>>;
}

/** Runs `tests/a.lua`. */
async function ran(text: string, { files = {}, only, settings = {} }: More = {}): Promise<TestResult[]> {
  const dir = temporaryFolder();
  for (const [file, content] of Object.entries({ ...BASE, "tests/a.lua": text, ...files })) {
    fs.mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    fs.writeFileSync(path.join(dir, file), content);
  }
  const folder = new RealFolder(dir);
  const scratch = temporaryFolder();
  const reported: TestResult[] = [];
  const results = await runTests({
    app: readAppSource("default", folder),
    files: readTestSources("default", folder, []),
    settings: resolveSettings(settings),
    scratch,
    world: realWorld(scratch, silentLogger),
    ...(only !== undefined && { only }),
    report: (result) => void reported.push(result),
  });
  expect(reported).toEqual(results);
  return results;
}

/** What a test with this body fails with. */
async function failureOf(body: string): Promise<TestResult["failure"]> {
  const [result] = await ran(`test("t", function()\n${body}\nend)`);
  return result?.failure;
}

describe("a test", () => {
  it("calls objects as a client does, of a node that nobody has used", async () => {
    const results = await ran(`
      test("one", function()
        expect(Item("a"):put(7)):equals(7)
        expect(Item("a"):get()):equals(7)
      end)
      test("another", function() expect(Item("a"):get()):equals(nil) end)`);
    expect(results).toEqual([
      { file: "tests/a.lua", line: 2, name: "one", said: [] },
      { file: "tests/a.lua", line: 6, name: "another", said: [] },
    ]);
  });

  it("moves the clock, and nothing else does", async () => {
    const [result] = await ran(`
      test("t", function()
        local before = now()
        local first = Item("a"):at()
        expect(first):equals(before)
        advance("1h")
        expect(now()):near(before + 3600)
        advance(0.5)
        expect(Item("a"):at()):near(before + 3600.5, 1e-6)
      end)`);
    expect(result?.failure).toBeUndefined();
  });

  it("lets timers fire and delayed messages arrive while time passes", async () => {
    const Egg = `local Egg = class "Egg"
      function Egg:boil() schedule.after("4m"):_done() send(Egg("next"), { delay = "5m" }):told() end
      function Egg:_done() emit("done") end
      function Egg:told() emit("told") end
      return Egg`;
    const [result] = await ran(
      `test("t", function()
        Egg("one"):boil()
        advance("3m")
        expect(#events("Egg/one")):equals(0)
        advance("1m")
        expect(#events("Egg/one")):equals(1)
        expect(#events("Egg/next")):equals(0)
        advance("1m")
        expect(#events("Egg/next")):equals(1)
      end)`,
      { files: { "classes/Egg.lua": Egg } },
    );
    expect(result?.failure).toBeUndefined();
  });

  it("gives a unit its headers in lower case, as a door does", async () => {
    const units = { "units/said.lua": 'return function(request) return request.headers["x-who"] end' };
    const [result] = await ran(
      'test("t", function() expect(unit("said", { headers = { ["X-Who"] = "ada" } }).body):equals("ada") end)',
      { files: units },
    );
    expect(result?.failure).toBeUndefined();
  });

  it("crashes the node: what was answered stays, and so do events", async () => {
    const [result] = await ran(`
      test("t", function()
        Item("a"):put(1)
        restart()
        expect(Item("a"):get()):equals(1)
        restart()
        Item("a"):put(2)
        expect(events("Item/a")):equals {
          { number = 1, name = "put", data = { x = 1 } },
          { number = 2, name = "put", data = { x = 2 } },
        }
        expect(#events(Item("a"))):equals(2)
        expect(events("Item/b")):equals {}
      end)`);
    expect(result?.failure).toBeUndefined();
  });

  it("runs units, is somebody, and requires modules", async () => {
    const [result] = await ran(`
      local words = require("words")
      test("t", function()
        expect(unit("echo", { body = { a = words.hello }, path = "/x" })):equals {
          status = 201,
          headers = { ["content-type"] = "application/json; charset=utf-8" },
          body = { got = { a = "hello" }, at = "/x" },
        }
        call_as { id = "ada", claims = { role = "admin" } }
        expect(Item("a"):who()):equals { "ada", "admin" }
        call_as {}
        expect(Item("a"):who()):equals(array { null, null })
      end)`);
    expect(result?.failure).toBeUndefined();
  });

  it("leaves nothing to the next, not even in variables of its file", async () => {
    const one = 'test("N", function() count = count + 1 expect(count):equals(1) end)\n';
    const results = await ran(`local count = 0\n${one.replace("N", "one")}${one.replace("N", "two")}`);
    expect(results.map(({ failure }) => failure)).toEqual([undefined, undefined]);
  });

  it("is picked by its name", async () => {
    const text = 'test("a bid", function() end) test("a close", function() end)';
    expect((await ran(text, { only: "bid" })).map(({ name }) => name)).toEqual(["a bid"]);
  });
});

describe("what fails", () => {
  it.each([
    ["equals", "expect(1):equals(2)", "2", "1"],
    [
      "equals, of tables",
      'expect({ a = { 1, 2 }, ["b c"] = true }):equals { a = { 1 } }',
      "{ a = { 1 } }",
      '{ a = { 1, 2 }, ["b c"] = true }',
    ],
    ["equals, of text and a number", 'expect("1"):equals(1)', "1", '"1"'],
    ["equals, of nothing", "expect(Item('a'):none()):equals(false)", "false", "nil"],
    ["equals, of a function", "expect(print):equals(tostring)", "a function", "a function"],
    ["differs", "expect({ 1 }):differs { 1 }", "anything but { 1 }", "{ 1 }"],
    ["near", "expect(0.5):near(0.3, 0.1)", "0.3 within 0.1", "0.5"],
    ["near, of no number", 'expect("x"):near(1)', "1 within 1e-9", '"x"'],
    ["truthy", "expect(null):truthy()", "a value", "nil"],
    ["falsy", "expect(0):falsy()", "nil or false", "0"],
    ["matches", 'expect("moon"):matches("^x")', 'text like "^x"', '"moon"'],
    ["fails, of what does not", "expect(function() return 7 end):fails()", "an error", "it returned 7"],
    [
      "fails, otherwise",
      'expect(function() Item("a"):refuse() end):fails("other")',
      'the error "other"',
      '"not_today": come back',
    ],
    ["fails, with text", 'expect(function() error("oh", 0) end):fails("other")', 'the error "other"', "oh"],
  ])("%s tells the line, what was expected and what came", async (_what, code, expected, got) => {
    expect(await failureOf(`local x = 1\n${code}`)).toMatchObject({
      code: "expectation_failed",
      at: "tests/a.lua:3",
      expected,
      got,
    });
  });

  it.each([
    "expect(1):equals(1.0)",
    'expect("a"):equals("a")',
    "expect({}):equals(array {})",
    'expect(blob("a")):equals(blob("a"))',
    "expect(0.1 + 0.2):near(0.3)",
    "expect(0):truthy() expect(nil):falsy() expect(false):falsy()",
    'expect(print):equals(print) expect(1):differs("1")',
    'expect("moon"):matches("oo")',
    'local e = expect(function() Item("a"):refuse() end):fails("not_today") expect(e.details.day):equals(3)',
    'expect(function() error("oh") end):fails()',
    'expect(function() Item("a"):nothing() end):fails("method_not_found")',
  ])("and what does not: %s", async (code) => {
    expect(await failureOf(code)).toBeUndefined();
  });

  it("an error of a class, with its code, where the test called it, and the class's traceback beside", async () => {
    const [result] = await ran('\ntest("t", function()\n  local x\n  Item("a"):fall()\nend)');
    expect(result?.failure).toMatchObject({
      code: "method_error",
      at: "tests/a.lua:4",
      message: expect.stringMatching(/^classes\/Item.lua:5: attempt to perform arithmetic/),
    });
    expect(result?.said[0]).toContain("stack traceback");
    expect(await failureOf("Item('a'):refuse()")).toMatchObject({ code: "not_today", message: "come back" });
  });

  it("a mistake of the test itself, also in a function of its file", async () => {
    const [result] = await ran(
      'local function help()\n  local x\n  return x.y\nend\ntest("t", function()\n  help()\nend)',
    );
    expect(result?.failure).toMatchObject({ at: "tests/a.lua:3", message: expect.stringMatching(/^attempt to index/) });
  });

  it("a misspelled word, with the right one", async () => {
    expect((await failureOf("expect(1):equal(1)"))?.message).toContain("expect(value) has no 'equal': equals,");
    expect((await failureOf("expect(1).equals(1)"))?.message).toContain("write a colon: expect(value):equals(...)");
    expect((await failureOf("advanse(1)"))?.message).toContain("did you mean 'advance'?");
    expect((await failureOf("state.store.get('x')"))?.message).toContain("a test looks at objects from outside");
    expect((await failureOf('advance("soon")'))?.message).toContain("a duration is seconds, or text");
    expect((await failureOf('events("Item")'))?.message).toContain("write Class/key");
    expect((await failureOf('test("x", function() end)'))?.message).toContain("for the top of a file");
  });

  it("a test that never ends, and the others go on", async () => {
    const results = await ran('test("a", function() Item("a"):spend(1e12) end) test("b", function() end)', {
      settings: { METHOD_INSTRUCTIONS_MAX: 1_000_000 },
    });
    expect(results.map(({ failure }) => failure?.code)).toEqual(["budget_exceeded", undefined]);
  });

  it.each([
    ["a file that does not compile", "test(", /^tests\/a.lua:1: unexpected symbol/],
    ["a file that fails at its top", "\noops()", /^tests\/a.lua:2: no global is called 'oops'/],
    ["two tests of one name", 'test("t", print)', /argument 2 must be a function/],
    [
      "two tests of one name",
      'test("t", function() end)\ntest("t", function() end)',
      /^tests\/a.lua:2: a test above is called "t", too/,
    ],
    ["a question at its top", 'advance("1h")', /can only be used inside/],
  ])("%s stops the run", async (_what, text, message) => {
    await expect(ran(text)).rejects.toMatchObject({ code: "class_invalid", message: expect.stringMatching(message) });
  });

  it("an app whose class does not load stops the run", async () => {
    const files = { "classes/Bad.lua": "oops" };
    await expect(ran('test("t", function() end)', { files })).rejects.toMatchObject({ code: "class_invalid" });
  });
});

it("leaves no file behind and no test waits in real time", async () => {
  const before = fs.readdirSync(".").length;
  onTestFinished(() => expect(fs.readdirSync(".").length).toBe(before));
  const text = Array.from(
    { length: 20 },
    (_, n) => `test("t${n}", function() Item("a"):put(${n}) advance("1d") restart() end)`,
  );
  const results = await ran(text.join("\n"));
  expect(results.filter(({ failure }) => failure === undefined)).toHaveLength(20);
});
