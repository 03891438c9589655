import { afterEach, describe, expect, it } from "vitest";
import type { CallReply } from "../../src/node-api.js";
import type { PlainValue } from "../../src/values.js";
import { watchFaultPoints } from "../../src/world/fault-point.js";
import { VirtualNode } from "../support/virtual-node.js";

const Ledger = `
local Ledger = class "Ledger"
Ledger.migrations = { "CREATE TABLE entries (id INTEGER PRIMARY KEY, what TEXT NOT NULL)" }
function Ledger:write(...)
  for _, what in ipairs({...}) do state.sql.exec("INSERT INTO entries (what) VALUES (?)", what) end
  emit("wrote", { count = select("#", ...) })
  return select("#", ...)
end
function Ledger:write_ten_and_throw()
  for n = 1, 10 do
    state.sql.exec("INSERT INTO entries (what) VALUES (?)", "doomed " .. n)
    state.store.set("n" .. n, n)
    emit("doomed", n)
    schedule.after("1h"):write("x")
    send(Ledger("other")):write("x")
  end
  error { code = "changed_my_mind", message = "no", at = 10 }
end
function Ledger:write_caught()
  pcall(function() state.sql.exec("INSERT INTO entries (what) VALUES ('kept')"); error("caught") end)
  return "done"
end
function Ledger:number(id)
  local _, last = state.sql.exec("INSERT INTO entries (id, what) VALUES (?, 'numbered')", id)
  return { last = last, there = state.sql.one("SELECT count(*) AS n FROM entries WHERE id = ?", last).n }
end
function Ledger:fail(text) error(text) end
function Ledger:look() return #state.sql.all("SELECT * FROM entries") end
function Ledger:remember(x) state.store.set("x", x) return x end
function Ledger:spin(n) local x = 0 for i = 1, n do x = x + i end state.store.set("spun", x) return x end
function Ledger:plan() schedule.after("10m", { name = "later" }):write("y") send(Ledger("b"), { delay = "5s", id = "m1" }):write("z") return schedule.list() end
function Ledger:_private() return 1 end
function Ledger.read:all()
  local found = array {}
  for row in state.sql.each("SELECT what FROM entries ORDER BY id") do found[#found + 1] = row.what end
  return found
end
function Ledger.read:sneak() state.store.set("x", 1) end
function Ledger.read:sneak_sql() state.sql.exec("DELETE FROM entries") end
function Ledger.read:who() return { kind = caller.kind, id = caller.id, key = self.key, class = self.class, app = self.app, oid = self.id } end
return Ledger
`;

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Ledger }, ...more });

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "no error",
    (error: { code?: string }) => error.code ?? String(error),
  );
}

it("a method gets the id of a new row as a number, and as text where no number holds it", async () => {
  const node = await start();
  expect(await node.call("Ledger/a", "number", 7)).toEqual({ last: 7, there: 1 });
  const big = "9007199254740993";
  expect(await node.call("Ledger/a", "number", big)).toEqual({ last: big, there: 1 });
});

