import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { VirtualNode } from "../support/virtual-node.js";
import { classes } from "./log-class.js";
import { RecordingSink, type SubscribeOptions, subscribe } from "./support.js";

const since = (number: number): SubscribeOptions => ({ from: { kind: "after", number } });
const last = { method: "last", args: [] };
const fromSnapshot: SubscribeOptions = { from: { kind: "snapshot", reading: last } };

const numbers = (first: number, count: number): number[] => Array.from({ length: count }, (_, index) => first + index);

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof MoonportError ? error.code : `no MoonportError: ${error}`;
}

describe("a subscriber from now", () => {
  it("hears what is emitted afterwards, in order, and nothing from before", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "say", "before");
    const { sink } = await subscribe(at, "Log/a");
    await at.call("Log/a", "say", "one");
    await at.call("Log/a", "whisper", "two");
    await at.call("Log/b", "say", "elsewhere");
    expect(sink.story).toEqual(["subscribed 1", "event 2 said", "event 3 whispered"]);
    expect(sink.events.map(({ data }) => data)).toEqual(["one", "two"]);
    expect(sink.events[0]?.atMs).toBeGreaterThan(Date.UTC(2026, 0, 1) - 1);
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

  it("hears nothing before the flight has landed, and nothing of a call that failed", async () => {
    const at = await VirtualNode.start({ classes });
    const { sink } = await subscribe(at, "Log/a");
    await at.call("Log/a", "touch");
    await at.call("Log/a", "fail", "never").catch(() => {});
    const hold = at.bucket.faults.hold(["write"]);
    const reply = at.start("Log/a", "say", ["one"]);
    await at.time.settle();
    expect([hold.waiting, sink.story]).toEqual([1, ["subscribed 0"]]);
    hold.release();
    await at.time.until(reply);
    expect(sink.story).toEqual(["subscribed 0", "event 1 said"]);
    await at.stop();
  });

  it("asks the object once, however many subscribe", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "say", "one");
    const sinks = await Promise.all(numbers(0, 5).map(() => subscribe(at, "Log/a")));
    await at.call("Log/a", "say", "two");
    for (const { sink } of sinks) expect(sink.story).toEqual(["subscribed 1", "event 2 said"]);
    const [first, ...others] = sinks.map(({ sink }) => sink.events[0]);
    for (const other of others) expect(other).toBe(first);
    await at.stop();
  });
});

describe("a filter by name", () => {
  it("passes over other events, which keep counting", async () => {
    const at = await VirtualNode.start({ classes });
    const { sink, subscription } = await subscribe(at, "Log/a", { from: { kind: "now" }, names: ["whispered"] });
    await at.call("Log/a", "say", "one");
    await at.call("Log/a", "whisper", "two");
    await at.call("Log/a", "say", "three");
    expect(sink.story).toEqual(["subscribed 0", "event 2 whispered"]);
    expect(subscription.after).toBe(3);
    subscription.close();
    const again = await subscribe(at, "Log/a", { ...since(0), names: ["whispered"] });
    expect(again.sink.story).toEqual(["subscribed 0", "event 2 whispered"]);
    expect(again.subscription.after).toBe(3);
    await at.stop();
  });
});

