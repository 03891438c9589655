import { describe, expect, test } from "vitest";
import { EDITS } from "../../src/lua/fengari/edits.js";
import { loadWith } from "../../src/lua/fengari/load.js";
import { type Table, TYPE } from "../../src/lua/fengari/types.js";
import { Lab, type LabLimits } from "./support/fengari-lab.js";

/** One promise, the edits it rests on, and what Lua (or the host) sees. Taking away any one of them must show. */
interface Case {
  readonly promise: string;
  readonly edits: readonly string[];
  readonly see: string | ((lab: Lab) => unknown);
  readonly limits?: LabLimits;
  readonly expected: unknown;
}

const STEPS: LabLimits = { steps: 10_000 };
const KILLED = "killed: instructions";
/** 50,000 letters in 100 steps. */
const LETTERS = `local s = ("${"a".repeat(500)}"):rep(100) `;

const CASES: readonly Case[] = [
  {
    promise: "a caught error leaves the thread's status as it was",
    edits: ["pcall keeps call status"],
    see: (lab) => {
      const thread = lab.thread();
      lab.run("pcall(error)", {}, thread);
      return thread.allowhook;
    },
    expected: 1,
  },
  {
    promise: "pcall catches no kill",
    edits: ["a kill passes every protected call"],
    see: "pcall(function() for i = 1, 1e5 do end end) return 'survived'",
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "a JS throw from an instruction is caught by pcall",
    edits: ["a JS throw becomes a Lua error anywhere", "a JS throw becomes a Lua error anywhere, end"],
    see: (lab) => {
      const table = frozenTable(lab);
      table.frozen = () => {
        throw new Error("no");
      };
      return lab.run("local ok, e = pcall(function() frozen.x = 1 end) return ok, e, 1 + 1");
    },
    expected: "false native: no 2",
  },
  {
    promise: "an error handler that fails gives its own error",
    edits: ["an error handler that fails is not called again"],
    see: "local n = 0 local ok, e = xpcall(error, function() n = n + 1 error('second', 0) end, 'first') return ok, e, n",
    expected: "false second 1",
  },
  {
    promise: "a yield that cannot be is explained",
    edits: ["a yield that cannot be says why"],
    see: "local co = coroutine.wrap(function() table.sort({2, 1}, function() coroutine.yield() end) end) return (select(2, pcall(co)))",
    expected: expect.stringContaining("table.sort"),
  },
  {
    promise: "a string made from text has its bytes when asked",
    edits: ["strings carry their text", "strings hash to their bytes, helpers"],
    see: (lab) => {
      const string = new lab.fengari.lstring.TString(lab.main, null);
      string.hash = "héllo".slice(0, 1);
      return [string.tsslen(), string.text, Buffer.from(string.getstr()).toString()];
    },
    expected: [1, null, "h"],
  },
  {
    promise: "strings made from text compare",
    edits: ["strings compare by text"],
    see: (lab) => {
      for (const [name, text] of Object.entries({ a: "same", b: "same", c: "else" })) {
        const string = new lab.fengari.lstring.TString(lab.main, null);
        string.hash = text;
        lab.setGlobal(name, lab.value(TYPE.string, string));
      }
      return lab.run("return a == b, a == c");
    },
    expected: "true false",
  },
  {
    promise: "different strings are different keys, in the order of their bytes",
    edits: ["strings hash to their bytes"],
    see: 'local t = { ["\\n1"] = 1 } return t["\\xa3\\x01"], "\\2" < "\\16", "\\n1" == "\\xa3\\x01"',
    expected: "null true false",
  },
  {
    promise: "strings count as memory",
    edits: ["strings are charged"],
    see: 'local s = ("x"):rep(1000) for i = 1, 100 do local t = s .. i end return "survived"',
    limits: { bytes: 60_000 },
    expected: "killed: memory",
  },
  {
    promise: "strings are copied without iterating",
    edits: ["strings are copied at once"],
    see: copiesByIteration,
    expected: 0,
  },
  {
    promise: "concatenation stops at the cap",
    edits: ["concatenation is bounded"],
    see: 'local s = ("x"):rep(60) return (pcall(function() return s .. s end))',
    limits: { stringBytes: 100 },
    expected: "false",
  },
  {
    promise: "buffers stop at the cap",
    edits: ["buffers are bounded and charged"],
    see: 'return (pcall(string.rep, "x", 200))',
    limits: { stringBytes: 100 },
    expected: "false",
  },
  {
    promise: "copies of nothing count",
    edits: ["string.rep counts its steps"],
    see: '("").rep("", 200000)',
    limits: STEPS,
    expected: KILLED,
  },
  ...(
    [
      ["addition", "local a = 2147483647 return a + 1", "2147483648"],
      ["subtraction", "local a = -2147483647 return a - 3", "-2147483650"],
      ["multiplication", "local a = 100000 return a * a", "10000000000"],
      ["negation", "local a = -2147483647 a = a - 1 return -a", "2147483648"],
      [
        "loop step",
        "local n = 0 for i = 2147483646, 2147483647 do n = n + 1 if n > 5 then break end end return n",
        "2",
      ],
      ["loop start", "local n, a = 0, -2147483647 a = a - 1 for i = a, a + 1 do n = n + 1 end return n", "2"],
      ["loop limit", "local n = 0 for i = 2147483640, 2147483660 do n = n + 1 end return n", "21"],
      ["math.abs", "local a = -2147483647 a = a - 1 return math.abs(a)", "2147483648"],
      ["floor division", "local a = -2147483647 a = a - 1 a = a // -1 return a, math.type(a)", "2147483648 float"],
      ["floor division, helper", "local a = -2147483647 a = a - 1 return a // -1", "2147483648"],
      ["tonumber with a base", 'return tonumber("ffffffff", 16)', "4294967295"],
      ["tonumber with a base, push", 'return math.type(tonumber("ffffffff", 16))', "float"],
      ["tonumber with a base, import", 'return tonumber("ff", 16)', "255"],
    ] as const
  ).map(([what, see, expected]) => ({
    promise: `numbers go on beyond 32 bits: ${what}`,
    edits: [`no wrap: ${what}`],
    see,
    expected,
  })),
  ...(
    [
      ["addition", "return 2147483647 + 1", "2147483648"],
      ["subtraction", "return -2147483647 - 3", "-2147483650"],
      ["multiplication", "return 100000 * 100000", "10000000000"],
      ["negation", "return -(-2147483647 - 1)", "2147483648"],
      ["result", "return math.type(2147483647 + 1)", "float"],
    ] as const
  ).map(([what, see, expected]) => ({
    promise: `constants go on beyond 32 bits: ${what}`,
    edits: [`no wrap in constants: ${what}`],
    see,
    expected,
  })),
  {
    promise: "what fits 32 bits stays an integer",
    edits: ["sums beyond 32 bits are floats"],
    see: "local a, z = 2, 0 return math.type(a * 3), math.type(a - 5), math.type(z * -1), 1 / (z * -1)",
    expected: "integer integer integer Infinity",
  },
  {
    promise: "format %d prints whole floats",
    edits: ["format %d takes whole floats"],
    see: 'return string.format("%d|%5d|%d", 1700000000250, 7, 2.0), (pcall(string.format, "%d", 1.5))',
    expected: "1700000000250|    7|2 false",
  },
  {
    promise: "string.char says which argument is wrong",
    edits: ["string.char names its argument"],
    see: "return (select(2, pcall(string.char, 65, 256)))",
    expected: expect.stringContaining("bad argument #2"),
  },
  {
    promise: "format %s pads any bytes",
    edits: ["format %s pads bytes"],
    see: 'return string.format("%4s|%-3s|%.1s", "\\xff", "ab", "xy")',
    expected: "   \u00ff|ab |x",
  },
  {
    promise: "floats print the shortest text that reads back",
    edits: ["floats print shortest"],
    see: "return tostring(2^53), tostring(0.1), tostring(1e100), tostring(1/0), tostring(3.0), tostring(-(0/0))",
    expected: "9007199254740992 0.1 1e+100 inf 3 nan",
  },
  {
    promise: "tables count as memory",
    edits: ["tables are charged and can be frozen"],
    see: 'for i = 1, 1000 do local t = {} end return "survived"',
    limits: { bytes: 50_000 },
    expected: "killed: memory",
  },
  {
    promise: "entries count as memory",
    edits: ["entries are charged"],
    see: 'local t = {} for i = 1, 1000 do t[i] = i end return "survived"',
    limits: { bytes: 20_000 },
    expected: "killed: memory",
  },
  {
    promise: "a queue does not grow",
    edits: ["deleted entries are kept in a map made on demand"],
    see: 'local t = {} for i = 1, 1000 do t[i] = i t[i - 1] = nil end return "survived"',
    limits: { bytes: 20_000 },
    expected: "survived",
  },
  {
    promise: "what was deleted counts as long as it is kept",
    edits: ["entries are charged"],
    see: `local kept = {} for k = 1, 50 do
      local t = {} for i = 1, 100 do t[i] = i end for i = 1, 100 do t[i] = nil end kept[k] = t end`,
    limits: { bytes: 100_000 },
    expected: "killed: memory",
  },
  {
    promise: "next refuses a key that was never there",
    edits: ["next looks for dead keys where there are any"],
    see: 'return (select(2, pcall(next, {}, "x")))',
    expected: expect.stringContaining("invalid key to 'next'"),
  },
  {
    promise: "a frozen table refuses integer keys set raw",
    edits: ["frozen tables refuse integer keys"],
    see: (lab) => {
      const table = frozenTable(lab);
      const { luaH_setint } = lab.fengari.ltable as unknown as {
        luaH_setint(table: Table, key: number, value: unknown): void;
      };
      try {
        luaH_setint(table, 1, lab.value(TYPE.boolean, true));
      } catch {
        return table.strong.size;
      }
      return "written";
    },
    expected: 0,
  },
  {
    promise: "a frozen table refuses every assignment",
    edits: ["frozen tables refuse any key"],
    see: (lab) => {
      frozenTable(lab);
      return lab.run(
        "return pcall(function() frozen.x = 1 end), pcall(rawset, frozen, 'x', 1), pcall(table.insert, frozen, 1), frozen.x",
      );
    },
    expected: "false false false null",
  },
  {
    promise: "a frozen table keeps its metatable",
    edits: ["frozen tables keep their metatable"],
    see: (lab) => {
      frozenTable(lab);
      return lab.run("return (pcall(setmetatable, frozen, {}))");
    },
    expected: "false",
  },
  {
    promise: "the length of an array is found without a search",
    edits: ["length of a plain array is quick"],
    see: lookupsForLength,
    expected: 0,
  },
  {
    promise: "pairs walks a constructor's elements in order",
    edits: ["constructors fill in order"],
    see: 'local s = "" for k in pairs({ 10, 20, 30 }) do s = s .. k end return s',
    expected: "123",
  },
  {
    promise: "the host can add entries",
    edits: ["ltable exports add"],
    see: (lab) => typeof lab.fengari.ltable.add,
    expected: "function",
  },
  {
    promise: "instructions count, in every coroutine together",
    edits: ["instructions count down one meter"],
    see: "for i = 1, 500 do coroutine.wrap(function() for j = 1, 100 do end end)() end",
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "recursion stops at its depth",
    edits: ["calls know their depth", "calls count their depth"],
    see: "local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(300)",
    limits: { depth: 200 },
    expected: "killed: depth",
  },
  {
    promise: "recursion through coroutines stops at its depth",
    edits: ["coroutines go on counting depth"],
    see: "local function f(n) if n == 0 then return 0 end return coroutine.wrap(function() return f(n - 1) end)() end return f(30)",
    limits: { depth: 50 },
    expected: "killed: depth",
  },
  {
    promise: "metamethods that nest stop at their depth",
    edits: ["nested calls of the host are depth, too"],
    see: "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) return t[1]",
    expected: "killed: depth",
  },
  {
    promise: "coroutines that nest stop at their depth",
    edits: ["nested coroutines are depth, too"],
    see: `${nestedCoroutines(250)} return f()`,
    expected: "killed: depth",
  },
  {
    promise: "a grown stack counts as memory",
    edits: ["stacks are charged"],
    see: 'return (select("#", table.unpack({}, 1, 100000)))',
    limits: { bytes: 1_000_000 },
    expected: "killed: memory",
  },
  {
    promise: "coroutines count as memory",
    edits: ["coroutines are charged"],
    see: 'local f = function() end for i = 1, 100 do coroutine.create(f) end return "survived"',
    limits: { bytes: 50_000 },
    expected: "killed: memory",
  },
  {
    promise: "closures count as memory",
    edits: ["closures are charged"],
    see: 'for i = 1, 1000 do local f = function() return i end end return "survived"',
    limits: { bytes: 50_000 },
    expected: "killed: memory",
  },
  {
    promise: "reads by index count",
    edits: ["reads by index count"],
    see: 'return (select("#", table.unpack({}, 1, 50000)))',
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "writes by index count",
    edits: ["writes by index count"],
    see: "return table.pack(table.unpack({}, 1, 50000)).n",
    limits: { steps: 70_000 },
    expected: KILLED,
  },
  {
    promise: "tries of a pattern count",
    edits: ["the matcher counts"],
    see: `${LETTERS} return s:find("%bxy")`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "characters of a pattern count",
    edits: ["the matcher counts single characters"],
    see: `${LETTERS} return #s:match("^a*")`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "balanced pairs count",
    edits: ["the matcher counts balanced pairs"],
    see: `${LETTERS} return ("(" .. s):find("^%b()")`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "a plain find counts",
    edits: ["plain find counts"],
    see: `${LETTERS} return s:find("${"a".repeat(49)}b", 1, true)`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "formats of pack count",
    edits: ["pack formats count"],
    see: `return string.packsize(("${"b".repeat(500)}"):rep(100))`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "utf8 counts",
    edits: ["utf8 counts"],
    see: `${LETTERS} return utf8.len(s)`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "characters that utf8 passes over count",
    edits: ["utf8 counts the bytes it passes over"],
    see: `${LETTERS} return utf8.offset(s, 50000)`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "members of a set count",
    edits: ["the matcher counts the members of a set"],
    see: `return ("x"):rep(50):find("[${"a".repeat(1_000)}]")`,
    limits: { steps: 80_000 },
    expected: KILLED,
  },
  {
    promise: "the length of a set counts",
    edits: ["the matcher counts on its way to the end of a set"],
    see: `return ("x"):rep(50):find("[${"a".repeat(1_000)}]")`,
    limits: { steps: 80_000 },
    expected: KILLED,
  },
  {
    promise: "a pattern without special characters counts",
    edits: ["the look for special characters counts"],
    see: `${LETTERS} return ("x"):find(s)`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "strings that are put in order count",
    edits: ["the order of strings counts"],
    see: `${LETTERS} local t = s .. "b" for i = 1, 200 do if t < s then return i end end`,
    limits: STEPS,
    expected: KILLED,
  },
  {
    promise: "format prints as C does",
    edits: ["format prints as C does"],
    see: 'return string.format("%f %e %g % d", 1.5, 12345.678, 1 / 3, 7)',
    expected: "1.500000 1.234568e+04 0.333333  7",
  },
  {
    promise: "text longer than any number is none",
    edits: ["numerals are bounded"],
    see: 'return tonumber(("1"):rep(300)), tonumber(("1"):rep(501))',
    expected: `${Number("1".repeat(300))} null`,
  },
  {
    promise: "text longer than any number is none, with a base too",
    edits: ["numerals with a base are bounded"],
    see: 'return tonumber(("1"):rep(501), 10)',
    expected: "null",
  },
];

