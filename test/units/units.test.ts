import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const Note = `
local Note = class "Note"
Note.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
function Note:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) return state.sql.one("SELECT count(*) AS n FROM lines").n end
function Note:refuse(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) error { code = "refused", message = "no", text = text } end
function Note:who() return { kind = caller.kind, id = caller.id, claims = caller.claims } end
function Note.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
function Note.read:count() return state.sql.one("SELECT count(*) AS n FROM lines").n end
return Note
`;

const units = {
  five: `return function(request)
    local n = 0
    for i = 1, 5 do n = n + Note("n" .. i):add("line") end
    return n
  end`,
  own_writes: `return function(request)
    Note("a"):add(request.body)
    local seen = Note("a"):all()
    Note("a"):add("more")
    return { seen = seen, count = Note("a"):count() }
  end`,
  add: `return function(request) return Note(request.body.to):add(request.body.text) end`,
  fail: `return function(request) Note("a"):add("kept") error { code = "later", message = "after all", n = 1 } end`,
  refused: `return function(request)
    if request.body == "caught" then
      local ok, e = pcall(function() Note("a"):refuse("x") end)
      return { ok = ok, code = e.code, message = e.message, text = e.details.text }
    end
    Note("a"):refuse("x")
  end`,
  settle: `return function(request) Note("a"):add("one") settle() Note("a"):add("two") return "done" end`,
  caught: `return function(request) Note("a"):add("one") pcall(settle) return "as if nothing were" end`,
  odd: `return function(request) return Note("a"):who() end`,
  request: `return function(request) return request end`,
  chance: `return function(request) Note("a"):add(uuid() .. random() .. random(100)) return uuid() end`,
  many: `return function(request) local ok, e for i = 1, 20 do ok, e = pcall(function() Note("a"):count() end) end return { ok, e.code } end`,
  reads: `return function(request) return Note("a"):count() end`,
  broken: `return function(request) return nothing.here end`,
  slow: `return function(request) Note("a"):add("one") Note("b"):add("two") Note("c"):add("three") return "done" end`,
};

const start = (more: VirtualNodeOptions = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Note }, units, ...more });

const problem = (promise: Promise<unknown>): Promise<MoonportError> =>
  promise.then(
    () => {
      throw new Error("did not fail");
    },
    (error) => {
      expect(error).toBeInstanceOf(MoonportError);
      return error as MoonportError;
    },
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

const fates = (error: MoonportError): [string, string][] =>
  ((error.details?.calls ?? []) as { object: string; fate: string }[]).map(({ object, fate }) => [
    object.replace("default/Note/", ""),
    fate,
  ]);

describe("a unit's writes, together", () => {
  it("wait for one gate, however many they are", async () => {
    const node = await start();
    await node.unit("five");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("five");
    await node.time.settle();
    // All five are committed and on their way before anything is waited for.
    expect(hold.waiting).toBe(5);
    expect(await isSettled(response)).toBe(false);
    hold.release();
    expect((await node.time.until(response)).body).toBe("10");
  });

  it("take the time of one write", async () => {
    const node = await start({ bucket: { latencyMs: 100 } });
    await node.unit("five");
    const timed = async (work: () => Promise<unknown>): Promise<number> => {
      const before = node.time.nowMs;
      await work();
      return node.time.nowMs - before;
    };
    const one = await timed(() => node.call("Note/n1", "add", "x"));
    expect(await timed(() => node.unit("five"))).toBeLessThan(one * 1.5);
  });

  it("are read by the request that made them, before they are durable", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("own_writes", { body: "second" });
    await node.time.settle();
    expect(await isSettled(response)).toBe(false);
    hold.release();
    const { body } = await node.time.until(response);
    expect(JSON.parse(String(body))).toEqual({ seen: ["first", "second"], count: 3 });
  });

  it("end in outcome_unknown with the list of calls when one cannot be settled", async () => {
    const node = await start({ settings: { OBJECT_ACK_GATE_MS: 1_000 } });
    for (const key of ["a", "b", "c"]) await node.call(`Note/${key}`, "add", "before");
    const hold = node.bucket.faults.hold(["write"]);
    const error = await problem(node.time.until(node.startUnit("slow", { callId: "order-1" })));
    expect(error).toMatchObject({ code: "outcome_unknown", callId: "order-1", retryable: true });
    expect(fates(error)).toEqual([
      ["a", "unsettled"],
      ["b", "unsettled"],
      ["c", "unsettled"],
    ]);
    hold.release();
    await node.time.advance(1_000);
    // The repeat says what became of it, and does nothing twice.
    expect(await node.unit("slow", undefined, { callId: "order-1" })).toBe("done");
    expect(await node.call("Note/b", "all")).toEqual(["before", "two"]);
  });

  it("that an error follows are settled before it leaves", async () => {
    const node = await start();
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("fail");
    await node.time.settle();
    expect(await isSettled(response)).toBe(false);
    hold.release();
    const error = await problem(node.time.until(response));
    expect(error).toMatchObject({ code: "later", source: "class", details: { n: 1 } });
    expect(await node.call("Note/a", "all")).toEqual(["first", "kept"]);
  });

  it("hold back what is read of others' writes, too", async () => {
    const node = await start({ settings: { OBJECT_ACK_GATE_MS: 1_000 } });
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const write = node.start("Note/a", "add", ["second"]);
    const read = node.startUnit("reads");
    await node.time.settle();
    expect(await isSettled(read)).toBe(false);
    expect(await problem(node.time.until(read))).toMatchObject({ code: "not_durable_yet", retryable: true });
    hold.release();
    await problem(node.time.until(write));
  });

  it("are durable at settle(), which no pcall makes up for", async () => {
    const node = await start({ settings: { OBJECT_ACK_GATE_MS: 1_000 } });
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("settle");
    await node.time.settle();
    expect(await problem(node.time.until(response))).toMatchObject({ code: "outcome_unknown" });
    expect(await problem(node.time.until(node.startUnit("caught")))).toMatchObject({ code: "outcome_unknown" });
    hold.release();
    // What would have followed never ran.
    expect(await node.call("Note/a", "all")).toEqual(["first", "one", "one"]);
  });
});