describe("a call is one transaction", () => {
  it("leaves nothing of a method that throws after ten writes", async () => {
    const node = await start();
    await node.call("Ledger/a", "write", "before");
    const failed = node.call("Ledger/a", "write_ten_and_throw");
    await expect(failed).rejects.toMatchObject({ code: "changed_my_mind", source: "class", details: { at: 10 } });
    expect(await node.call("Ledger/a", "all")).toEqual(["before"]);
    const seen = await node.time.until(node.node.inspect(node.identity("Ledger/a")));
    expect(seen).toMatchObject({ seq: 1, timers: 0, outbox: 0, events: { count: 1, last: 1 } });
    expect(await node.time.until(node.node.storeList(node.identity("Ledger/a"), ""))).toEqual([]);
  });

  it("keeps what was written before an error that the method caught", async () => {
    const node = await start();
    expect(await node.call("Ledger/a", "write_caught")).toBe("done");
    expect(await node.call("Ledger/a", "all")).toEqual(["kept"]);
  });

  it("keeps what a statement had done before it failed, or a trigger where it did nothing, and the method caught", async () => {
    const Half = `
      local Half = class "Half"
      Half.migrations = {
        "CREATE TABLE t (a INTEGER UNIQUE)", "CREATE TABLE log (a INTEGER)",
        "CREATE TRIGGER seen BEFORE INSERT ON t WHEN new.a > 100 BEGIN INSERT INTO log VALUES (new.a); END",
      }
      function Half:fail_halfway() return (pcall(state.sql.exec, "INSERT OR FAIL INTO t VALUES (1), (2), (1)")) end
      function Half:twice() return state.sql.exec("INSERT OR IGNORE INTO t VALUES (101)") end
      function Half.read:all()
        return { t = state.sql.one("SELECT count(*) AS n FROM t").n, log = state.sql.one("SELECT count(*) AS n FROM log").n }
      end
      return Half`;
    const node = await VirtualNode.start({ classes: { Half } });
    expect(await node.call("Half/h", "fail_halfway")).toBe(false);
    expect(await node.call("Half/h", "all")).toEqual({ t: 2, log: 0 });
    for (let time = 0; time < 3; time++) await node.call("Half/h", "twice");
    expect(await node.call("Half/h", "all")).toEqual({ t: 3, log: 3 });
  });

  it("commits events, timers and messages with the call, for delivery later", async () => {
    const node = await start();
    const timers = (await node.call("Ledger/a", "plan")) as PlainValue[];
    expect(timers).toHaveLength(1);
    const inspect = () => node.time.until(node.node.inspect(node.identity("Ledger/a")));
    expect(await inspect()).toMatchObject({ timers: 1 });
    await node.time.advance(6_000);
    expect(await node.call("Ledger/b", "all")).toEqual(["z"]);
    expect(await inspect()).toMatchObject({ timers: 1, outbox: 0 });
    await node.time.advance(600_000);
    expect(await node.call("Ledger/a", "all")).toEqual(["y"]);
    expect(await inspect()).toMatchObject({ timers: 0, outbox: 0 });
  });

  it("runs a burst in mailbox order, and a throw rolls back its own call alone", async () => {
    const node = await start();
    const calls = ["a", "b", "throw", "c"].map((what) =>
      what === "throw" ? node.start("Ledger/x", "write_ten_and_throw") : node.start("Ledger/x", "write", [what]),
    );
    const settled = await node.time.until(Promise.allSettled(calls));
    expect(settled.map((one) => (one.status === "fulfilled" ? one.value.seq : one.reason.code))).toEqual([
      1,
      2,
      "changed_my_mind",
      3,
    ]);
    expect(await node.call("Ledger/x", "all")).toEqual(["a", "b", "c"]);
    expect(node.flights("Ledger/x")).toMatchObject([{ flight: 1, seq: 3, ticketsReleased: 4 }]);
  });

  it("gives a method that wrote nothing no seq, and nothing to ship", async () => {
    const node = await start();
    await node.call("Ledger/a", "write", "x");
    const reply = await node.time.until(node.start("Ledger/a", "look"));
    expect(reply).toEqual({ value: 1 });
    expect(node.flights("Ledger/a")).toHaveLength(1);
  });

  it("leaves no object behind when the first call ever fails or writes nothing", async () => {
    const node = await start();
    expect(await codeOf(node.call("Ledger/typo", "fail", "no such thing"))).toBe("method_error");
    await node.call("Ledger/typo", "look");
    expect(await node.time.until(node.node.inspect(node.identity("Ledger/typo")))).toMatchObject({
      state: "unwritten",
    });
    expect(await node.call("Ledger/typo", "all")).toEqual([]);
  });
});

describe("who may be called", () => {
  it("answers misspelled apps, classes and methods with the nearest right one", async () => {
    const node = await start();
    await expect(node.call("Leger/a", "write")).rejects.toMatchObject({
      code: "class_not_found",
      hint: "did you mean Ledger?",
    });
    await expect(node.call("Ledger/a", "wrote")).rejects.toMatchObject({
      code: "method_not_found",
      hint: "did you mean write?",
    });
  });

  it("does not find private methods and hooks from outside", async () => {
    const node = await start();
    expect(await codeOf(node.call("Ledger/a", "_private"))).toBe("method_not_found");
    expect(await codeOf(node.call("Ledger/a", "on_wake"))).toBe("method_not_found");
  });

  it("refuses writes in reading methods, of the store and of SQL", async () => {
    const node = await start();
    await node.call("Ledger/a", "write", "x");
    expect(await codeOf(node.call("Ledger/a", "sneak"))).toBe("read_only");
    expect(await codeOf(node.call("Ledger/a", "sneak_sql"))).toBe("read_only");
    expect(await node.call("Ledger/a", "all")).toEqual(["x"]);
  });

  it("tells the class who it is and who calls", async () => {
    const node = await start();
    expect(await node.call("Ledger/k/1", "who")).toEqual({
      kind: "client",
      key: "k/1",
      class: "Ledger",
      app: "default",
      oid: "default/Ledger/k/1",
    });
  });
});

