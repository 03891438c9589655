import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import type { PlainObject, PlainValue } from "../../src/values.js";
import { evaluate, FakeHost, failure, loadThing, makeEngine, run, step } from "./support/fake-host.js";

const thing = loadThing(`
  function Thing:echo(...) return ... end
  function Thing:wrap(v) return { v = v, list = { v, 1 } } end
  function Thing:rebuild(v)
    local function copy(x)
      if type(x) ~= "table" then return x end
      local t = {}
      for k, y in pairs(x) do t[k] = copy(y) end
      if #x == 0 and next(x) == nil then return x end
      return t
    end
    return copy(v)
  end
`);

const plainNumber = fc.oneof(
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
);
const plainText = fc.oneof(
  fc.string(),
  fc.string({ unit: "grapheme" }),
  fc.constantFrom("__proto__", "constructor", "\0", "|"),
);
const plainKey = plainText;

const plainValue = fc.letrec<{ value: PlainValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    plainNumber,
    plainText,
    fc.uint8Array({ maxLength: 20 }),
    fc.array(tie("value"), { maxLength: 6 }),
    fc
      .array(fc.tuple(plainKey, tie("value")), { maxLength: 6 })
      .map((entries) => Object.fromEntries(entries) as PlainObject),
  ),
})).value;

describe("a plain value", () => {
  test("comes back from Lua as it went in", () => {
    fc.assert(
      fc.property(plainValue, (value) => {
        return isDeepStrictEqual(run(thing, "echo", [value]), value);
      }),
      { numRuns: 500 },
    );
  });

  test("comes back from a table that Lua built anew", () => {
    fc.assert(
      fc.property(plainValue, (value) => {
        return isDeepStrictEqual(run(thing, "rebuild", [value]), value);
      }),
      { numRuns: 300 },
    );
  });

  test("comes back from inside another table, null included", () => {
    fc.assert(
      fc.property(
        plainValue.filter((value) => value !== null),
        (value) => {
          return isDeepStrictEqual(run(thing, "wrap", [value]), { v: value, list: [value, 1] });
        },
      ),
      { numRuns: 200 },
    );
  });

  test("survives the store, JSON and an event", () => {
    const relay = loadThing(`function Thing:relay(v)
      state.store.set("k", { v = v }) emit("e", { v = v })
      return json.decode(json.encode({ v = state.store.get("k").v })).v
    end`);
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        const value = JSON.parse(JSON.stringify(json)) as PlainValue;
        const host = new FakeHost();
        expect(run(relay, "relay", [value], host)).toStrictEqual(value);
        const expected = value === null ? {} : { v: value };
        expect(host.events[0]?.data).toStrictEqual(expected);
      }),
      { numRuns: 200 },
    );
  });
});

describe("numbers", () => {
  test("are integers within 32 bits and floats beyond", () => {
    expect(
      evaluate(
        "local t = {} for i, n in ipairs({...}) do t[i] = math.type(n) end return t",
        undefined,
        undefined,
        [1, -2147483648, 2147483647, 2147483648, 1.5, 1e21],
      ),
    ).toEqual(["integer", "integer", "integer", "float", "float", "float"]);
  });

  test("leave whole when they are whole", () => {
    expect(evaluate("return { 4 / 2, 2^53, 3.0, -0.0, 1e15, 10 // 3, 7 % 4.0 }")).toStrictEqual([
      2, 9007199254740992, 3, 0, 1e15, 3, 3,
    ]);
  });

  test("that are whole floats are the same key as the integer", () => {
    expect(evaluate("local t = {} t[1] = 'a' t[2.0] = 'b' t[4 / 2 + 1] = 'c' return t, t[1.0]")).toEqual([
      ["a", "b", "c"],
      "a",
    ]);
  });

  test("print as they are", () => {
    expect(
      evaluate("return 1700000000250 .. '', 2^31 .. '', 0.1 + 0.2 .. '', 1e300 .. '', tostring(5 // 1.0)"),
    ).toEqual(["1700000000250", "2147483648", "0.30000000000000004", "1e+300", "5"]);
  });
});