describe("a subscriber that names a number", () => {
  it("gets what came after it, page by page, and then what comes", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_PAGE_MAX: 3 } });
    await at.call("Log/a", "many", 10);
    const { sink } = await subscribe(at, "Log/a", since(2));
    await at.call("Log/a", "say", "eleven");
    expect(sink.story[0]).toBe("subscribed 2");
    expect(sink.numbers).toEqual(numbers(3, 9));
    await at.stop();
  });

  it("learns the real last number when it names one beyond", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "many", 3);
    const { sink } = await subscribe(at, "Log/a", since(99));
    await at.call("Log/a", "say", "four");
    expect(sink.story).toEqual(["subscribed 3", "event 4 said"]);
    await at.stop();
  });

  it("loses and doubles nothing while the object goes on emitting under its catch-up", async () => {
    const settings = { EVENT_PAGE_MAX: 2, EVENT_BUFFER_MAX: 2 };
    const at = await VirtualNode.start({ classes, settings, bucket: { latencyMs: 3 } });
    await at.call("Log/a", "many", 20);
    const sink = new RecordingSink();
    const subscribing = at.node.subscribe(
      { object: at.identity("Log/a"), caller: { kind: "client" }, ...since(0) },
      sink,
    );
    for (let call = 0; call < 40; call++) {
      at.start("Log/a", "say", [call]);
      await at.time.advance(1);
    }
    await at.time.until(subscribing);
    await at.time.advance(1_000);
    expect(sink.numbers).toEqual(numbers(1, 60));
    await at.stop();
  });

  it("hears of a gap where events are no longer kept", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_ROWS_MAX: 10 } });
    await at.call("Log/a", "many", 128);
    const { sink } = await subscribe(at, "Log/a", since(5));
    expect(sink.story.slice(0, 2)).toEqual(["subscribed 5", "gap 6 to 118"]);
    expect(sink.numbers).toEqual(numbers(119, 10));
    await at.stop();
  });

  it("hears of a gap where events have grown too old", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_RETENTION_MS: 60_000 } });
    await at.call("Log/a", "many", 63);
    await at.time.advance(61_000);
    await at.call("Log/a", "say", "young");
    const { sink } = await subscribe(at, "Log/a", since(60));
    expect(sink.story).toEqual(["subscribed 60", "gap 61 to 63", "event 64 said"]);
    await at.stop();
  });

  it("gets a snapshot in place of the gap when it asks for one", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_ROWS_MAX: 10 } });
    await at.call("Log/a", "many", 128);
    const { sink } = await subscribe(at, "Log/a", { ...since(5), snapshotAfterGap: last });
    await at.call("Log/a", "say", "next");
    expect(sink.story).toEqual(["subscribed 5", "gap 6 to 118", "snapshot 128 at 128", "event 129 said"]);
    await at.stop();
  });
});

describe("a snapshot, then events", () => {
  it("belongs to the number that comes with it", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "many", 3);
    const { sink } = await subscribe(at, "Log/a", fromSnapshot);
    await at.call("Log/a", "say", "four");
    expect(sink.story).toEqual(["snapshot 3 at 3", "subscribed 3", "event 4 said"]);
    await at.stop();
  });

  it("wakes an object that sleeps, with its migrations, and leaves one alone that was never written", async () => {
    const at = await VirtualNode.start({ classes, settings: { OBJECT_IDLE_MS: 1_000 } });
    const fresh = await subscribe(at, "Log/b", fromSnapshot);
    expect(fresh.sink.story).toEqual(["snapshot null at 0", "subscribed 0"]);
    expect((await at.node.status()).residents).toBe(0);
    await at.call("Log/a", "many", 3);
    await at.time.advance(2_000);
    expect((await at.node.status()).residents).toBe(0);
    const { sink } = await subscribe(at, "Log/a", fromSnapshot);
    expect(sink.story).toEqual(["snapshot 3 at 3", "subscribed 3"]);
    await at.stop();
  });

  it("is never older or newer than its number, while calls go on", async () => {
    const at = await VirtualNode.start({ classes, bucket: { latencyMs: 2 } });
    const sinks: RecordingSink[] = [];
    for (let call = 1; call <= 30; call++) {
      at.start("Log/a", "say", [call]);
      const sink = new RecordingSink();
      sinks.push(sink);
      const request = { object: at.identity("Log/a"), caller: { kind: "client" as const }, ...fromSnapshot };
      void at.node.subscribe(request, sink);
      await at.time.advance(1);
    }
    await at.time.advance(1_000);
    for (const sink of sinks) {
      const [snapshot] = sink.told;
      if (snapshot?.kind !== "snapshot") throw new Error("no snapshot");
      // Each call says its own number, so the value is the number of the last event in it.
      expect(snapshot.value ?? 0).toBe(snapshot.number);
      expect(sink.numbers).toEqual(numbers(snapshot.number + 1, 30 - snapshot.number));
    }
    await at.stop();
  });
});

