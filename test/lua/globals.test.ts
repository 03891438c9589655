import { describe, expect, test } from "vitest";
import { evaluate, FakeHost, failure, loadThing, run } from "./support/fake-host.js";

function on(host: FakeHost, code: string) {
  return evaluate(code, undefined, host);
}

describe("state.sql", () => {
  test("binds by position, with nil, booleans and bytes", () => {
    const host = new FakeHost();
    expect(
      on(host, "return state.sql.exec('INSERT', 'a', 1, 2.5, nil, null, true, false, blob('\\xff'), nil)"),
    ).toEqual([1, 7]);
    expect(host.statements).toEqual([
      { kind: "exec", sql: "INSERT", parameters: ["a", 1, 2.5, null, null, 1, 0, new Uint8Array([255]), null] },
    ]);
  });

  test("binds by name, or from a list", () => {
    const host = new FakeHost();
    on(
      host,
      "state.sql.exec('x', { who = 'ada', ok = true, none = null }) state.sql.exec('y', { 1, false }) state.sql.exec('z', {}) state.sql.exec('w')",
    );
    expect(host.statements.map(({ parameters }) => parameters)).toEqual([
      { who: "ada", ok: 1, none: null },
      [1, 0],
      [],
      [],
    ]);
  });

  test("refuses what SQL cannot take", () => {
    expect(failure("state.sql.exec('x', 1, { 2 })")).toMatchObject({
      code: "bad_value",
      message: "parameter 2 is a table, which SQL cannot take",
    });
    expect(failure("state.sql.exec('x', { a = { 1 } })")).toMatchObject({ code: "bad_value" });
    expect(failure("state.sql.exec('x', { 1, nil, 3 })").message).toContain("has holes or named keys");
    expect(failure("state.sql.exec('x', { 1, a = 3 })").message).toContain("has holes or named keys");
    expect(failure("state.sql.exec('x', { [true] = 3 })").message).toContain("a map from names");
    expect(failure("state.sql.exec('x', '\\xff')").message).toBe("parameter 1 is not UTF-8 text");
    expect(failure("state.sql.exec('x', 0/0)").message).toContain("not a finite number");
    expect(failure("state.sql.exec(1)").message).toContain("argument 1 must be text, not a number");
  });

  test("gives rows as maps, NULL as nil, and the empty result as an array", () => {
    const host = new FakeHost();
    host.rows = {
      columns: ["id", "who", "data"],
      rows: [
        [1, "ada", null],
        [2, null, new Uint8Array([1])],
      ],
    };
    expect(
      on(host, "local r = state.sql.all('x') return r[1].who, r[1].data == nil, r[2].who == nil, #r[2].data, r"),
    ).toEqual([
      "ada",
      true,
      true,
      1,
      [
        { id: 1, who: "ada" },
        { id: 2, data: new Uint8Array([1]) },
      ],
    ]);
    expect(on(host, "return state.sql.one('x').id")).toBe(1);
    host.rows = { columns: ["id"], rows: [] };
    expect(on(host, "return state.sql.one('x'), state.sql.all('x')")).toEqual([null, []]);
  });

  test("each walks a cursor and closes it, also when the loop is left early or fails", () => {
    const host = new FakeHost();
    host.rows = { columns: ["n"], rows: [[1], [2], [3]] };
    expect(on(host, "local s = 0 for row in state.sql.each('x', 5) do s = s + row.n end return s")).toBe(6);
    expect(host.statements[0]).toEqual({ kind: "each", sql: "x", parameters: [5] });
    expect(host.cursorsOpen).toBe(0);
    expect(on(host, "for row in state.sql.each('x') do return row.n end")).toBe(1);
    expect(host.cursorsOpen).toBe(0);
    failure("for row in state.sql.each('x') do error('x') end", undefined, host);
    expect(host.cursorsOpen).toBe(0);
    expect(on(host, "local it = state.sql.each('x') it() it() it() return it(), it()")).toEqual([null, null]);
  });
});

