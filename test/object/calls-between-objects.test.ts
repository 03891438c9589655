import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MoonportError } from "../../src/errors.js";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const Desk = `
local Desk = class "Desk"
Desk.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
local function write(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) return text end
function Desk:add(text) return write(text) end
function Desk:who() return { kind = caller.kind, id = caller.id } end
function Desk:ask_then_write(other) return write(Desk(other):add("asked by " .. self.key) .. "!") end
function Desk:write_then_ask(other)
  write("first")
  local ok, e = pcall(function() Desk(other):add("x") end)
  return { ok = ok, code = e.code, hint = e.hint }
end
function Desk:ask(other, method, ...) return Desk(other)[method](Desk(other), ...) end
function Desk:ask_and_write(other, ...) local value = Desk(other):ask(...) write("after") return value end
function Desk:ask_caught(other, ...)
  local args = table.pack(...)
  local ok, e = pcall(function() return Desk(other):ask(table.unpack(args, 1, args.n)) end)
  if ok then return { value = e } end
  return { code = e.code, path = e.details and e.details.path, message = e.message }
end
function Desk:ask_twice(a, b) local x = Desk(a):add("one") local y = Desk(b):add("two") return write(x .. y) end
function Desk:refuse(text) write(text) error { code = "refused", message = "no", text = text } end
function Desk:walk(other)
  local seen = {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do
    Desk(other):add(row.text)
    seen[#seen + 1] = row.text
  end
  return seen
end
function Desk:ask_and_end(other) Desk(other):add("bye") destroy() end
function Desk:ask_again(other) return Desk(other):add(uuid()) end
function Desk:swap(other) Desk(other):slowly(self.key) return "swapped" end
function Desk:slowly(key) return Desk(key):add("back") end
function Desk:through(path, text)
  if #path == 0 then return write(text) end
  local rest = array {}
  for i = 2, #path do rest[i - 1] = path[i] end
  return write(Desk(path[1]):through(rest, text) .. "<" .. self.key)
end
function Desk:down(n) if n == 0 then return "bottom" end return Desk("n" .. n):down(n - 1) end
function Desk.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
function Desk.read:peek(other) return Desk(other):all() end
return Desk
`;

const Born = `
local Born = class "Born"
function Born:on_create() state.store.set("seed", random()) end
function Born:ask() local seed = state.store.get("seed") Desk("a"):add("x") return seed == state.store.get("seed") end
function Born.read:seed() return state.store.get("seed") end
return Born
`;
const Hooked = `
local Hooked = class "Hooked"
function Hooked:on_create() Desk("a"):add("x") end
function Hooked:go() state.store.set("a", 1) end
return Hooked
`;

const start = (more: VirtualNodeOptions = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Desk, Born, Hooked }, ...more });

const problem = (promise: Promise<unknown>): Promise<MoonportError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error) => error as MoonportError,
  );

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const mark = (): void => {
    settled = true;
  };
  promise.then(mark, mark);
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

/** Objects that are there, with one line each. */
async function desks(node: VirtualNode, ...keys: string[]): Promise<void> {
  for (const key of keys) await node.call(`Desk/${key}`, "add", "before");
}

