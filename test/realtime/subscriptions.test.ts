import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { VirtualNode } from "../support/virtual-node.js";
import { subscribe } from "./support.js";

const LOG = `
local Log = class "Log"
function Log:say(text) state.store.set("last", text) emit("said", text) end
function Log:whisper(text) state.store.set("last", text) emit("whispered", text) end
function Log:many(count) state.store.set("count", count) for i = 1, count do emit("said", i) end end
function Log:silent() state.store.set("silent", now()) end
function Log:finish() emit("finished", 1) destroy() end
function Log.read:last() return state.store.get("last") end
function Log.read:broken() error { code = "oh_no", message = "broken" } end
return Log
`;
const classes = { Log: LOG };

describe("a subscriber from now", () => {
  it("hears what is emitted afterwards, in order, and nothing from before", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "say", "before");
    const { sink } = await subscribe(at, "Log/a");
    await at.call("Log/a", "say", "one");
    await at.call("Log/a", "whisper", "two");
    expect(sink.story).toEqual(["subscribed 1", "event 2 said", "event 3 whispered"]);
    expect(sink.events.map(({ data }) => data)).toEqual(["one", "two"]);
    await at.stop();
  });

  it("hears of an object that does not exist yet, and wakes none by asking", async () => {
    const at = await VirtualNode.start({ classes });
    const { sink } = await subscribe(at, "Log/a");
    expect(await at.node.status()).toMatchObject({ residents: 0, subscriptions: 1, watchedObjects: 1 });
    await at.call("Log/a", "say", "one");
    expect(sink.story).toEqual(["subscribed 0", "event 1 said"]);
    await at.stop();
  });

  it("hears nothing before the flight has landed", async () => {
    const at = await VirtualNode.start({ classes });
    const { sink } = await subscribe(at, "Log/a");
    await at.call("Log/a", "silent");
    const hold = at.bucket.faults.hold(["write"]);
    const reply = at.start("Log/a", "say", ["one"]);
    await at.time.settle();
    expect([hold.waiting, sink.story]).toEqual([1, ["subscribed 0"]]);
    hold.release();
    await at.time.until(reply);
    expect(sink.story).toEqual(["subscribed 0", "event 1 said"]);
    await at.stop();
  });
});

describe("a refused subscription", () => {
  it("says why", async () => {
    const at = await VirtualNode.start({ classes });
    const code = async (target: string, options: Parameters<typeof subscribe>[2]): Promise<string> => {
      const error = await subscribe(at, target, options).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      return error instanceof MoonportError ? error.code : String(error);
    };
    expect(await code("Lag/a", { from: { kind: "now" } })).toBe("class_not_found");
    const reading = (method: string): Parameters<typeof subscribe>[2] => ({
      from: { kind: "snapshot", reading: { method, args: [] } },
    });
    expect(await code("Log/a", reading("lost"))).toBe("method_not_found");
    expect(await code("Log/a", reading("say"))).toBe("not_a_reading_method");
    expect(await code("Log/a", reading("broken"))).toBe("oh_no");
    expect(await code("Log/a", { from: { kind: "after", number: -1 } })).toBe("bad_request");
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
    await at.stop();
  });
});
