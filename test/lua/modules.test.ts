import { describe, expect, it } from "vitest";
import type { LuaClass, LuaEngine, LuaModules, ModuleSource } from "../../src/lua/contract.js";
import { FakeHost, makeEngine, run, step } from "./support/fake-host.js";

const sourceOf = ([name, text]: readonly [string, string]): ModuleSource => {
  return { kind: "module", app: "default", name, file: `lib/${name.replaceAll(".", "/")}.lua`, text };
};

class App {
  readonly modules: LuaModules;

  constructor(
    lib: Readonly<Record<string, string>>,
    readonly engine: LuaEngine = makeEngine(),
  ) {
    this.modules = this.engine.loadModules(Object.entries(lib).map(sourceOf), ["Auction"]);
  }

  thing(body: string): LuaClass {
    const text = `local Thing = class "Thing"\n${body}\nreturn Thing\n`;
    const source = { app: "default", name: "Thing", file: "classes/Thing.lua", text };
    return this.engine.loadClass(source, ["Auction"], this.modules);
  }

  /** The value of code in a method. */
  evaluate(code: string): unknown {
    return run(this.thing(`function Thing:go() ${code}\nend`), "go");
  }

  faults(): string[] {
    return this.modules.faults.map(({ error }) => `${error.code} ${error.message}`);
  }
}

const MONEY = `
local money = { digits = 2 }
function money.show(cents) return string.format("%.2f", cents / 100) end
return money
`;

describe("a module", () => {
  it("is the same value for every file, at a file's top and inside a method, nested folders by dots", () => {
    const app = new App({
      money: MONEY,
      "money.rates": 'local money = require("money") return { eur = 1, money = money }',
    });
    expect(app.faults()).toEqual([]);
    const thing = app.thing(`
      local money = require "money"
      function Thing:show() return money.show(1234) end
      function Thing:same() return require("money.rates").money == money end`);
    expect(run(thing, "show")).toBe("12.34");
    expect(run(thing, "same")).toBe(true);
  });

  it("runs its top once, whoever asks first", () => {
    const app = new App({
      a: 'return { b = require("b"), c = require("c") }',
      b: 'return { c = require("c") }',
      c: "return {}",
    });
    expect(app.evaluate('local a = require("a") return a.c == a.b.c and a.c == require("c")')).toBe(true);
  });

  it("may return any value but nothing", () => {
    const app = new App({ limit: "return 7", off: "return false", shout: "return string.upper", empty: "local x = 1" });
    expect(app.evaluate('return require("limit"), require("off"), require("shout")("a")')).toEqual([7, false, "A"]);
    expect(app.faults()).toEqual(["class_invalid lib/empty.lua: returns nothing"]);
  });

  it.each([
    ["its table", 'require("m").x = 1', "what a module returns is shared"],
    ["a table in it", 'require("m").inner.x = 1', "what a module returns is shared"],
    ["its table, by rawset", 'rawset(require("m"), "x", 1)', "what a module returns is shared"],
    ["its table, by table.insert", 'table.insert(require("m").list, 1)', "what a module returns is shared"],
    ["its metatable", 'setmetatable(require("m"), {})', "what a module returns is shared"],
    ["a global of its file", 'require("m").leak()', "assignment to the global 'leaked'"],
  ])("keeps nothing from call to call: %s", (_what, code, message) => {
    const app = new App({ m: "return { inner = {}, list = {}, leak = function() leaked = 1 end }" });
    expect(app.faults()).toEqual([]);
    expect(() => app.evaluate(code)).toThrow(message);
  });

  it("cannot be changed by the top of the file that requires it", () => {
    const app = new App({ m: "return {}", n: 'local m = require("m") m.x = 1 return m' });
    expect(app.faults()).toEqual([expect.stringContaining("lib/n.lua:1: x: what a module returns is shared")]);
    expect(() => app.thing('require("m").x = 1')).toThrow("classes/Thing.lua:2: x: what a module returns is shared");
  });

  it("has no variable that its functions assign to, and no coroutine", () => {
    const app = new App({
      count: "local n = 0\nreturn function()\n  n = n + 1\n  return n\nend",
      going: "return { co = coroutine.wrap(function() end) }",
    });
    expect(app.faults()).toEqual([
      expect.stringContaining("lib/count.lua:3: 'n' is a variable of the file"),
      expect.stringContaining("lib/going.lua: keeps a coroutine"),
    ]);
  });

  it("uses state and effects of the call it runs in, and says what a call has not", () => {
    const app = new App({
      tally: `
        local M = {}
        function M.put(x) state.store.set("x", x) emit("put", x) end
        function M.ask(url) return fetch(url) end
        return M`,
    });
    const host = new FakeHost();
    run(app.thing('function Thing:go() require("tally").put(7) end'), "go", [], host);
    expect([host.store.get("x"), host.events]).toEqual([7, [{ event: "put", data: 7 }]]);
    expect(() => app.evaluate('require("tally").ask("http://a")')).toThrow("'fetch' is not for methods");
    const unit = app.engine.loadUnit(
      {
        kind: "unit",
        app: "default",
        name: "u",
        file: "units/u.lua",
        text: 'local tally = require "tally"\nreturn function(r) if r.ask then return tally.ask("http://a") end tally.put(1) end',
      },
      [],
      app.modules,
    );
    expect(unit.start({}, host).resume()).toMatchObject({ kind: "failed", error: { code: "not_in_unit" } });
    expect(unit.start({ ask: true }, host).resume()).toMatchObject({ kind: "wait", request: { url: "http://a" } });
  });

  it("does nothing outside while it loads", () => {
    const app = new App({ early: 'state.store.set("x", 1) return {}' });
    expect(app.faults()[0]).toContain("can only be used inside a method");
  });
});