describe("a method that asks another object", () => {
  it("goes on with its answer, and may write then", async () => {
    const node = await start();
    expect(await node.call("Desk/a", "ask_then_write", "b")).toBe("asked by a!");
    expect(await node.call("Desk/a", "all")).toEqual(["asked by a!"]);
    expect(await node.call("Desk/b", "all")).toEqual(["asked by a"]);
    expect(await node.call("Desk/a", "ask", "b", "who")).toEqual({ kind: "object", id: "default/Desk/a" });
    expect(await node.call("Desk/a", "ask_twice", "b", "c")).toBe("onetwo");
    expect(await node.call("Desk/a", "ask", "b", "all")).toEqual(["asked by a", "one"]);
  });

  it("may not ask once it has written, and is told of send", async () => {
    const node = await start();
    expect(await node.call("Desk/a", "write_then_ask", "b")).toEqual({
      ok: false,
      code: "call_after_write",
      hint: expect.stringContaining('send(Desk("b")):add(...)'),
    });
    expect(await node.call("Desk/a", "all")).toEqual(["first"]);
    expect(await node.call("Desk/b", "all")).toEqual([]);
  });

  it("hears what the other threw as the other's error, and is rolled back by its own", async () => {
    const node = await start();
    await desks(node, "a", "b");
    const error = await problem(node.call("Desk/a", "ask", "b", "refuse", "x"));
    expect(error).toMatchObject({ code: "refused", source: "class", details: { text: "x" }, object: "default/Desk/b" });
    expect(await node.call("Desk/a", "ask_caught", "b", "c", "refuse", "x")).toMatchObject({ code: "refused" });
    expect(await problem(node.call("Desk/a", "ask", "b", "ad", "x"))).toMatchObject({ code: "method_not_found" });
    for (const key of ["a", "b"]) expect(await node.call(`Desk/${key}`, "all")).toEqual(["before"]);
  });

  it("waits inside a loop over its rows, which goes on where it was", async () => {
    const node = await start();
    for (const text of ["x", "y", "z"]) await node.call("Desk/a", "add", text);
    expect(await node.call("Desk/a", "walk", "b")).toEqual(["x", "y", "z"]);
    expect(await node.call("Desk/b", "all")).toEqual(["x", "y", "z"]);
  });

  it("may end its object afterwards", async () => {
    const node = await start();
    await desks(node, "a");
    await node.call("Desk/a", "ask_and_end", "b");
    expect(await node.call("Desk/b", "all")).toEqual(["bye"]);
    expect((await node.time.until(node.node.inspect(node.identity("Desk/a")))).state).toBe("destroyed");
  });

  it("sees after the wait what its first call made before it", async () => {
    const node = await start();
    expect(await node.call("Born/x", "ask")).toBe(true);
  });

  it("is a writing method: reading ones and hooks answer from their own object", async () => {
    const node = await start();
    await desks(node, "a");
    for (const error of [
      await problem(node.call("Desk/a", "peek", "b")),
      await problem(node.call("Desk/new", "peek", "b")),
      await problem(node.call("Hooked/x", "go")),
    ]) {
      expect(error.message).toContain("only a writing method calls other objects");
    }
  });
});

