import { describe, expect, test } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { LuaClass } from "../../src/lua/contract.js";
import { FakeHost, loadThing, makeEngine, run } from "./support/fake-host.js";

function load(text: string, name = "Auction"): LuaClass {
  return makeEngine().loadClass({ app: "default", name, file: `classes/${name}.lua`, text }, ["Chat"]);
}

function refusal(text: string): MoonportError {
  try {
    load(text);
  } catch (error) {
    if (error instanceof MoonportError) return error;
  }
  throw new Error("was not refused");
}

describe("a class file", () => {
  const text = `local Auction = class "Auction"
Auction.migrations = { [[CREATE TABLE bids (id INTEGER)]], "CREATE INDEX i ON bids(id)" }
Auction.directory = {
  columns = { title = "text", top = "integer", ends_at = "real", open = "boolean" },
  index = { "top" },
  row = function(self) return { title = self.key } end,
}
function Auction:bid(who) return who end
function Auction.read:top() return 1 end
function Auction:_close() end
function Auction:on_create() end
return Auction
`;

  test("declares methods, hooks, migrations and directory", () => {
    const auction = load(text);
    expect(auction.name).toBe("Auction");
    expect(auction.file).toBe("classes/Auction.lua");
    expect(auction.methods).toEqual(
      new Map([
        ["bid", "write"],
        ["_close", "write"],
        ["top", "read"],
      ]),
    );
    expect(auction.hooks).toEqual({ on_create: true, on_wake: false });
    expect(auction.migrations).toEqual(["CREATE TABLE bids (id INTEGER)", "CREATE INDEX i ON bids(id)"]);
    expect(auction.directory).toEqual({
      columns: { title: "text", top: "integer", ends_at: "real", open: "boolean" },
      index: ["top"],
    });
  });

  test("has the SHA-256 of its text as version", () => {
    expect(load(text).version).toMatch(/^[0-9a-f]{64}$/);
    expect(load(text).version).toBe(load(text).version);
    expect(load(`${text} `).version).not.toBe(load(text).version);
  });

  test("can do with nothing but the class", () => {
    const auction = load('return class "Auction"');
    expect([auction.migrations, auction.directory, auction.methods.size]).toEqual([[], undefined, 0]);
  });

  test("may have empty migrations and no index", () => {
    const auction = load(
      'local A = class "Auction" A.migrations = {} A.directory = { columns = { a = "text" }, row = print } return A',
    );
    expect([auction.migrations, auction.directory?.index]).toEqual([[], []]);
  });

  test("may use helper functions declared before or after", () => {
    const thing = loadThing(`
      local later
      function Thing:go() return later(20) end
      later = function(n) return n + 1 end
    `);
    expect(run(thing, "go")).toBe(21);
  });
});