describe("a watched object", () => {
  it("sleeps, and is not kept awake", async () => {
    const at = await VirtualNode.start({ classes, settings: { OBJECT_IDLE_MS: 1_000 } });
    await at.call("Log/a", "say", "one");
    const { sink } = await subscribe(at, "Log/a");
    await at.time.advance(2_000);
    expect(await at.node.status()).toMatchObject({ residents: 0, openFiles: 0, watchedObjects: 1 });
    await at.call("Log/a", "say", "two");
    expect(sink.story).toEqual(["subscribed 1", "event 2 said"]);
    await at.stop();
  });

  it("goes on counting in the next life of the node, and in its own", async () => {
    const at = await VirtualNode.start({ classes });
    const first = await subscribe(at, "Log/a");
    await at.call("Log/a", "say", "one");
    await at.stop();
    expect(first.sink.story).toEqual(["subscribed 0", "event 1 said", "ended stopping after 1"]);
    await at.open();
    await at.call("Log/a", "say", "two");
    const second = await subscribe(at, "Log/a", since(1));
    expect(second.sink.story).toEqual(["subscribed 1", "event 2 said"]);
    at.crash();
    await at.open();
    const third = await subscribe(at, "Log/a", since(2));
    await at.call("Log/a", "say", "three");
    await at.call("Log/a", "finish");
    expect(third.sink.story).toEqual(["subscribed 2", "event 3 said", "event 4 finished", "ended destroyed after 4"]);
    const fourth = await subscribe(at, "Log/a", since(4));
    await at.call("Log/a", "say", "five");
    expect(fourth.sink.story).toEqual(["subscribed 4", "event 5 said"]);
    await at.stop();
  });

  it("has ended for who comes back to it and has not heard of all of its events", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "many", 3);
    await at.call("Log/a", "finish");
    const ended = ["gap 4 to 4", "ended destroyed after 4"];
    const back = await subscribe(at, "Log/a", since(3));
    expect(back.sink.story).toEqual(["subscribed 3", ...ended]);
    const valued = await subscribe(at, "Log/a", { ...since(3), snapshotAfterGap: last });
    expect(valued.sink.story).toEqual(["subscribed 3", ...ended]);
    expect((await at.node.status()).subscriptions).toBe(0);
    // Whoever watches it in its next life comes too late for that.
    await at.call("Log/a", "say", "five");
    const late = await subscribe(at, "Log/a", since(3));
    expect(late.sink.story).toEqual(["subscribed 3", "gap 4 to 4", "event 5 said"]);
    await at.stop();
  });

  it("ends its subscribers even while they catch up", async () => {
    const settings = { EVENT_PAGE_MAX: 2, EVENT_BUFFER_MAX: 2, EVENT_ROWS_MAX: 10 };
    const at = await VirtualNode.start({ classes, settings });
    await at.call("Log/a", "many", 10);
    const sink = new RecordingSink();
    sink.block();
    await subscribe(at, "Log/a", since(0), sink);
    await at.call("Log/a", "finish");
    // What the next life does not keep any more is no gap of this one.
    await at.call("Log/a", "many", 128);
    sink.unblock();
    await at.time.settle();
    expect(sink.story).toEqual([
      "subscribed 0",
      "event 1 said",
      "event 2 said",
      "gap 3 to 11",
      "ended destroyed after 11",
    ]);
    await at.stop();
  });

  it("is asked while it ends, and answers with where its next life begins", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "say", "one");
    const hold = at.bucket.faults.hold(["write"]);
    const finishing = at.start("Log/a", "finish");
    await at.time.settle();
    const joining = subscribe(at, "Log/a");
    await at.time.settle();
    hold.release();
    await at.time.until(finishing);
    const { sink } = await joining;
    await at.call("Log/a", "say", "next life");
    expect(sink.story).toEqual(["subscribed 2", "event 3 said"]);
    await at.stop();
  });

  it("that cannot be read ends its subscribers with what to resume from", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_PAGE_MAX: 2, OBJECT_IDLE_MS: 1_000 } });
    await at.call("Log/a", "many", 10);
    const sink = new RecordingSink();
    sink.block();
    await subscribe(at, "Log/a", since(0), sink);
    await at.time.advance(5_000);
    at.world.folder.intercept = (operation) => {
      if (operation === "openDatabase") throw Object.assign(new Error("EIO"), { code: "EIO" });
    };
    sink.unblock();
    await at.time.settle();
    expect(sink.story.slice(-2)).toEqual(["event 2 said", "ended failed after 2"]);
    at.world.folder.intercept = undefined;
    const again = await subscribe(at, "Log/a", since(2));
    expect(again.sink.numbers).toEqual(numbers(3, 8));
    await at.stop();
  });
});

