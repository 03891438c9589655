import fs from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { LintApp, LintFile } from "../../src/lint/contract.js";
import { lintFile } from "../../src/lint/lint.js";
import type { LuaFileKind, MethodKind } from "../../src/lua/contract.js";
import { makeEngine } from "../lua/support/fake-host.js";

const engine = makeEngine();
const names = {
  class: engine.names("class"),
  unit: engine.names("unit"),
  module: engine.names("module"),
  test: engine.names("test"),
};
const methods = (kinds: Record<string, MethodKind>): ReadonlyMap<string, MethodKind> => new Map(Object.entries(kinds));
const auction = methods({ bid: "write", close: "write", _expire: "write", top: "read" });
const app: LintApp = {
  names,
  classes: new Map([
    ["Auction", auction],
    ["Mailer", undefined],
  ]),
};

function lint(text: string, kind: LuaFileKind = "class", name = "Auction"): string[] {
  const file: LintFile = { kind, name, file: "f.lua", text };
  return lintFile(file, app).map(({ line, column, message }) => `${line}:${column} ${message}`);
}

/** Of code in a method of Auction, whose first line it is. */
function inMethod(code: string): string[] {
  return lint(`local Auction = class "Auction" function Auction:bid(...) ${code}\nend return Auction`).map((text) =>
    text.replace(/^\d+:\d+ /, ""),
  );
}

describe("a finding is made of", () => {
  it.each([
    ["an unknown global", "return stat.x", ["no global is called 'stat'; did you mean 'state'?"]],
    ["a global that was taken away", "io.write('x')", ["'io' is not there: objects reach no files"]],
    [
      "a global of units",
      "settle()",
      ["'settle' is not there: only a unit settles; a method's reply waits for its own writes anyway"],
    ],
    ["an assignment to a global", "total = 1", ["assignment to the global 'total': write `local total`"]],
    ["a global function", "function helper() end", ["assignment to the global 'helper': write `local helper`"]],
    ["an assignment to a library", "print = nil", ["assignment to the global 'print': write `local print`"]],
    ["a class that is not there", "Acution('x'):bid()", ["no global is called 'Acution'; did you mean 'Auction'?"]],
    ["a misspelled field of state", "return state.stor.get('x')", ["state has no 'stor'; did you mean 'store'?"]],
    ["a misspelled function of state", "state.store.sett('x', 1)", ["state.store has no 'sett'; did you mean 'set'?"]],
    [
      "a misspelled function of schedule",
      "schedule.aftr('1m'):close()",
      ["schedule has no 'aftr'; did you mean 'after'?"],
    ],
    ["a misspelled function of Lua", "return string.fromat('x')", ["string has no 'fromat'; did you mean 'format'?"]],
    ["a colon for a dot", "state.store:set('x', 1)", ["write a dot: state.store.set(...)"]],
    ["an unknown method", "Auction('x'):bdi(1)", ["Auction has no method 'bdi'; did you mean 'bid'?"]],
    [
      "an unknown method, without parentheses",
      "Auction 'x':bdi { a = 1 }",
      ["Auction has no method 'bdi'; did you mean 'bid'?"],
    ],
    ["a private method", "Auction('x'):_expire()", ["'_expire' is private to Auction"]],
    [
      "an unknown method of a reference kept in a variable",
      "local lot = Auction('x') lot:bdi()",
      ["Auction has no method 'bdi'; did you mean 'bid'?"],
    ],
    [
      "an unknown method that is sent",
      "send(Auction('x'), { delay = 1 }):bdi(1)",
      ["Auction has no method 'bdi'; did you mean 'bid'?"],
    ],
    [
      "an unknown method that is scheduled",
      "schedule.after('1m'):clsoe()",
      ["Auction has no method 'clsoe'; did you mean 'close'?"],
    ],
    [
      "a reading method that is scheduled",
      "schedule.every('1m', { name = 'x' }):top()",
      ["'top' is a reading method; a timer calls a writing one"],
    ],
    ["an unknown method of self", "self:bdi()", ["Auction has no 'bdi'; did you mean 'bid'?"]],
    ["an unknown field of self", "return self.kye", ["Auction has no 'kye'; did you mean 'key'?"]],
    [
      "a field of self that is set",
      "self.top = 1",
      ["self.top cannot be set: keep what must last in state.store or state.sql"],
    ],
    [
      "what stands deep inside",
      "for _, x in ipairs({}) do if x then pcall(function() stat() end) end end",
      ["no global is called 'stat'; did you mean 'state'?"],
    ],
  ])("%s", (_what, code, findings) => {
    expect(inMethod(code)).toEqual(findings);
  });

  it.each([
    [
      "a method with a dot that uses self",
      "function Auction.bid() return self.key end",
      "there is no self here: define 'bid' with a colon instead of a dot",
    ],
    [
      "a method with a dot and parameters",
      "function Auction.bid(who) return who end",
      "a method's first parameter is self: write `function Auction:bid(...)`",
    ],
    [
      "a reading method with a dot",
      "function Auction.read.top(x) return x end",
      "a method's first parameter is self: write `function Auction.read:top(...)`",
    ],
    [
      "a method that is assigned",
      "Auction.bid = function(who) return who end",
      "a method's first parameter is self: write `function Auction:bid(...)`",
    ],
    [
      "self in a function of the file",
      "local function f() return self.key end",
      "there is no self here: it belongs to methods, `function Class:name(...)`",
    ],
  ])("%s", (_what, code, message) => {
    const found = lint(`local Auction = class "Auction"\n${code}\nreturn Auction`);
    expect(found.map((text) => text.replace(/^2:\d+ /, ""))).toEqual([message]);
  });

  it("what other files must not use", () => {
    expect(lint('return function() state.store.get("x") end', "unit")).toEqual([
      "1:19 'state' is not there: a unit has no state of its own; call an object that has",
    ]);
    expect(lint('return function() Auction("x"):bdi() end', "unit")[0]).toContain("Auction has no method 'bdi'");
    expect(lint('local M = class "M" return M', "module")[0]).toContain("'class' is not there: a module is no class");
    expect(lint('test("t", function() expct(1) emit("x") end)', "test")).toEqual([
      "1:22 no global is called 'expct'; did you mean 'expect'?",
      expect.stringContaining("'emit' is not there: events are an object's"),
    ]);
  });

  it("not what a test expects to fail", () => {
    expect(lint('test("t", function() expect(function() Auction("x"):_expire() end):fails() end)', "test")).toEqual([]);
    expect(lint('test("t", function() Auction("x"):_expire() end)', "test")).toHaveLength(1);
  });

  it("its place in characters, whatever the bytes before it", () => {
    expect(lint('local x = "☾☾" .. oops\nreturn { x, "é", oops }', "module")).toEqual([
      "1:19 no global is called 'oops'",
      "2:18 no global is called 'oops'",
    ]);
  });

  it("a text that is no Lua", () => {
    expect(lint("return {\n  1,,\n}", "module")).toEqual([expect.stringMatching(/^2:\d+ .*near ','/)]);
  });
});

