/** What a class that sends is told of its messages: `outcome` and `outcome_event` of `send`, in each state that a message ends in. */
import { describe, expect, it } from "vitest";
import type { PlainValue } from "../../src/values.js";
import { RecordingSink } from "../realtime/support.js";
import { VirtualNode } from "../support/virtual-node.js";

const ASKER = `
local Asker = class "Asker"
local METHODS = { done = "carve", dead = "break_off", expired = "carve" }

function Asker:ask(how, told)
  local options = { id = "the-" .. how, [told] = told == "outcome" and "told" or "came" }
  if how == "expired" then
    options.delay, options.expires = 20, now() + 10
  end
  local message = send(Carver("c"), options)
  message[METHODS[how]](message, self.key)
end
function Asker:told(what)
  local all = state.store.get("all") or {}
  all[#all + 1] = { what = what, by = caller.kind }
  state.store.set("all", all)
end
function Asker:ask_wrongly(options) send(Carver("c"), options):carve("x") end
function Asker:_private() end
function Asker.read:all() return state.store.get("all") or array {} end
return Asker`;

const CARVER = `
local Carver = class "Carver"
function Carver:carve(what)
  local carved = state.store.get("carved") or {}
  carved[#carved + 1] = what
  state.store.set("carved", carved)
end
function Carver:break_off() error { code = "blunt", message = "the knife is blunt" } end
function Carver.read:carved() return state.store.get("carved") or array {} end
return Carver`;

const start = () =>
  VirtualNode.start({ classes: { Asker: ASKER, Carver: CARVER }, settings: { DELAY_ATTEMPTS_MAX: 2 } });

async function eventsOf(virtual: VirtualNode, target: string): Promise<{ name: string; data: PlainValue }[]> {
  const sink = new RecordingSink();
  const request = { object: virtual.identity(target), from: { kind: "after", number: 0 }, caller: { kind: "client" } };
  const subscription = await virtual.time.until(virtual.node.subscribe(request as never, sink));
  await virtual.time.advance(10);
  subscription.close();
  return sink.events.map(({ name, data }) => ({ name, data }));
}

const OUTCOMES = [
  ["done", "carve", {}, ["done"]],
  ["dead", "break_off", { error: { code: "blunt", message: "the knife is blunt" } }, []],
  ["expired", "carve", {}, []],
] as const;

describe.each(OUTCOMES)("of a message that is %s", (how, method, more, carved) => {
  const what = { id: `default/Asker/${how}#the-${how}`, object: "Carver/c", method, run: 1, outcome: how, ...more };

  it("its sender's method is told, once, with what it was", async () => {
    const virtual = await start();
    await virtual.call(`Asker/${how}`, "ask", how, "outcome");
    await virtual.time.advance(120_000);
    expect(await virtual.call(`Asker/${how}`, "all")).toMatchObject([{ what, by: "message" }]);
    expect(await eventsOf(virtual, `Asker/${how}`)).toEqual([]);
    expect(await virtual.call("Carver/c", "carved")).toEqual(carved);
  });

  it("its sender emits an event, once, with the same", async () => {
    const virtual = await start();
    await virtual.call(`Asker/${how}`, "ask", how, "outcome_event");
    await virtual.time.advance(120_000);
    expect(await eventsOf(virtual, `Asker/${how}`)).toMatchObject([{ name: "came", data: what }]);
    expect(await virtual.call(`Asker/${how}`, "all")).toEqual([]);
  });

  it("it is told once, though the node dies while it is on its way", async () => {
    const virtual = await start();
    await virtual.call(`Asker/${how}`, "ask", how, "outcome");
    for (const afterMs of [1, 40, 700, 9_000, 11_000, 60_000]) {
      virtual.crash();
      await virtual.time.advance(afterMs);
      await virtual.open();
      await virtual.time.advance(afterMs);
    }
    await virtual.time.advance(120_000);
    expect(await virtual.call(`Asker/${how}`, "all")).toMatchObject([{ what, by: "message" }]);
    expect(await virtual.call("Carver/c", "carved")).toEqual(carved);
  });
});

it("one that is in time is delivered, with a delay or at once", async () => {
  const virtual = await start();
  await virtual.call("Asker/a", "ask_wrongly", { expires: 4_000_000_000 });
  await virtual.call("Asker/a", "ask_wrongly", { expires: 4_000_000_000, delay: 5 });
  await virtual.time.advance(10_000);
  expect(await virtual.call("Carver/c", "carved")).toEqual(["x", "x"]);
});

it.each<[PlainValue, RegExp]>([
  [{ outcome: "told", outcome_event: "came" }, /to a method or by an event, not both/],
  [{ outcome: "all" }, /Asker.all is a reading method/],
  [{ outcome: "no_such" }, /no_such/],
  [{ outcome: 7 }, /'outcome' must be text/],
  [{ expires: "1h" }, /'expires' is a time in seconds/],
  [{ outcom: "told" }, /did you mean 'outcome'/],
])("with %j nothing is sent", async (options, message) => {
  const virtual = await start();
  await expect(virtual.call("Asker/a", "ask_wrongly", options)).rejects.toThrow(message);
  await virtual.time.advance(60_000);
  expect(await virtual.call("Carver/c", "carved")).toEqual([]);
});