describe("while an object waits", () => {
  it("nothing else of its mailbox runs, what came before is answered, and reads beside it run (O1)", async () => {
    const node = await start({ bucket: { latencyMs: 50 } });
    await desks(node, "a", "b");
    const before = node.start("Desk/a", "add", ["1"]);
    const asking = node.start("Desk/a", "ask_then_write", ["b"]);
    const after = node.start("Desk/a", "add", ["2"]);
    expect((await node.time.until(before)).value).toBe("1");
    await node.time.advance(50);
    expect(await isSettled(asking)).toBe(false);
    const { mailboxCalls, seq } = await node.node.inspect(node.identity("Desk/a"));
    expect([mailboxCalls, seq]).toEqual([1, 2]);
    expect((await node.time.until(node.start("Desk/a", "all"))).value).toEqual(["before", "1"]);
    expect(await isSettled(asking)).toBe(false);
    await node.time.until(Promise.all([asking, after]));
    expect(await node.call("Desk/a", "all")).toEqual(["before", "1", "asked by a!", "2"]);
  });

  it("the call leaves only when what the object committed before has landed, and comes back through the other's gate", async () => {
    const node = await start({ bucket: { latencyMs: 50 } });
    await desks(node, "a", "b");
    const seqOfB = async (): Promise<number> => (await node.node.inspect(node.identity("Desk/b"))).seq;
    const began = node.time.nowMs;
    const write = node.start("Desk/a", "add", ["not landed"]);
    const asking = node.start("Desk/a", "ask_then_write", ["b"]);
    await node.time.advance(90);
    // a's flight is under way, and b has heard of nothing.
    expect(await isSettled(write)).toBe(false);
    expect(await seqOfB()).toBe(1);
    await node.time.advance(20);
    expect(await isSettled(write)).toBe(true);
    // Now b's own is.
    await node.time.advance(80);
    expect(await isSettled(asking)).toBe(false);
    expect((await node.time.until(asking)).value).toBe("asked by a!");
    // One flight of a, one of b, one more of a.
    expect(node.time.nowMs - began).toBe(300);
  });

  it("its class may be replaced: the call ends with the class it began with", async () => {
    const node = await start();
    await desks(node, "a", "b");
    const hold = node.bucket.faults.hold(["write"]);
    const asking = node.start("Desk/a", "ask_then_write", ["b"]);
    await node.time.settle();
    await node.reload({ Desk: Desk.replace('.. "!"', '.. "?"') });
    const next = node.start("Desk/a", "ask_then_write", ["b"]);
    hold.release();
    expect((await node.time.until(asking)).value).toBe("asked by a!");
    expect((await node.time.until(next)).value).toBe("asked by a?");
  });

  it("a node that stops lets it finish, or ends it with the time for that", async () => {
    const node = await start({ settings: { DRAIN_MS: 500, OBJECT_ACK_GATE_MS: 60_000 } });
    await desks(node, "a", "b");
    const hold = node.bucket.faults.hold(["write"]);
    const asking = node.start("Desk/a", "ask_then_write", ["b"]);
    await node.time.settle();
    const stopping = node.node.stop();
    expect(await problem(node.time.until(asking))).toMatchObject({ retryable: true });
    hold.release();
    await node.time.until(stopping);
  });
});