describe("text and bytes", () => {
  test("text is UTF-8 on both sides", () => {
    expect(
      evaluate("local s = ... return #s, s:upper(), s == 'héllo', utf8.len(s)", undefined, undefined, ["héllo"]),
    ).toEqual([6, "HéLLO", true, 5]);
  });

  test("long text keeps its characters", () => {
    const text = "añb".repeat(5_000);
    expect(evaluate("local s = ... return s .. '!', #s", undefined, undefined, [text])).toEqual([`${text}!`, 20_000]);
  });

  test("half a surrogate pair is refused on the way in", () => {
    expect(step(thing, "echo", ["\ud800"])).toMatchObject({ kind: "failed", error: { code: "bad_value" } });
  });

  test("bytes come in as a blob and leave as one", () => {
    const bytes = new Uint8Array([0, 255, 65]);
    expect(
      evaluate(
        "local b = ... return #b, tostring(b):byte(2), b:bytes() == '\\0\\xffA', b == blob('\\0\\xffA'), b .. 'x' == '\\0\\xffAx', b",
        undefined,
        undefined,
        [bytes],
      ),
    ).toEqual([3, 255, true, true, true, bytes]);
    expect(evaluate("return blob('\\xff\\xfe')")).toStrictEqual(new Uint8Array([255, 254]));
    expect(evaluate("return getmetatable(blob(''))")).toBe(false);
  });

  test("bytes that are no UTF-8 do not leave as text", () => {
    const error = failure("return { name = '\\xff' }") as MoonportError;
    expect(error).toMatchObject({ code: "bad_value", message: "result.name is not UTF-8 text" });
    expect(error.hint).toContain("blob");
  });
});

describe("null and nil", () => {
  test("null is nil at the top and null inside", () => {
    expect(
      evaluate(
        "local a, b = ... return a == nil, b[1] == null, b.x, tostring(null), type(null)",
        undefined,
        undefined,
        [null, [null]],
      ),
    ).toEqual([true, true, null, "null", "userdata"]);
    expect(evaluate("return { a = null, b = { null, 1, null } }")).toStrictEqual({ a: null, b: [null, 1, null] });
    expect(evaluate("return null")).toBeNull();
  });

  test("indexing null says so", () => {
    expect(failure("local x = { a = null } return x.a.b").message).toContain(
      "attempt to index a null value (field 'a')",
    );
  });
});

describe("arrays and maps", () => {
  test("an empty table is a map unless it is marked or came in as an array", () => {
    expect(
      evaluate("return { {}, array{}, array(), (...), json.decode('[]'), state.sql.all('x') }", undefined, undefined, [
        [],
      ]),
    ).toStrictEqual([{}, [], [], [], [], []]);
  });

  test("an array emptied by Lua stays an array", () => {
    expect(evaluate("local a = ... table.remove(a) return a", undefined, undefined, [[1]])).toStrictEqual([]);
  });

  test("array marks a table that is filled later", () => {
    expect(evaluate("local a = array{} for i = 1, 2 do a[#a + 1] = i end return a")).toStrictEqual([1, 2]);
  });
});

describe("what cannot travel is refused", () => {
  test("arguments that are no plain values are refused", () => {
    expect(step(thing, "echo", [Number.NaN])).toMatchObject({ kind: "failed", error: { code: "bad_value" } });
    let deep: PlainValue = 1;
    for (let level = 0; level < 70; level++) deep = [deep];
    expect(step(thing, "echo", [deep])).toMatchObject({ kind: "failed", error: { code: "too_deep" } });
  });

  test("the call can be caught and goes on", () => {
    expect(evaluate("local ok, e = pcall(emit, 'e', print) return ok, e.code, e.message")).toEqual([
      false,
      "bad_value",
      "data is a function",
    ]);
  });
});

test("keys that callers choose do not pile up", () => {
  const engine = makeEngine();
  const echo = loadThing("function Thing:n(t) local n = 0 for k in pairs(t) do n = n + 1 end return n end", engine);
  for (let round = 0; round < 5; round++) {
    const object = Object.fromEntries(Array.from({ length: 9_000 }, (_, index) => [`key-${round}-${index}`, index]));
    expect(run(echo, "n", [object])).toBe(9_000);
  }
});