describe("what goes wrong", () => {
  it("is told with file and line, through every file that requires it", () => {
    const app = new App({
      deep: "local x = nil\nreturn x.y",
      middle: '\nreturn require("deep")',
      syntax: "return {\n  1,,\n}",
    });
    expect(app.faults()).toEqual([
      expect.stringMatching(/^class_invalid lib\/deep.lua:2: attempt to index a nil value/),
      expect.stringMatching(/^class_invalid lib\/middle.lua:2: require\("deep"\): lib\/deep.lua:2: attempt/),
      expect.stringMatching(/^class_invalid lib\/syntax.lua:2: /),
    ]);
    expect(app.modules.faults[0]?.error.details).toEqual({ file: "lib/deep.lua", line: 2 });
    expect(() => app.thing('local m = require("middle")')).toThrow(
      /^classes\/Thing.lua:2: require\("middle"\): lib\/middle.lua:2: require\("deep"\): lib\/deep.lua:2: /,
    );
    expect(() => app.evaluate('require("deep")')).toThrow('classes/Thing.lua:2: require("deep"): lib/deep.lua:2');
  });

  it("names a circle with its path", () => {
    const app = new App({
      a: 'return require("b")',
      b: 'return require("c")',
      c: '\nreturn require("a")',
      d: 'return require("d")',
    });
    expect(app.faults()).toHaveLength(4);
    expect(app.faults().find((fault) => fault.startsWith("class_invalid lib/c.lua"))).toBe(
      "class_invalid lib/c.lua:2: require goes round in a circle: lib/a.lua → lib/b.lua → lib/c.lua → lib/a.lua",
    );
    expect(app.faults()).toContain("class_invalid lib/d.lua:1: require goes round in a circle: lib/d.lua → lib/d.lua");
  });

  it("lets modules use each other inside functions", () => {
    const app = new App({
      even: 'return function(n) if n == 0 then return true end return require("odd")(n - 1) end',
      odd: 'return function(n) if n == 0 then return false end return require("even")(n - 1) end',
    });
    expect(app.evaluate('return require("even")(10), require("odd")(10)')).toEqual([true, false]);
  });

  it.each([
    [
      "a name that is none",
      'require("mony")',
      "no module is called 'mony': there is no lib/mony.lua; did you mean 'money'?",
    ],
    [
      "slashes",
      'require("money/rates")',
      "no module is called 'money/rates': there is no lib/money/rates.lua; did you mean 'money.rates'?",
    ],
    ["no name", "require()", "require takes the name of a module"],
    ["bytes", 'require("\\xff")', "require takes the name of a module"],
  ])("%s", (_what, code, message) => {
    const app = new App({ money: MONEY, "money.rates": "return {}" });
    expect(() => app.evaluate(code)).toThrow(message);
    expect(() => app.thing(code)).toThrow(message);
  });

  it("a file whose name require could not say is a fault", () => {
    expect(new App({ "two-words": "return 1" }).faults()).toEqual([
      "class_invalid lib/two-words.lua: its name is no module name",
    ]);
  });

  it.each([
    ["loops", "while true do end"],
    ["loops under pcall", "while true do pcall(error) end"],
    ["eats memory", 'local s = "x" while true do s = s .. s end'],
  ])("a module that %s is stopped, and harms no other", (_what, code) => {
    const app = new App(
      { asks: 'return pcall(require, "bad")', bad: `${code} return 1`, good: "return 1" },
      makeEngine({ limits: { instructionsMax: 100_000 } }),
    );
    expect(app.faults().map((fault) => fault.slice(0, 30))).toEqual([
      expect.stringContaining("lib/asks.lua"),
      expect.stringContaining("lib/bad.lua"),
    ]);
    expect(app.evaluate('return require("good")')).toBe(1);
  });

  it("the log's traceback goes through the module", () => {
    const app = new App({ m: "return { fall = function() return nil + 1 end }" });
    const result = step(app.thing('function Thing:go() return require("m").fall() end'), "go");
    expect(result).toMatchObject({
      kind: "failed",
      error: { message: expect.stringMatching(/^lib\/m.lua:1: attempt/) },
    });
  });
});

describe("a class's version", () => {
  const versionWith = (lib: Record<string, string>, body: string): string => new App(lib).thing(body).version;
  const requiring = 'local a = require("a")';

  it("covers the modules it requires, those they require, and those that a method names", () => {
    const before = versionWith({ a: 'return require("b")', b: "return 1", c: "return 1" }, requiring);
    expect(versionWith({ a: 'return require("b")', b: "return 1", c: "return 2" }, requiring)).toBe(before);
    expect(versionWith({ a: 'return require("b")', b: "return 2", c: "return 1" }, requiring)).not.toBe(before);
    const late = 'function Thing:go() return require("c") end';
    expect(versionWith({ c: "return 1" }, late)).not.toBe(versionWith({ c: "return 2" }, late));
    const worked = 'local c = require("c" .. "")';
    expect(versionWith({ c: "return 1" }, worked)).not.toBe(versionWith({ c: "return 2" }, worked));
  });

  it("is the hash of the file alone where it requires nothing", () => {
    expect(versionWith({ a: "return 1" }, "")).toBe(versionWith({}, ""));
    expect(versionWith({ a: "return 1" }, 'local word = "a"')).toBe(versionWith({}, 'local word = "a"'));
  });

  it("is listed for modules, too", () => {
    const app = new App({ a: 'return function() return require("b") end', b: 'return { require("a") }', bad: "oops" });
    expect(app.modules.loaded.map(({ name, file }) => [name, file])).toEqual([
      ["a", "lib/a.lua"],
      ["b", "lib/b.lua"],
    ]);
    expect(new Set(app.modules.loaded.map(({ version }) => version)).size).toBe(2);
  });
});