describe("the mailbox", () => {
  it("holds so many calls and refuses one more with a hint when to retry", async () => {
    const node = await start({ settings: { OBJECT_MAILBOX_MAX: 3 } });
    const calls = [1, 2, 3, 4].map((n) => node.start("Ledger/a", "write", [`${n}`]));
    const settled = await node.time.until(Promise.allSettled(calls));
    expect(settled.map((one) => one.status)).toEqual(["fulfilled", "fulfilled", "fulfilled", "rejected"]);
    await expect(calls[3]).rejects.toMatchObject({ code: "mailbox_full", retryable: true, retryAfterMs: 1_000 });
    expect(await node.call("Ledger/a", "all")).toEqual(["1", "2", "3"]);
  });

  it("skips a call whose caller has gone before its turn came", async () => {
    const node = await start();
    const gone = new AbortController();
    const first = node.start("Ledger/a", "write", ["first"]);
    const skipped = node.start("Ledger/a", "write", ["skipped"], { signal: gone.signal });
    gone.abort();
    await node.time.until(first);
    expect(await codeOf(node.time.until(skipped))).toBe("caller_gone");
    expect(await node.call("Ledger/a", "all")).toEqual(["first"]);
  });

  it("does not run a call whose deadline passed while it waited", async () => {
    const node = await start({ bucket: { latencyMs: 100 } });
    // The claim alone takes 400 ms.
    const late = node.start("Ledger/a", "write", ["late"], { timeoutMs: 50 });
    expect(await codeOf(node.time.until(late))).toBe("deadline_exceeded");
    expect(await node.call("Ledger/a", "all")).toEqual([]);
  });
});

describe("calls that come in one turn", () => {
  afterEach(() => watchFaultPoints(() => {}));

  it("share a COMMIT, however far apart in it they come, and in their order", async () => {
    const node = await start();
    await node.call("Ledger/a", "write", "awake");
    let commits = 0;
    watchFaultPoints((point) => {
      if (point === "burst.committed") commits++;
    });
    const replies: Promise<CallReply>[] = [];
    // As sockets are read: whoever resolves promises in between has all of them run before the next one is read.
    for (let call = 0; call < 20; call++) {
      replies.push(node.start("Ledger/a", "write", [`${call}`]));
      for (let microtask = 0; microtask < 30; microtask++) await Promise.resolve();
    }
    const seqs = (await node.time.until(Promise.all(replies))).map(({ seq }) => seq);
    expect(seqs).toEqual(Array.from({ length: 20 }, (_, index) => index + 2));
    expect(commits).toBe(1);
  });
});