describe("with the edits", () => {
  for (const { promise, see, limits, expected } of CASES) {
    test(promise, () => expect(look(new Lab(), see, limits)).toEqual(expected));
  }
});

describe("without", () => {
  for (const { edits, see, limits, expected } of CASES) {
    for (const edit of edits) {
      test(`"${edit}" that promise is broken`, () => {
        let seen: unknown;
        try {
          seen = look(new Lab([edit]), see, limits);
        } catch (broken) {
          seen = broken;
        }
        expect(seen).not.toEqual(expected);
      });
    }
  }
});

test("every edit has its case", () => {
  const covered = new Set(CASES.flatMap(({ edits }) => edits));
  expect(EDITS.map(({ name }) => name).filter((name) => !covered.has(name))).toEqual([]);
  expect(new Set(EDITS.map(({ name }) => name)).size).toBe(EDITS.length);
});

test("an edit whose text is not there stops the start with its name", () => {
  const stray = { name: "stray", file: "lvm.js", find: "no such text", replace: "", why: "" };
  expect(() => loadWith([...EDITS, stray])).toThrow('the edit "stray" does not apply to fengari\'s lvm.js');
  expect(() => loadWith([{ ...stray, find: "const" }])).toThrow(/stands there \d+ times/);
  expect(() => loadWith([{ ...stray, file: "nowhere.js" }])).toThrow("its file was never loaded");
});