describe("a file that is no class is refused with file and line", () => {
  test.each<[string, string, number | undefined]>([
    [
      "local A = class 'Auction'\nfunction A:x(\nreturn A",
      "classes/Auction.lua:3: <name> or '...' expected near 'return'",
      3,
    ],
    ["local A = class 'Auction'\n\nfoo.bar = 1\nreturn A", "classes/Auction.lua:3: no global is called 'foo'", 3],
    ["error('at the top')", "classes/Auction.lua:1: at the top", 1],
    [
      "local A = class 'Auctoin'\nreturn A",
      'classes/Auction.lua:1: the class of classes/Auction.lua is called "Auction"',
      1,
    ],
    ["local A = class 'Auction'\n-- forgot\n", "classes/Auction.lua:2: does not end with `return Auction`", 2],
    ["return {}", "classes/Auction.lua:1: does not end with `return Auction`", 1],
    ["return 5", "classes/Auction.lua:1: does not end with `return Auction`", 1],
    ["return Chat", "classes/Auction.lua:1: does not end with `return Auction`", 1],
    ["", "classes/Auction.lua:1: does not end with `return Auction`", 1],
    ["coroutine.yield()", "classes/Auction.lua:1: attempt to yield from outside a coroutine", 1],
    [
      "local A = class 'Auction'\nfunction A:x() end\nfunction A.read:x() end\nreturn A",
      "classes/Auction.lua:3: 'x' is both a writing and a reading method",
      3,
    ],
    [
      "local A = class 'Auction'\nfunction A:find() end\nreturn A",
      "classes/Auction.lua:2: 'find' is no method name",
      2,
    ],
    [
      "local A = class 'Auction'\nfunction A.read:on_wake() end\nreturn A",
      "classes/Auction.lua:2: 'on_wake' is no method name",
      2,
    ],
    ["local A = class 'Auction'\nfunction A:Bid() end\nreturn A", "classes/Auction.lua:2: 'Bid' is no method name", 2],
    ["local A = class 'Auction'\nA.read = nil\nreturn A", "classes/Auction.lua:2: `read` holds the reading methods", 2],
    ["local A = class 'Auction'\nA.read.x = 1\nreturn A", "classes/Auction.lua:2: read.x must be a function", 2],
    ["local A = class 'Auction'\nA.on_wake = 1\nreturn A", "classes/Auction.lua:2: on_wake must be a function", 2],
    [
      "local A = class 'Auction'\nA[1] = 1\nreturn A",
      "classes/Auction.lua: the class may only have named fields",
      undefined,
    ],
    [
      "local A = class 'Auction'\nA.migrations = 'x'\nreturn A",
      "classes/Auction.lua:2: migrations must be a list of SQL texts",
      2,
    ],
    [
      "local A = class 'Auction'\nA.migrations = { 'x', 1 }\nreturn A",
      "classes/Auction.lua:2: migrations[2] must be SQL text",
      2,
    ],
    [
      "local A = class 'Auction'\nA.migrations = { 'x', print }\nreturn A",
      "classes/Auction.lua:2: migrations[2] is a function",
      2,
    ],
    ["local A = class 'Auction'\nA.directory = 1\nreturn A", "classes/Auction.lua:2: directory must be a table", 2],
    [
      "local A = class 'Auction'\nA.directory = { columns = { a = 'text' } }\nreturn A",
      "classes/Auction.lua:2: directory.row must be",
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { row = print }\nreturn A",
      "directory.columns must name at least one column",
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { columns = { a = 'txt' }, row = print }\nreturn A",
      'directory.columns.a: the type "txt"',
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { columns = { key = 'text' }, row = print }\nreturn A",
      "every row has a key already",
      2,
    ],
    [
      `local A = class 'Auction'\nA.directory = { columns = { ${manyColumns(65)} }, row = print }\nreturn A`,
      "64 columns at most",
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { columns = { A = 'text' }, row = print }\nreturn A",
      "'A' is no column name",
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { columns = { a = 'text' }, index = { 'b' }, row = print }\nreturn A",
      'directory.index: "b"',
      2,
    ],
    [
      "local A = class 'Auction'\nA.directory = { columns = { a = 'text' }, rows = print }\nreturn A",
      "directory.rows is not one of",
      2,
    ],
    [
      "local A = class 'Auction'\nlocal count = 0\nfunction A:add()\n  count = count + 1\nend\nreturn A",
      "classes/Auction.lua:4: 'count' is a variable of the file, which all objects share",
      4,
    ],
    [
      "local A = class 'Auction'\nlocal n\nfunction A:x() return function() return function() n = 1 end end end\nreturn A",
      "classes/Auction.lua:3: 'n' is a variable of the file",
      3,
    ],
    [
      "local A = class 'Auction'\nlocal next = (function() local n = 0 return function()\nn = n + 1 return n end end)()\nfunction A:x() return next() end\nreturn A",
      "classes/Auction.lua:3: 'n' is a variable of the file",
      3,
    ],
    [
      "local A = class 'Auction'\nlocal co = coroutine.create(print)\nfunction A:x() return co end\nreturn A",
      "classes/Auction.lua: keeps a coroutine or an iterator",
      undefined,
    ],
    [
      "local A = class 'Auction'\nlocal wrapped = coroutine.wrap(print)\nfunction A:x() return wrapped() end\nreturn A",
      "classes/Auction.lua: keeps a coroutine or an iterator",
      undefined,
    ],
    [
      "local A = class 'Auction'\nlocal words = ('a b'):gmatch('%a')\nfunction A:x() return words() end\nreturn A",
      "classes/Auction.lua: keeps a coroutine or an iterator",
      undefined,
    ],
  ])("%j", (text, message, line) => {
    const error = refusal(text);
    expect(error.code).toBe("class_invalid");
    expect(error.message).toContain(message);
    expect(error.details).toEqual({ file: "classes/Auction.lua", ...(line !== undefined && { line }) });
  });

  test("with the nearest right word", () => {
    expect(
      refusal("local A = class 'Auction'\nA.directory = { columns = { a = 'txt' }, row = print }\nreturn A").hint,
    ).toBe("did you mean text?");
  });

  test("and the engine loads the next one", () => {
    const engine = makeEngine();
    expect(() => loadThing("x x", engine)).toThrow("classes/Thing.lua:1");
    expect(run(loadThing("function Thing:go() return 1 end", engine), "go", [], new FakeHost())).toBe(1);
  });
});

test("what only the top of the file uses may assign to the file's variables", () => {
  const thing = loadThing(`
    local sum = 0
    local function add(n) sum = sum + n end
    for i = 1, 4 do add(i) end
    local co = coroutine.wrap(function() coroutine.yield(5) end)
    local five = co()
    function Thing:go() return sum, five end
  `);
  expect(run(thing, "go")).toEqual([10, 5]);
});

test("a closure's own variables may be assigned", () => {
  const thing = loadThing(`
    local function counter() local n = 0 return function() n = n + 1 return n end end
    function Thing:go() local c = counter() c() return c() end
  `);
  expect(run(thing, "go")).toBe(2);
});

test("bytecode is no class file", () => {
  expect(refusal("\u001bLua").message).toContain("classes/Auction.lua");
});

test("a class may be loaded again with another text while the old one lives on", () => {
  const engine = makeEngine();
  const before = loadThing("function Thing:go() return 1 end", engine);
  const after = loadThing("function Thing:go() return 2 end", engine);
  expect([run(before, "go"), run(after, "go"), run(before, "go")]).toEqual([1, 2, 1]);
  engine.close();
});

function manyColumns(count: number): string {
  return Array.from({ length: count }, (_, n) => `c${n} = 'text'`).join(", ");
}