describe("a subscriber that does not keep up", () => {
  it("is ended with the number to resume from, and others are not", async () => {
    const at = await VirtualNode.start({ classes });
    const slow = await subscribe(at, "Log/a");
    const quick = await subscribe(at, "Log/a");
    await at.call("Log/a", "say", "one");
    slow.sink.full = true;
    await at.call("Log/a", "say", "two");
    await at.call("Log/a", "say", "three");
    expect(slow.sink.story).toEqual(["subscribed 0", "event 1 said", "ended slow after 1"]);
    expect(quick.sink.numbers).toEqual([1, 2, 3]);
    const again = await subscribe(at, "Log/a", since(1));
    expect(again.sink.numbers).toEqual([2, 3]);
    await at.stop();
  });

  it("is waited for while it catches up, and holds nothing in memory meanwhile", async () => {
    const at = await VirtualNode.start({ classes, settings: { EVENT_PAGE_MAX: 2, EVENT_BUFFER_MAX: 4 } });
    await at.call("Log/a", "many", 10);
    const sink = new RecordingSink();
    sink.block();
    await subscribe(at, "Log/a", since(0), sink);
    await at.call("Log/a", "many", 10);
    expect(sink.numbers).toEqual([]);
    sink.unblock();
    await at.time.settle();
    await at.call("Log/a", "say", "last");
    expect(sink.numbers).toEqual(numbers(1, 21));
    await at.stop();
  });
});

describe("a sink that throws", () => {
  it("loses its subscription and harms nobody else", async () => {
    const at = await VirtualNode.start({ classes });
    const bad = new RecordingSink();
    bad.deliver = (delivery) => {
      if (delivery.kind === "event") throw new Error("a fault of a door");
    };
    await subscribe(at, "Log/a", { from: { kind: "now" } }, bad);
    const { sink } = await subscribe(at, "Log/a");
    expect(await at.call("Log/a", "say", "one")).toBe("one");
    expect(sink.numbers).toEqual([1]);
    expect((await at.node.status()).subscriptions).toBe(1);
    await at.stop();
  });
});

describe("a refused subscription", () => {
  it("says why and leaves nothing behind", async () => {
    const at = await VirtualNode.start({ classes, settings: { SUBSCRIPTIONS_MAX: 2 } });
    const code = (target: string, options: SubscribeOptions): Promise<string> => codeOf(subscribe(at, target, options));
    const reading = (method: string): SubscribeOptions => ({
      from: { kind: "snapshot", reading: { method, args: [] } },
    });
    expect(await code("Lag/a", { from: { kind: "now" } })).toBe("class_not_found");
    expect(await code("Log/a", reading("lost"))).toBe("method_not_found");
    expect(await code("Log/a", reading("say"))).toBe("not_a_reading_method");
    expect(await code("Log/a", reading("plus"))).toBe("method_error");
    expect(await code("Log/a", since(-1))).toBe("bad_request");
    expect(await code("Log/a", { from: { kind: "now" }, names: numbers(0, 101).map(String) })).toBe("bad_request");
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
    await subscribe(at, "Log/a");
    await subscribe(at, "Log/b");
    expect(await code("Log/c", { from: { kind: "now" } })).toBe("subscriptions_full");
    await at.stop();
    expect(await code("Log/a", { from: { kind: "now" } })).toBe("node_stopping");
  });
});

describe("ten thousand", () => {
  it("subscriptions that come and go leave nothing behind", async () => {
    const at = await VirtualNode.start({ classes });
    await at.call("Log/a", "many", 3);
    const object = at.identity("Log/a");
    for (let round = 0; round < 10; round++) {
      const requests = numbers(0, 1_000).map((index) =>
        at.node.subscribe({ object, caller: { kind: "client" }, ...since(index % 5) }, new RecordingSink()),
      );
      const subscriptions = await at.time.until(Promise.all(requests));
      // Some before they began, some after.
      for (const subscription of subscriptions.slice(500)) subscription.close();
      await at.time.settle();
      for (const subscription of subscriptions) subscription.close();
    }
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
    await at.stop();
  });

  it("subscribers of one object share one encoding of each event", async () => {
    const at = await VirtualNode.start({ classes });
    let encodings = 0;
    let deliveries = 0;
    const sink = new RecordingSink();
    sink.deliver = (delivery) => {
      if (delivery.kind !== "event") return;
      deliveries++;
      if (delivery.event.encoded.has("json")) return;
      encodings++;
      delivery.event.encoded.set("json", JSON.stringify(delivery.event.data));
    };
    const object = at.identity("Log/a");
    const request = { object, caller: { kind: "client" as const }, from: { kind: "now" as const } };
    await at.time.until(Promise.all(numbers(0, 10_000).map(() => at.node.subscribe(request, sink))));
    await at.time.settle();
    await at.call("Log/a", "many", 3);
    expect([deliveries, encodings]).toEqual([30_000, 3]);
    await at.stop();
  });
});
