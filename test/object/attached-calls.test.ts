/** A call that is asked for again while it runs: one call, with as many who hear of it as asked. */
import { describe, expect, it } from "vitest";
import { VirtualNode, type VirtualNodeOptions } from "../support/virtual-node.js";

const Desk = `
local Desk = class "Desk"
Desk.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT)" }
function Desk:add(text)
  state.sql.exec("INSERT INTO lines (text) VALUES (?)", text)
  return text
end
function Desk:ask(other, text) return self:add(Desk(other):add(text) .. "!") end
function Desk:ask_and_fail(other, text)
  Desk(other):add(text)
  error { code = "no", message = "not so" }
end
function Desk.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
return Desk`;

/** Two desks with a line each: a call of one that asks the other is under way for a tenth of a second. */
async function start(options: VirtualNodeOptions = {}): Promise<VirtualNode> {
  const node = await VirtualNode.start({ classes: { Desk }, bucket: { latencyMs: 50 }, ...options });
  for (const desk of ["a", "b"]) await node.call(`Desk/${desk}`, "add", "-");
  return node;
}

describe("a repeat of a call that runs", () => {
  it("gets what the call gets, and nothing runs for it", async () => {
    const node = await start();
    const first = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    await node.time.advance(50);
    const repeats = [1, 2, 3].map(() => node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" }));
    const { seq } = await node.time.until(first);
    for (const repeat of repeats) expect(await node.time.until(repeat)).toMatchObject({ value: "x!", seq });
    expect(await node.call("Desk/a", "all")).toEqual(["-", "x!"]);
    expect(await node.call("Desk/b", "all")).toEqual(["-", "x"]);
  });

  it("needs no place in a mailbox that is full", async () => {
    const node = await start({ settings: { OBJECT_MAILBOX_MAX: 1 } });
    const first = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    await node.time.advance(50);
    const waiting = node.start("Desk/a", "add", ["y"]);
    const repeat = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    // Only so many hear of it.
    const further = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    await expect(node.time.until(further)).rejects.toMatchObject({ code: "mailbox_full" });
    expect((await node.time.until(repeat)).value).toBe("x!");
    await node.time.until(Promise.all([first, waiting]));
    expect(await node.call("Desk/a", "all")).toEqual(["-", "x!", "y"]);
  });

  it("hears what the call threw, and may be tried again after that", async () => {
    const node = await start();
    const first = node.start("Desk/a", "ask_and_fail", ["b", "x"], { callId: "order-1" });
    await node.time.advance(50);
    const repeat = node.start("Desk/a", "ask_and_fail", ["b", "x"], { callId: "order-1" });
    await expect(node.time.until(first)).rejects.toMatchObject({ code: "no" });
    await expect(node.time.until(repeat)).rejects.toMatchObject({ code: "no" });
    await expect(
      node.time.until(node.start("Desk/a", "ask_and_fail", ["b", "x"], { callId: "order-1" })),
    ).rejects.toMatchObject({ code: "no" });
    expect(await node.call("Desk/b", "all")).toEqual(["-", "x"]);
  });

  it("with other arguments, or of another method, is another call under its id, and refused when that ran", async () => {
    const node = await start();
    const first = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    await node.time.advance(50);
    const others = [
      node.start("Desk/a", "ask", ["b", "y"], { callId: "order-1" }),
      node.start("Desk/a", "add", ["x"], { callId: "order-1" }),
    ];
    expect((await node.time.until(first)).value).toBe("x!");
    for (const other of others) await expect(node.time.until(other)).rejects.toMatchObject({ code: "id_conflict" });
    expect(await node.call("Desk/a", "all")).toEqual(["-", "x!"]);
  });

  it("waits at the gate with it: neither is told before the write has landed", async () => {
    const node = await start();
    const toldMs: number[] = [];
    const first = node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" });
    await node.time.advance(50);
    const asked = [first, node.start("Desk/a", "ask", ["b", "x"], { callId: "order-1" })];
    for (const one of asked) void one.then(() => toldMs.push(node.time.nowMs));
    // b's write has landed, a's is on its way.
    await node.time.advance(60);
    expect(await node.call("Desk/b", "all")).toEqual(["-", "x"]);
    expect(toldMs).toEqual([]);
    await node.time.until(Promise.all(asked));
    expect(toldMs[0]).toBe(toldMs[1]);
  });
});