describe("a chain of calls", () => {
  it("that comes back to one of its objects fails at once, with the path", async () => {
    const node = await start();
    await desks(node, "a", "b");
    expect(await problem(node.call("Desk/a", "ask", "a", "add", "x"))).toMatchObject({
      code: "call_cycle",
      message: expect.stringContaining("default/Desk/a → default/Desk/a"),
    });
    const before = node.time.nowMs;
    expect(await node.call("Desk/a", "ask_caught", "b", "a", "add", "x")).toMatchObject({
      code: "call_cycle",
      path: ["default/Desk/a", "default/Desk/b", "default/Desk/a"],
    });
    expect(node.time.nowMs - before).toBeLessThan(1_000);
    // From where it begins does not matter.
    expect(await problem(node.call("Desk/x", "ask", "a", "ask", "b", "ask", "a", "add", "x"))).toMatchObject({
      code: "call_cycle",
      details: { path: ["x", "a", "b", "a"].map((key) => `default/Desk/${key}`) },
    });
  });

  it("is no longer than it may be", async () => {
    const node = await start({ settings: { CALL_CHAIN_MAX: 4 } });
    expect(await node.call("Desk/top", "down", 4)).toBe("bottom");
    expect(await problem(node.call("Desk/top", "down", 5))).toMatchObject({ code: "call_chain_too_long" });
  });

  it("that waits for another one, which waits for it, gives way at once", async () => {
    const node = await start();
    await desks(node, "a", "b");
    const before = node.time.nowMs;
    const chains = [node.start("Desk/a", "ask_then_write", ["b"]), node.start("Desk/b", "ask_then_write", ["a"])];
    const ended = await node.time.until(Promise.allSettled(chains));
    expect(node.time.nowMs - before).toBeLessThan(1_000);
    const failed = ended.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect(failed).toHaveLength(1);
    expect(failed[0]).toMatchObject({
      code: "call_deadlock",
      retryable: true,
      message: expect.stringMatching(/default\/Desk\/(a|b) → default\/Desk\/(a|b) → default\/Desk\/\1$/),
    });
    // Nobody stands in the way of a later one.
    expect(await node.call("Desk/a", "ask", "b", "add", "x")).toBe("x");
    expect(await node.call("Desk/b", "ask", "a", "add", "x")).toBe("x");
  });

  it("has one deadline: whoever asks past it is told what is known", async () => {
    const node = await start();
    await desks(node, "a", "b");
    const hold = node.bucket.faults.hold(["write"]);
    const began = node.time.nowMs;
    const late = node.start("Desk/a", "ask_then_write", ["b"], { timeoutMs: 300, callId: "order-1" });
    expect(await problem(node.time.until(late))).toMatchObject({ code: "outcome_unknown", object: "default/Desk/b" });
    expect(node.time.nowMs - began).toBe(300);
    hold.release();
    await node.time.advance(1_000);
    // Nothing of a is kept, and what b did is not done again.
    expect(await node.call("Desk/a", "all")).toEqual(["before"]);
    const again = node.start("Desk/a", "ask_then_write", ["b"], { callId: "order-1" });
    expect((await node.time.until(again)).value).toBe("asked by a!");
    expect(await node.call("Desk/b", "all")).toEqual(["before", "asked by a"]);
  });

  it("repeated after a crash in the middle repeats nothing", async () => {
    const node = await start();
    await desks(node, "a", "b");
    const hold = node.bucket.faults.hold(["write"], "after");
    const asking = node.start("Desk/a", "ask_then_write", ["b"], { callId: "order-1" });
    await node.time.settle();
    expect(await isSettled(asking)).toBe(false);
    node.crash();
    hold.release();
    await node.time.settle();
    await node.open();
    expect(await node.call("Desk/b", "all")).toEqual(["before", "asked by a"]);
    const again = node.start("Desk/a", "ask_then_write", ["b"], { callId: "order-1" });
    expect((await node.time.until(again)).value).toBe("asked by a!");
    expect(await node.call("Desk/b", "all")).toEqual(["before", "asked by a"]);
    expect(await node.call("Desk/a", "all")).toEqual(["before", "asked by a!"]);
  });

  it("from a unit is settled with the rest", async () => {
    const units = { go: `return function() return Desk("a"):ask_then_write("b") end` };
    const node = await start({ units });
    await desks(node, "a", "b");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("go");
    await node.time.settle();
    expect(await isSettled(response)).toBe(false);
    hold.release();
    expect((await node.time.until(response)).body).toBe('"asked by a!"');
  });
});

describe("many chains at once", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  const chains = fc.array(fc.array(key, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 8 });

  it("all end soon, each with all of its writes or with none", async () => {
    await fc.assert(
      fc.asyncProperty(chains, fc.integer({ min: 1, max: 1_000 }), async (paths, seed) => {
        const node = await start({ seed, bucket: { latencyMs: 5 } });
        const began = node.time.nowMs;
        const calls = paths.map(([first, ...rest], index) =>
          node.start(`Desk/${first}`, "through", [rest, `t${index}`], { callId: `call-${index}` }),
        );
        const ended = await node.time.until(Promise.allSettled(calls));
        expect(node.time.nowMs - began).toBeLessThan(5_000);
        const lines = new Map<string, string[]>();
        for (const one of ["a", "b", "c", "d"]) {
          lines.set(one, (await node.call(`Desk/${one}`, "all")) as string[]);
        }
        for (const [index, path] of paths.entries()) {
          const outcome = ended[index];
          const text = `t${index}`;
          const written = path.map(
            (one) => (lines.get(one) ?? []).filter((line) => line.split("<")[0] === text).length,
          );
          if (outcome?.status === "fulfilled") {
            expect(new Set(path).size).toBe(path.length);
            expect(written).toEqual(path.map(() => 1));
          } else {
            expect(["call_cycle", "call_deadlock"]).toContain(outcome?.reason.code);
            expect(written.every((count) => count === 0)).toBe(true);
          }
        }
        await node.stop();
      }),
      { numRuns: 25 },
    );
  });
});