describe("a repeated request", () => {
  it("does nothing twice, after a crash in the middle of it", async () => {
    const node = await start();
    for (const key of ["a", "b", "c"]) await node.call(`Note/${key}`, "add", "before");
    // b's write hangs at the bucket when the power goes.
    const response = node.startUnit("slow", { callId: "order-1" });
    const hold = node.bucket.faults.hold(["write"], "after");
    await node.time.settle();
    expect(await isSettled(response)).toBe(false);
    node.crash();
    hold.release();
    await node.time.settle();
    await node.open();
    expect(await node.unit("slow", undefined, { callId: "order-1" })).toBe("done");
    for (const [key, text] of Object.entries({ a: "one", b: "two", c: "three" })) {
      expect(await node.call(`Note/${key}`, "all")).toEqual(["before", text]);
    }
  });

  it("has the same random numbers and UUIDs, another request has others", async () => {
    const node = await start();
    const first = await node.unit("chance", undefined, { callId: "x" });
    expect(await node.unit("chance", undefined, { callId: "x" })).toBe(first);
    expect(await node.call("Note/a", "count")).toBe(1);
    expect(await node.unit("chance", undefined, { callId: "y" })).not.toBe(first);
    expect(await node.call("Note/a", "count")).toBe(2);
    expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it("of another body is a conflict, not another effect", async () => {
    const node = await start();
    await node.unit("add", { to: "a", text: "x" }, { callId: "k" });
    const error = await problem(node.time.until(node.startUnit("add", { body: { to: "a", text: "y" }, callId: "k" })));
    expect(error).toMatchObject({ code: "id_conflict", callId: "k" });
    // Another unit's request may have the same id.
    await node.unit("own_writes", "z", { callId: "k" });
    expect(await node.call("Note/a", "all")).toEqual(["x", "z", "more"]);
  });

  it("under a UUIDv7 gives its calls ids of the same time", async () => {
    const node = await start({ settings: { OBJECT_ACK_GATE_MS: 100 } });
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const callId = "0190a5d0-1234-7abc-8def-0123456789ab";
    const error = await problem(node.time.until(node.startUnit("settle", { callId })));
    const [call] = (error.details?.calls ?? []) as { callId: string }[];
    expect(call?.callId).toMatch(/^0190a5d0-1234-7[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(call?.callId).not.toBe(callId);
    hold.release();
  });
});

describe("what a called object throws", () => {
  it("can be caught, and uncaught is the unit's own error; nothing of the call is kept", async () => {
    const node = await start();
    expect(await node.unit("refused", "caught")).toEqual({ ok: false, code: "refused", message: "no", text: "x" });
    const error = await problem(node.time.until(node.startUnit("refused", { body: "" })));
    expect(error).toMatchObject({
      code: "refused",
      source: "class",
      details: { text: "x" },
      object: "default/Note/a",
    });
    expect(await node.call("Note/a", "count")).toBe(0);
  });

  it("is told as itself when it never ran: no such class, method, or room", async () => {
    const node = await start();
    await node.reload(
      { Note },
      {
        typo: `return function() Note("a"):ad("x") end`,
        code: `return function() local ok, e = pcall(function() Note("a"):ad("x") end) return e.code end`,
      },
    );
    const error = await problem(node.time.until(node.startUnit("typo")));
    expect(error).toMatchObject({ code: "method_not_found", hint: "did you mean add?" });
    expect(await node.unit("code")).toBe("method_not_found");
  });
});

describe("a request", () => {
  it("reaches the unit as one table, and objects hear of a unit", async () => {
    const node = await start();
    const caller = { kind: "client" as const, id: "ada", claims: { role: "admin" } };
    const request = {
      method: "PUT",
      path: "/a/b",
      query: { q: "1", tag: ["x", "y"] },
      headers: { "x-a": "b" },
      body: { n: 1 },
      caller,
    };
    expect(await node.unit("request", undefined, request)).toEqual(request);
    expect(await node.unit("odd", undefined, { caller })).toEqual({
      kind: "unit",
      id: "odd",
      claims: { role: "admin" },
    });
  });

  it("whose caller has gone ends at the next wait", async () => {
    const node = await start();
    for (const key of ["a", "c"]) await node.call(`Note/${key}`, "add", "before");
    // b was never there: claiming it asks the bucket.
    const hold = node.bucket.faults.hold();
    const gone = new AbortController();
    const response = node.startUnit("slow", { signal: gone.signal });
    await node.time.settle();
    gone.abort();
    expect(await problem(node.time.until(response))).toMatchObject({ code: "caller_gone" });
    hold.release();
    expect(await node.call("Note/a", "all")).toEqual(["before", "one"]);
    expect(await node.call("Note/b", "all")).toEqual([]);
    expect(await node.call("Note/c", "all")).toEqual(["before"]);
  });

  it("whose time is up tells what is known of its calls", async () => {
    const node = await start();
    for (const key of ["a", "b", "c"]) await node.call(`Note/${key}`, "add", "before");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("slow", { timeoutMs: 200 });
    const error = await problem(node.time.until(response));
    expect(error.code).toBe("outcome_unknown");
    expect(fates(error).map(([, fate]) => fate)).toEqual(["unsettled", "unsettled", "unsettled"]);
    hold.release();
    await node.time.advance(1_000);
    // Where nothing was written there is nothing to be in doubt about.
    const again = node.bucket.faults.hold(["write"]);
    const write = node.start("Note/a", "add", ["x"]);
    const late = await problem(node.time.until(node.startUnit("reads", { timeoutMs: 200 })));
    expect(late.code).toBe("deadline_exceeded");
    again.release();
    await node.time.until(write);
  });

  it("makes no more calls than it may, and no more of them run than the node takes", async () => {
    const node = await start({ settings: { UNIT_CALLS_MAX: 10, UNITS_RUNNING_MAX: 2 } });
    expect(await node.unit("many")).toEqual([false, "unit_calls_exceeded"]);
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const running = [node.startUnit("settle"), node.startUnit("settle")];
    await node.time.settle();
    expect(await problem(node.startUnit("settle"))).toMatchObject({ code: "units_full", retryable: true });
    hold.release();
    await node.time.until(Promise.all(running));
    expect(await node.unit("many")).toEqual([false, "unit_calls_exceeded"]);
  });

  it("to a unit that is not there names the nearest", async () => {
    const node = await start();
    expect(await problem(node.startUnit("fives"))).toMatchObject({
      code: "unit_not_found",
      hint: "did you mean five?",
    });
    expect(await problem(node.startUnit("five", { app: "other" }))).toMatchObject({ code: "app_not_found" });
    const error = await problem(node.time.until(node.startUnit("broken")));
    expect(error).toMatchObject({ code: "method_error", message: expect.stringContaining("units/broken.lua:1") });
  });

  it("ends with the node", async () => {
    const node = await start({ settings: { DRAIN_MS: 500, OBJECT_ACK_GATE_MS: 60_000 } });
    await node.call("Note/a", "add", "first");
    const hold = node.bucket.faults.hold(["write"]);
    const response = node.startUnit("settle", { timeoutMs: 60_000 });
    await node.time.settle();
    const stopping = node.node.stop();
    expect(await problem(node.time.until(response))).toMatchObject({ code: "outcome_unknown" });
    hold.release();
    await node.time.until(stopping);
    expect(await problem(node.startUnit("settle"))).toMatchObject({ code: "node_stopping" });
  });
});

describe("unit files", () => {
  it("are loaded, replaced and listed like classes; a broken one harms no other", async () => {
    const node = await start();
    const listed = await node.node.units();
    expect(listed.map(({ name }) => name)).toEqual(Object.keys(units));
    node.observations.length = 0;
    await node.reload({ Note }, { five: "return function() return 'new' end", add: "return 1", fresh: "return nil" });
    expect(await node.unit("five")).toBe("new");
    // Its last good version goes on.
    expect(await node.unit("add", { to: "a", text: "x" })).toBe(1);
    expect(await problem(node.startUnit("fresh"))).toMatchObject({ code: "unit_invalid" });
    expect(await problem(node.startUnit("odd"))).toMatchObject({ code: "unit_not_found" });
    const told = node.observations.map((one) => [one.kind, "name" in one ? one.name : "file" in one ? one.file : ""]);
    expect(told.filter(([kind]) => kind !== "unit_removed" && kind?.startsWith("unit"))).toEqual([
      ["unit_failed", "units/add.lua"],
      ["unit_failed", "units/fresh.lua"],
      ["unit_loaded", "five"],
    ]);
    expect(told).toContainEqual(["unit_removed", "odd"]);
    const { classErrors } = await node.node.status();
    expect(classErrors.map(({ file }) => file)).toEqual(["units/add.lua", "units/fresh.lua"]);
  });

  it("stop the start where classes do", async () => {
    const error = await problem(start({ units: { "Bad name": "return 1" } }));
    expect(error).toMatchObject({ code: "class_invalid", details: { files: [{ file: "units/Bad name.lua" }] } });
  });
});