describe("state.store", () => {
  test("keeps any plain value", () => {
    const host = new FakeHost();
    on(host, "state.store.set('a', { x = { 1, null } }) state.store.set('b', false)");
    expect(host.store).toEqual(
      new Map<string, unknown>([
        ["a", { x: [1, null] }],
        ["b", false],
      ]),
    );
    expect(on(host, "return state.store.get('a').x[1], state.store.get('b'), state.store.get('none')")).toEqual([
      1,
      false,
      null,
    ]);
  });

  test("takes nil for not there", () => {
    const host = new FakeHost();
    host.store.set("a", 1);
    on(host, "state.store.set('a', nil)");
    expect(host.store.has("a")).toBe(false);
    host.store.set("a", 1);
    expect(on(host, "return state.store.delete('a'), state.store.delete('a')")).toEqual([true, false]);
  });

  test("lists by prefix in the order of keys", () => {
    const host = new FakeHost();
    for (const key of ["b:2", "a", "b:1", "b:3"]) host.store.set(key, key.toUpperCase());
    expect(on(host, "local s = '' for k, v in pairs(state.store.list('b:')) do s = s .. k .. v end return s")).toBe(
      "b:1B:1b:2B:2b:3B:3",
    );
    host.store.set("n", null);
    expect(on(host, "return state.store.list('n').n == null, state.store.get('n') == nil")).toEqual([true, true]);
    host.store.delete("n");
    expect(on(host, "return state.store.list()")).toEqual({ a: "A", "b:1": "B:1", "b:2": "B:2", "b:3": "B:3" });
  });

  test("writes volatile values", () => {
    const host = new FakeHost();
    on(
      host,
      "state.store.set_volatile('v', 1) state.store.append_volatile('t', 'ab') state.store.append_volatile('t', 'cd')",
    );
    expect([host.store.get("v"), host.store.get("t")]).toEqual([1, "abcd"]);
  });

  test("wants a key", () => {
    expect(failure("state.store.get()").message).toBe(
      "classes/Thing.lua:1: state.store.get(key): argument 1 must be text, not nothing",
    );
  });
});

describe("what is left for later", () => {
  test("emit", () => {
    const host = new FakeHost();
    on(host, "emit('bid', { who = 'ada' }) emit('closed')");
    expect(host.events).toEqual([
      { event: "bid", data: { who: "ada" } },
      { event: "closed", data: null },
    ]);
  });

  test("destroy", () => {
    const host = new FakeHost();
    on(host, "destroy()");
    expect(host.destroyed).toBe(true);
  });

  const timed = (host: FakeHost, code: string) =>
    run(loadThing(`function Thing:go() ${code} end function Thing:_close() end`), "go", [], host);

  test("timers after, at, every and by cron", () => {
    const host = new FakeHost();
    expect(
      timed(
        host,
        `return schedule.after("10m", { name = "close" }):_close("x", { 1 }), schedule.after(2.5):_close(),
          schedule.at(1700000060.5):_close(), schedule.every("250ms"):_close(), schedule.cron("0 9 * * *", { tz = "Europe/Berlin", name = "daily" }):_close()`,
      ),
    ).toEqual([1, 2, 3, 4, 5]);
    expect(host.timers).toEqual([
      { plan: { kind: "after", delayMs: 600_000 }, name: "close", method: "_close", args: ["x", [1]] },
      { plan: { kind: "after", delayMs: 2_500 }, method: "_close", args: [] },
      { plan: { kind: "at", atMs: 1_700_000_060_500 }, method: "_close", args: [] },
      { plan: { kind: "every", everyMs: 250 }, method: "_close", args: [] },
      {
        plan: { kind: "cron", expression: "0 9 * * *", timeZone: "Europe/Berlin" },
        name: "daily",
        method: "_close",
        args: [],
      },
    ]);
  });

  test("timers are cancelled, moved and listed", () => {
    const host = new FakeHost();
    host.timerList = [{ id: 4, name: "close", method: "_close", dueMs: 1_500 }];
    expect(
      timed(
        host,
        `return schedule.cancel("close"), schedule.cancel(9), schedule.move(4, "1h"), schedule.move("close", { at = 3 }),
          schedule.move(4, { every = "2d" }), schedule.move(4, { cron = "* * * * *" }), schedule.list()`,
      ),
    ).toEqual([true, false, true, true, true, true, [{ id: 4, name: "close", method: "_close", due: 1.5 }]]);
    expect(host.moved.map(({ plan }) => plan)).toEqual([
      { kind: "after", delayMs: 3_600_000 },
      { kind: "at", atMs: 3_000 },
      { kind: "every", everyMs: 172_800_000 },
      { kind: "cron", expression: "* * * * *" },
    ]);
  });

  test("mistakes with timers are named", () => {
    const mistake = (code: string) => failure(code).message;
    expect(mistake("schedule.after('10m'):closee()")).toContain("Thing has no method 'closee'");
    expect(mistake("schedule.after('10 minutes'):go()")).toContain('text like "250ms", "10s", "5m", "2h", "1d"');
    expect(mistake("schedule.after(-1):go()")).toContain("a duration is seconds");
    expect(mistake("schedule.every(0):go()")).toContain("longer than nothing");
    expect(mistake("schedule.at('now'):go()")).toContain("a time is seconds since 1970");
    expect(mistake("schedule.after('10m', { nmae = 'x' }):go()")).toContain(
      "no option is called 'nmae'; did you mean 'name'?",
    );
    expect(mistake("schedule.after('10m').go()")).toContain("write a colon before the method");
    expect(mistake("schedule.cancel()")).toContain("a timer's id or its name");
    expect(mistake("schedule.move(1, {})")).toContain("when is a duration");
  });

  test("send makes a message with its options", () => {
    const host = new FakeHost();
    on(host, "send(Auction('lot-42'), { delay = '10s', id = 'once' }):bid('ada', 25) send(Thing('two')):go()");
    expect(host.sent).toEqual([
      { className: "Auction", key: "lot-42", method: "bid", args: ["ada", 25], delayMs: 10_000, id: "once" },
      { className: "Thing", key: "two", method: "go", args: [] },
    ]);
  });

  test("send refuses private methods, bad keys and what is no reference", () => {
    expect(failure("send(Auction('x')):_close()").message).toContain("'_close' is private to Auction");
    expect(failure("send('Auction/x'):bid()").message).toContain("argument 1 must be a reference");
    expect(failure("Auction('')")).toMatchObject({ code: "bad_key" });
    expect(failure("Auction()").message).toContain("Auction(key) takes the key of an object as text");
    expect(failure("send(Auction('x'), { dealy = 1 }):bid()").message).toContain("did you mean 'delay'?");
    expect(failure("send(Auction('x')):Bid()")).toMatchObject({ code: "bad_name" });
  });

  test("a reference tells class and key, and a class is not its objects", () => {
    expect(evaluate("local a = Auction('lot-42') return a.key, a.class")).toEqual(["lot-42", "Auction"]);
    expect(failure("Auction.find {}").message).toContain("Auction is another class");
  });
});

