/** Calls that wait for their turn: how long at most, for whom, and what becomes of their places. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LOOK_STEP_MS } from "../../src/world/deadlines.js";
import { VirtualNode } from "../support/virtual-node.js";

const Desk = `
local Desk = class "Desk"
Desk.migrations = { "CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT NOT NULL)" }
function Desk:add(text) state.sql.exec("INSERT INTO lines (text) VALUES (?)", text) return text end
function Desk:ask(other) return Desk(other):add("asked by " .. self.key) end
function Desk:spin(n) for i = 1, n do local x = i end return "spun" end
function Desk:spin_and_end(n)
  self:add("last")
  for i = 1, n do local x = i end
  destroy()
end
function Desk.read:all()
  local found = array {}
  for row in state.sql.each("SELECT text FROM lines ORDER BY id") do found[#found + 1] = row.text end
  return found
end
return Desk
`;

const start = (more: Parameters<typeof VirtualNode.start>[0] = {}): Promise<VirtualNode> =>
  VirtualNode.start({ classes: { Desk }, ...more });

interface Ending {
  /** What the call returned, or the code it failed with. */
  readonly said: unknown;
  readonly atMs: number;
}

function ending({ time }: VirtualNode, call: Promise<{ readonly value: unknown }>): Promise<Ending> {
  return call.then(
    ({ value }) => ({ said: value, atMs: time.nowMs }),
    ({ code }: { code: string }) => ({ said: code, atMs: time.nowMs }),
  );
}