describe("nothing is said of", () => {
  it.each([
    [
      "locals, parameters and loop variables",
      "local a, b = 1 for i = a, b do local c = i a = c end for k, v in pairs({}) do b = k or v end return a, b",
    ],
    ["a local function that calls itself", "local function f(n) return n == 0 or f(n - 1) end return f(3)"],
    ["a condition that sees its loop's locals", "repeat local done = true until done"],
    [
      "names of fields, methods and labels",
      "local t = { oops = 1 } t.oops = t:oops() goto done ::done:: return t.oops",
    ],
    ["varargs, integer division and bits", "return select('#', ...) // 2 | 1 << 3 & ~0xff"],
    ["a missing field of Lua's libraries that is only looked at", "return table.unpack or table.unpak"],
    ["methods of texts", "local s = 'x' return s:upper(), ('x'):rep(3), string.len('x')"],
    ["variables that hide globals", "local state = { foo = 1 } local Auction = { } return state.foo, Auction.foo"],
    ["references that may be of another class", "local lot = Auction('x') lot = ... return lot:anything()"],
    ["methods of host code and of classes that do not load", "Mailer('x'):anything()"],
    ["methods of unknown things", "local x = ... x:anything() send(x):anything()"],
    ["self and its methods", "return self.key, self.id, self.app, self.class, self:top(), self:_expire()"],
    ["timers of private methods", "schedule.at(now(), { name = 'x' }):_expire(1) schedule.cancel('x')"],
    [
      "all globals there are",
      "return caller.id, null, array {}, blob('x'), json.encode(1), hash.sha256('x'), uuid(), random(), require, log.info",
    ],
  ])("%s", (_what, code) => {
    const text = `local Auction = class "Auction" function Auction:bid(...) ${code} end return Auction`;
    expect(lint(text)).toEqual([]);
    expect(() => engine.loadClass({ app: "default", name: "Auction", file: "f.lua", text }, ["Mailer"])).not.toThrow();
  });

  it.each([
    ["constants of the class", "Auction.LIMIT = 3 function Auction:bid() return self.LIMIT end"],
    [
      "functions on the class that are called with a dot",
      "function Auction.sum(a, b) return a + b end function Auction:bid() return Auction.sum(1, 2) end",
    ],
    ["methods that ignore the object", "function Auction.bid(_, who) return who end function Auction.close() end"],
    [
      "methods that are put on the class by others",
      "local function mix(c) c.extra = 1 end mix(Auction) function Auction:bid() return self.extra end",
    ],
    [
      "methods that are put on the class in a loop",
      "for _, n in ipairs { 'a' } do Auction[n] = function(self) end end function Auction:bid() return self.a end",
    ],
    [
      "self by another name",
      "Auction.directory = { columns = { a = 'text' }, row = function(self) return { a = self.key } end }",
    ],
  ])("%s", (_what, code) => {
    expect(lint(`local Auction = class "Auction"\n${code}\nreturn Auction`)).toEqual([]);
  });
});

/** Every Lua file that is meant to work. */
describe.each(["classes", "examples/auction-house", "examples/embed", "bench", "test/fixtures", "cli/templates/app"])(
  "%s",
  (root) => {
    const kinds: Readonly<Record<string, LuaFileKind>> = {
      classes: "class",
      units: "unit",
      lib: "module",
      tests: "test",
    };
    const files = fs
      .readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((file) => /(?:^|\/)(?:classes|units|lib|tests)\/[^/]+\.lua$/.test(`${root}/${file}`));

    it("has nothing to be found", () => {
      expect(files.length).toBeGreaterThan(0);
      const sources = files.map((file): LintFile => {
        const full = path.join(root, file);
        const kind = kinds[path.basename(path.dirname(full))] ?? "class";
        return { kind, name: path.basename(file, ".lua"), file: full, text: fs.readFileSync(full, "utf8") };
      });
      const classNames = [
        ...sources.filter(({ kind }) => kind === "class").map(({ name }) => name),
        "Moderator",
        "Auction",
        "Counter",
      ];
      const loaded = sources
        .filter(({ kind }) => kind === "class")
        .map(({ name, file, text }) => engine.loadClass({ app: "default", name, file, text }, classNames));
      const classes = new Map([
        ...classNames.map((name) => [name, undefined] as const),
        ...loaded.map((lua) => [lua.name, lua.methods] as const),
      ]);
      expect(sources.flatMap((source) => lintFile(source, { names, classes }))).toEqual([]);
    });
  },
);