describe("the small ones", () => {
  test("caller", () => {
    const host = new FakeHost();
    expect(on(host, "return caller.kind, caller.id, caller.claims.role, caller, caller == caller")).toEqual([
      "client",
      "ada",
      "admin",
      { kind: "client", id: "ada", claims: { role: "admin" } },
      true,
    ]);
    host.caller = { kind: "timer" };
    expect(on(host, "return caller.kind, caller.id, caller.claims")).toEqual(["timer", null, null]);
  });

  test("now, uuid, hash", () => {
    expect(
      evaluate("return now(), uuid(), hash.sha256('abc') == hash.sha256(blob('abc')), hash.sha256('abc')"),
    ).toEqual([
      1_700_000_000.25,
      "00000000-0000-7000-8000-000000000000",
      true,
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ]);
  });

  test("json", () => {
    expect(
      evaluate(
        `return json.encode({ a = { 1, null }, b = array{} }), json.decode('{"a":[1,null],"__proto__":{"x":1}}'), json.decode('null')`,
      ),
    ).toStrictEqual(['{"a":[1,null],"b":[]}', JSON.parse('{"a":[1,null],"__proto__":{"x":1}}'), null]);
    expect(failure("json.decode('{')")).toMatchObject({ code: "bad_json" });
    expect(failure("json.encode({ blob('x') })")).toMatchObject({ code: "bad_value" });
    expect(failure("json.encode({ x = print })").message).toBe("value.x is a function");
  });

  test("log and print look at no argument that the line has no room for", () => {
    const host = new FakeHost();
    const code = `local looks = 0
      local late = setmetatable({}, { __tostring = function() looks = looks + 1 return "late" end })
      print(("a"):rep(9000), late) log.info(("€"):rep(9000), late)
      return looks`;
    expect(evaluate(code, undefined, host)).toBe(0);
    expect(host.lines).toEqual([`info: ${"a".repeat(8_192)}...`, `info: ${"€".repeat(8_192)}...`]);
  });

  test("log and print", () => {
    const host = new FakeHost();
    on(
      host,
      "log.debug('d') log.info('bid', 3, { a = { 1 } }, nil, true) log.warn(1.5) log.error({ print }) print('a', 1, null)",
    );
    expect(host.lines.slice(0, 3)).toEqual(["debug: d", 'info: bid 3 {"a":[1]} nil true', "warn: 1.5"]);
    expect(host.lines[3]).toMatch(/^error: table: 0x/);
    expect(host.lines[4]).toBe("info: a\t1\tnull");
  });

  test("none of them is there while the class file loads", () => {
    for (const code of [
      "state.store.get('x')",
      "now()",
      "emit('x')",
      "random()",
      "log.info('x')",
      "local c = caller",
      "send(Auction('x'))",
    ]) {
      expect(() => loadThing(code)).toThrow(
        "can only be used inside a method or a unit's function, not while the file loads",
      );
    }
  });
});