function look(lab: Lab, see: Case["see"], limits?: LabLimits): unknown {
  return typeof see === "string" ? lab.run(see, limits) : see(lab);
}

/** Each in the one before, with nothing but the resume between them. */
function nestedCoroutines(count: number): string {
  return `local f = function() return 1 end for i = 1, ${count} do f = coroutine.wrap(f) end`;
}

function frozenTable(lab: Lab): Table {
  const table = new lab.fengari.ltable.Table(lab.main);
  lab.setGlobal("frozen", lab.value(TYPE.table, table));
  table.frozen = () => {
    throw new Error("frozen");
  };
  return table;
}

function lookupsForLength(lab: Lab): number {
  const table = new lab.fengari.ltable.Table(lab.main);
  lab.setGlobal("t", lab.value(TYPE.table, table));
  lab.run("for i = 1, 100 do t[i] = i end");
  let lookups = 0;
  const { get } = table.strong;
  table.strong.get = (key) => {
    lookups += 1;
    return get.call(table.strong, key);
  };
  lab.run("return #t");
  return lookups;
}

/** Loads once more with a counting Uint8Array.from, since fengari binds it as it loads. */
function copiesByIteration(lab: Lab): number {
  const from = Uint8Array.from;
  let copies = 0;
  Uint8Array.from = ((source: Iterable<number>) => {
    if (source instanceof Uint8Array) copies += 1;
    return from.call(Uint8Array, source);
  }) as typeof from;
  try {
    const counted = new Lab([...lab.without, "utf8 counts"]);
    copies = 0;
    counted.run('return ("x"):rep(100):upper()');
    return copies;
  } finally {
    Uint8Array.from = from;
  }
}