describe("a call that waits", () => {
  it("for its object's claim is answered at its deadline, and never runs", async () => {
    const node = await start({ bucket: { latencyMs: 100 } });
    const began = node.time.nowMs;
    const calls = [35, 90, undefined].map((timeoutMs) =>
      ending(node, node.start("Desk/a", "add", [timeoutMs ?? 0], timeoutMs === undefined ? {} : { timeoutMs })),
    );
    const [first, second, patient] = (await node.time.until(Promise.all(calls))) as [Ending, Ending, Ending];
    expect([first.said, second.said, patient.said]).toEqual(["deadline_exceeded", "deadline_exceeded", 0]);
    expect([first.atMs - began, second.atMs - began]).toEqual([40, 100]);
    expect(patient.atMs - began).toBeGreaterThan(300);
    expect(await node.call("Desk/a", "all")).toEqual(["0"]);
  });

  it("behind one that asks another object is answered at its deadline", async () => {
    const node = await start();
    await node.call("Desk/a", "add", "before");
    const hold = node.bucket.gate();
    const asking = ending(node, node.start("Desk/a", "ask", ["b"]));
    await node.time.settle();
    const began = node.time.nowMs;
    const late = await node.time.until(ending(node, node.start("Desk/a", "add", ["late"], { timeoutMs: 45 })));
    expect(late).toEqual({ said: "deadline_exceeded", atMs: began + 50 });
    hold.release();
    expect(await node.time.until(asking)).toMatchObject({ said: "asked by a" });
    expect(await node.call("Desk/a", "all")).toEqual(["before"]);
  });

  it("gives its place to others at its deadline", async () => {
    const node = await start({ bucket: { latencyMs: 1_000 }, settings: { OBJECT_MAILBOX_MAX: 2 } });
    const short = [1, 2].map(() => ending(node, node.start("Desk/a", "add", ["short"], { timeoutMs: 100 })));
    expect((await ending(node, node.start("Desk/a", "add", ["too many"]))).said).toBe("mailbox_full");
    await node.time.until(Promise.all(short));
    const others = [1, 2].map((n) => ending(node, node.start("Desk/a", "add", [`other ${n}`])));
    const said = (await node.time.until(Promise.all(others))).map((one) => one.said);
    expect(said).toEqual(["other 1", "other 2"]);
  });

  it("for nobody any longer gives its place to others when they need it", async () => {
    const node = await start({ bucket: { latencyMs: 1_000 }, settings: { OBJECT_MAILBOX_MAX: 2 } });
    const caller = new AbortController();
    const gone = [1, 2].map(() => ending(node, node.start("Desk/a", "add", ["gone"], { signal: caller.signal })));
    caller.abort();
    const others = [1, 2].map((n) => ending(node, node.start("Desk/a", "add", [`other ${n}`])));
    expect((await node.time.until(Promise.all(others))).map(({ said }) => said)).toEqual(["other 1", "other 2"]);
    expect((await Promise.all(gone)).map(({ said }) => said)).toEqual(["caller_gone", "caller_gone"]);
    expect(await node.call("Desk/a", "all")).toEqual(["other 1", "other 2"]);
  });

  it("leaves an object that opens for nobody any more unwritten and able to leave", async () => {
    const node = await start({ bucket: { latencyMs: 100 } });
    const late = ending(node, node.start("Desk/a", "add", ["late"], { timeoutMs: 30 }));
    expect((await node.time.until(late)).said).toBe("deadline_exceeded");
    await node.time.advance(120_000);
    expect(await node.time.until(node.node.status())).toMatchObject({ residents: 0 });
    expect(await node.call("Desk/a", "all")).toEqual([]);
  });

  it("either runs or is told that it did not, whatever the bucket takes and whoever goes", async () => {
    const one = fc.record({
      key: fc.constantFrom("a", "b"),
      method: fc.constantFrom("add", "add", "ask", "spin"),
      timeoutMs: fc.option(fc.nat(400), { nil: undefined }),
      goesAfterMs: fc.option(fc.nat(300), { nil: undefined, freq: 4 }),
      pauseMs: fc.constantFrom(0, 0, 0, 1, 20, 150),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { minLength: 1, maxLength: 25 }), fc.nat(120), async (calls, latencyMs) => {
        const node = await start({ bucket: { latencyMs }, settings: { OBJECT_MAILBOX_MAX: 8 } });
        const added = new Set<string>();
        const endings = [];
        for (const [n, { key, method, timeoutMs, goesAfterMs, pauseMs }] of calls.entries()) {
          const caller = new AbortController();
          if (goesAfterMs !== undefined) node.time.after(goesAfterMs, () => caller.abort());
          const text = `${n}`;
          const args = method === "add" ? [text] : method === "ask" ? ["c"] : [10];
          const began = node.time.nowMs;
          const more = { signal: caller.signal, ...(timeoutMs !== undefined && { timeoutMs }) };
          const call = ending(node, node.start(`Desk/${key}`, method, args, more)).then(({ said, atMs }) => {
            const waitedMs = atMs - began;
            if (said === "deadline_exceeded") {
              expect(waitedMs).toBeGreaterThanOrEqual(timeoutMs ?? 30_000);
              // What ran and asked another object in vain tells so through the gate.
              if (method !== "ask") expect(waitedMs).toBeLessThanOrEqual((timeoutMs ?? 30_000) + LOOK_STEP_MS);
            } else if (said === "caller_gone") expect(waitedMs).toBeGreaterThanOrEqual(goesAfterMs ?? Number.NaN);
            else expect([text, "spun", `asked by ${key}`, "mailbox_full", "outcome_unknown"]).toContain(said);
            if (method === "add" && said === text) added.add(text);
          });
          endings.push(call);
          await node.time.advance(pauseMs);
        }
        await node.time.until(Promise.all(endings));
        const lines = [
          ...((await node.call("Desk/a", "all")) as string[]),
          ...((await node.call("Desk/b", "all")) as string[]),
        ];
        expect(new Set(lines)).toEqual(added);
        await node.stop();
      }),
      { numRuns: 40 },
    );
  });
});

describe("a read that waits for a writer", () => {
  it("which destroys the object reads what is there then: nothing", async () => {
    const node = await start();
    await node.call("Desk/a", "add", "first");
    node.world.lookCostMs = 0.5;
    const writer = ending(node, node.start("Desk/a", "spin_and_end", [20_000]));
    for (let turn = 0; turn < 3; turn++) await node.time.settleOnce();
    const object = node.identity("Desk/a");
    const reading = { className: "Desk", method: "all", args: [] };
    const reads = [
      ending(node, node.start("Desk/a", "all")),
      ending(node, node.node.source.evaluate(object, reading, { kind: "client" })),
    ];
    expect((await node.time.until(Promise.all([writer, ...reads]))).map(({ said }) => said)).toEqual([null, [], []]);
  });
});
