import { describe, expect, it } from "vitest";
import { VirtualNode } from "../support/virtual-node.js";
import { classes, LOG } from "./log-class.js";
import { RecordingSink, view } from "./support.js";

describe("a live view", () => {
  it("tells the value now and whenever a landed write changed it", async () => {
    const at = await VirtualNode.start({ classes });
    const { sink } = await view(at, "Log/a", "last");
    await at.call("Log/a", "set", "one");
    await at.time.advance(100);
    await at.call("Log/a", "touch");
    await at.time.advance(100);
    await at.call("Log/a", "set", "two");
    await at.time.advance(100);
    expect(sink.story).toEqual(["view null", 'view "one"', 'view "two"']);
    expect(sink.told.at(-1)).toMatchObject({ kind: "view", seq: 3 });
    await at.stop();
    expect(sink.story.at(-1)).toBe("ended stopping after 0");
  });

  it("shows nothing before the flight has landed", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", "old");
    const { sink } = await view(at, "Log/a", "last");
    const hold = at.bucket.faults.hold(["write"]);
    const reply = at.start("Log/a", "set", ["new"]);
    await at.time.advance(500);
    expect(sink.story).toEqual(['view "old"']);
    hold.release();
    await at.time.until(reply);
    await at.time.advance(100);
    expect(sink.story).toEqual(['view "old"', 'view "new"']);
    await at.stop();
  });

  it("makes one value of what landed within its interval, and ends on the last", async () => {
    const at = await VirtualNode.start({ classes, settings: { VIEW_INTERVAL_MS: 1_000 }, bucket: { latencyMs: 1 } });
    const { sink } = await view(at, "Log/a", "last");
    await at.time.advance(5_000);
    for (let call = 1; call <= 50; call++) await at.call("Log/a", "set", call);
    await at.time.advance(5_000);
    expect(sink.story.length).toBeLessThanOrEqual(4);
    expect(sink.story.at(-1)).toBe("view 50");
    await at.stop();
  });

  it("is evaluated once for all who ask the same, and apart for other arguments and other callers", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", 1);
    const [first, second, other] = [
      await view(at, "Log/a", "plus", [1]),
      await view(at, "Log/a", "plus", [1]),
      await view(at, "Log/a", "plus", [5]),
    ];
    await at.call("Log/a", "set", 2);
    await at.time.advance(100);
    expect(first.sink.story).toEqual(["view 2", "view 3"]);
    expect(other.sink.story).toEqual(["view 6", "view 7"]);
    // One object for both: it was computed and may be encoded once.
    expect(second.sink.told[1]).toBe(first.sink.told[1]);
    const who = async (id: string): Promise<RecordingSink> => {
      const sink = new RecordingSink();
      const reading = { method: "who", args: [] };
      await at.time.until(
        at.node.view({ object: at.identity("Log/a"), reading, caller: { kind: "client", id } }, sink),
      );
      await at.time.settle();
      return sink;
    };
    expect((await who("ada")).story).toEqual(['view "ada"']);
    expect((await who("bob")).story).toEqual(['view "bob"']);
    await at.stop();
  });

  it("gives who comes later the value there is", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", "one");
    await view(at, "Log/a", "last");
    const { sink } = await view(at, "Log/a", "last");
    expect(sink.story).toEqual(['view "one"']);
    await at.stop();
  });

  it("says when its method fails, and goes on with the next landed write", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", "good");
    const { sink } = await view(at, "Log/a", "picky");
    for (const value of ["bad", "bad", "good"]) {
      await at.call("Log/a", "set", value);
      await at.time.advance(100);
    }
    expect(sink.story).toEqual(['view "good"', "view failed: oh_no", 'view "good"']);
    await at.stop();
  });

  it("tries again by itself after a failure that may pass", async () => {
    const at = await VirtualNode.start({ classes, settings: { OBJECT_IDLE_MS: 1_000 } });
    await at.call("Log/a", "set", "one");
    await at.stop();
    await at.open();
    at.bucket.faults.failNext(1, { kind: "refused" }, ["get"]);
    const { sink } = await view(at, "Log/a", "last");
    expect(sink.story).toEqual(["view failed: bucket_failed"]);
    await at.time.advance(2_000);
    expect(sink.story).toEqual(["view failed: bucket_failed", 'view "one"']);
    await at.stop();
  });

  it("follows a new version of its class", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", 1);
    const { sink } = await view(at, "Log/a", "last");
    await at.reload({ Log: LOG.replace('return state.store.get("last")', "return 10 * state.store.get('last')") });
    await at.time.advance(100);
    await at.reload({ Log: LOG.replace("Log.read:last", "Log.read:latest") });
    await at.time.advance(100);
    expect(sink.story).toEqual(["view 1", "view 10", "view failed: method_not_found"]);
    await at.stop();
  });

  it("goes on across the object's end", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "set", "one");
    const { sink } = await view(at, "Log/a", "last");
    await at.call("Log/a", "finish");
    await at.time.advance(100);
    await at.call("Log/a", "set", "two");
    await at.time.advance(100);
    expect(sink.story).toEqual(['view "one"', "view null", 'view "two"']);
    await at.stop();
  });

  it("lets its object sleep", async () => {
    const at = await VirtualNode.start({ classes, settings: { OBJECT_IDLE_MS: 1_000 } });
    await at.call("Log/a", "set", "one");
    const { sink } = await view(at, "Log/a", "last");
    await at.time.advance(3_000);
    expect((await at.node.status()).residents).toBe(0);
    await at.call("Log/a", "set", "two");
    await at.time.advance(100);
    expect(sink.story).toEqual(['view "one"', 'view "two"']);
    await at.stop();
  });

  it("skips values for a viewer without room, never the last", async () => {
    const at = await VirtualNode.start({ classes });
    const sink = new RecordingSink();
    await view(at, "Log/a", "last", [], sink);
    sink.block();
    sink.full = true;
    for (const value of ["one", "two", "three"]) {
      await at.call("Log/a", "set", value);
      await at.time.advance(100);
    }
    expect(sink.story).toEqual(["view null"]);
    sink.full = false;
    sink.unblock();
    await at.time.settle();
    expect(sink.story).toEqual(["view null", 'view "three"']);
    await at.stop();
  });

  it("is forgotten with its last viewer", async () => {
    const at = await VirtualNode.start({ classes });
    const [first, second] = [await view(at, "Log/a", "last"), await view(at, "Log/a", "last")];
    expect(await at.node.status()).toMatchObject({ subscriptions: 2, watchedObjects: 1 });
    first.subscription.close();
    second.subscription.close();
    second.subscription.close();
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
    await at.call("Log/a", "set", "one");
    await at.time.advance(100);
    expect(second.sink.story).toEqual(["view null"]);
    await at.stop();
  });

  it("is refused where there is nothing to view", async () => {
    const at = await VirtualNode.start({ classes });
    await expect(view(at, "Log/a", "say")).rejects.toMatchObject({ code: "not_a_reading_method" });
    await expect(view(at, "Log/a", "lost")).rejects.toMatchObject({
      code: "method_not_found",
      object: "default/Log/a",
    });
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
    await at.stop();
  });
});