describe("call ids", () => {
  const id = (n: number): string => `0197a000-0000-7000-8000-${String(n).padStart(12, "0")}`;

  it("answer a repeat with the recorded reply and run nothing twice", async () => {
    const node = await start();
    const first = await node.time.until(node.start("Ledger/a", "write", ["once"], { callId: id(1) }));
    const again = await node.time.until(node.start("Ledger/a", "write", ["once"], { callId: id(1) }));
    expect(again).toEqual(first);
    expect(await node.call("Ledger/a", "all")).toEqual(["once"]);
  });

  it("answer a repeat that waits in the same burst", async () => {
    const node = await start();
    const both = [1, 2].map(() => node.start("Ledger/a", "write", ["once"], { callId: id(1) }));
    const [first, second] = await node.time.until(Promise.all(both));
    expect(second).toEqual(first);
    expect(await node.call("Ledger/a", "all")).toEqual(["once"]);
  });

  it("answer a repeat after a crash, from the restored object", async () => {
    const node = await start();
    await node.time.until(node.start("Ledger/a", "write", ["once"], { callId: id(1) }));
    node.crash();
    await node.open();
    const again = await node.time.until(node.start("Ledger/a", "write", ["once"], { callId: id(1) }));
    expect(again).toEqual({ value: 1, seq: 1 });
    expect(await node.call("Ledger/a", "all")).toEqual(["once"]);
  });

  it("refuse the same id with other arguments", async () => {
    const node = await start();
    await node.time.until(node.start("Ledger/a", "write", ["one"], { callId: id(1) }));
    expect(await codeOf(node.time.until(node.start("Ledger/a", "write", ["two"], { callId: id(1) })))).toBe(
      "id_conflict",
    );
  });

  it("let a failed call be tried again with its id", async () => {
    const node = await start();
    const call = (): Promise<string> =>
      codeOf(node.time.until(node.start("Ledger/a", "write_ten_and_throw", [], { callId: id(1) })));
    expect(await call()).toBe("changed_my_mind");
    expect(await call()).toBe("changed_my_mind");
  });

  it("refuse an id that is older than what was pruned, rather than run it again", async () => {
    const node = await start({ settings: { CALL_ID_RETENTION_MS: 1_000, CALL_ID_ROWS_MAX: 1_000 } });
    for (let n = 0; n < 64; n++) await node.time.until(node.start("Ledger/a", "remember", [n], { callId: id(n) }));
    await node.time.advance(10_000);
    for (let n = 64; n < 128; n++) await node.time.until(node.start("Ledger/a", "remember", [n], { callId: id(n) }));
    const refused = node.time.until(node.start("Ledger/a", "remember", [1], { callId: id(1) }));
    const freshFromMs = node.world.clock.wallMs();
    await expect(refused).rejects.toMatchObject({ code: "id_expired", details: { callId: id(1), freshFromMs } });
    expect(await node.call("Ledger/a", "remember", 1)).toBe(1);
  });

  it("name a time from which on ids are fresh, also where a clock that is ahead made the newest forgotten", async () => {
    const node = await start({ settings: { CALL_ID_ROWS_MAX: 1 } });
    const idOf = (ms: number, n: number): string => {
      const time = Math.floor(ms).toString(16).padStart(12, "0");
      return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(n).padStart(12, "0")}`;
    };
    const nowMs = node.world.clock.wallMs();
    for (let n = 0; n < 128; n++)
      await node.time.until(node.start("Ledger/a", "remember", [n], { callId: idOf(nowMs + 30_000 + n, n) }));
    const call = (callId: string): Promise<CallReply> =>
      node.time.until(node.start("Ledger/a", "remember", [0], { callId }));
    const refused = await call(idOf(nowMs, 200)).catch((error: { details: { freshFromMs: number } }) => error);
    expect(refused).toMatchObject({ code: "id_expired", details: { freshFromMs: nowMs + 30_127 } });
    expect(await call(idOf(nowMs + 30_127, 201))).toMatchObject({ value: 0 });
  });
});

describe("reads that need several slices", () => {
  const Slow = `
local Slow = class "Slow"
function Slow:start() state.store.set("x", 0) end
function Slow:fail(before, after)
  local n = 0
  for i = 1, before do n = n + i end
  state.store.set("x", 1)
  for i = 1, after do n = n + i end
  error { code = "undone", message = "no" }
end
function Slow.read:x(before, after)
  local n = 0
  for i = 1, before do n = n + i end
  local x = state.store.get("x")
  for i = 1, after do n = n + i end
  return { x, state.store.get("x") }
end
return Slow`;

  it("never see what a writer beside them writes and undoes, whenever either begins", async () => {
    const node = await VirtualNode.start({
      classes: { Slow },
      settings: { METHOD_SLICE_MS: 1, METHOD_BUDGET_MS: 60_000 },
    });
    await node.call("Slow/a", "start");
    node.world.lookCostMs = 0.5;
    for (let round = 0; round < 12; round++) {
      const writer = node.start("Slow/a", "fail", [round * 4_000, 20_000]);
      const readers: Promise<CallReply>[] = [];
      for (let n = 0; n < 4; n++) {
        await node.time.settleOnce();
        readers.push(node.start("Slow/a", "x", [(n * 17_000) % 50_000, 20_000]));
      }
      const settled = await node.time.until(Promise.all([codeOf(writer), ...readers]));
      expect(settled[0]).toBe("undone");
      for (const reply of settled.slice(1)) expect(reply).toMatchObject({ value: [0, 0] });
    }
  });
});

describe("long calls", () => {
  it("give other objects their turn between slices, and reads of unwritten state too", async () => {
    const node = await start({ settings: { METHOD_SLICE_MS: 1, METHOD_BUDGET_MS: 60_000 } });
    await node.call("Ledger/slow", "write", "x");
    await node.call("Ledger/quick", "write", "x");
    node.world.lookCostMs = 0.5;
    const order: string[] = [];
    const slow = node.start("Ledger/slow", "spin", [3_000_000]).then(() => order.push("slow"));
    const quick = node.start("Ledger/quick", "write", ["y"]).then(() => order.push("quick"));
    const read = node.start("Ledger/slow", "all").then(() => order.push("read"));
    await node.time.until(Promise.all([slow, quick, read]));
    expect(order.indexOf("quick")).toBeLessThan(order.indexOf("slow"));
    expect(order.indexOf("read")).toBeLessThan(order.indexOf("slow"));
  });
});
