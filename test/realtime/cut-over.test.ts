/** From reading what stands in the object to following what lands, step by step, on objects that answer when the test says so. */
import { beforeEach, describe, expect, it } from "vitest";
import { identityOf } from "../../src/identity.js";
import type { SubscribeFrom, SubscribeRequest } from "../../src/realtime/contract.js";
import { EventSubscription } from "../../src/realtime/event-subscription.js";
import { Hub } from "../../src/realtime/hub.js";
import type { Evaluated, LiveSource, StoredEvents, Watch, Watcher } from "../../src/realtime/live-source.js";
import { Topic } from "../../src/realtime/topic.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { RecordingSink } from "./support.js";

const object = identityOf("default", "Log", "a");
const PAGE = 3;
const BUFFER = 4;

/** Holds the events 1 to `last`, and each read until it is let go: what it then answers is what stood there when it was asked. */
class HeldSource implements LiveSource {
  last = 0;
  first = 1;
  /** False: on another node, whose landings arrive later than they can be read. */
  isHere = true;
  watcher: Watcher | undefined;
  readonly reads: { readonly after: number; readonly answer: Deferred<StoredEvents>; readonly stored: StoredEvents }[] =
    [];

  checkClass(): void {}
  checkReading(): void {}

  classVersion(): string {
    return "1";
  }

  events(_object: unknown, after: number, limit: number): Promise<StoredEvents> {
    const events = numbers(Math.max(after + 1, this.first), this.last)
      .slice(0, limit)
      .map(eventOf);
    const read = { after, answer: deferred<StoredEvents>(), stored: { ...this.#standing(), events } };
    this.reads.push(read);
    return read.answer.promise;
  }

  watch(_object: unknown, watcher: Watcher): Watch {
    this.watcher = watcher;
    const source = this;
    return {
      get isHere() {
        return source.isHere;
      },
      stop() {},
    };
  }

  #standing(): Omit<StoredEvents, "events"> {
    return { first: this.first, last: this.last, exists: this.last > 0 };
  }

  async evaluate(): Promise<Evaluated> {
    return { value: this.last, number: this.last, seq: this.last };
  }

  /** Lets the oldest read under way go, and returns what it was asked. */
  answer(): number {
    const read = this.reads.shift();
    if (read === undefined) throw new Error("nothing is being read");
    read.answer.resolve(read.stored);
    return read.after;
  }
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
}

function eventOf(number: number): { number: number; name: string; data: number; atMs: number } {
  return { number, name: "said", data: number, atMs: 0 };
}

let time: VirtualTime;
let source: HeldSource;
let world: VirtualWorld;
let hub: Hub;
beforeEach(() => {
  time = new VirtualTime();
  source = new HeldSource();
  const settings = resolveSettings({ EVENT_PAGE_MAX: PAGE, EVENT_BUFFER_MAX: BUFFER });
  world = new VirtualWorld({ time, root: "/nowhere" });
  hub = new Hub({ source, settings, world });
});

function join(from: SubscribeFrom, more: Pick<SubscribeRequest, "snapshotAfterGap"> = {}): RecordingSink {
  const sink = new RecordingSink();
  void hub.subscribe({ object, from, caller: { kind: "client" }, ...more }, sink);
  return sink;
}

/** These events land, in one flight. */
function land(...landed: readonly number[]): void {
  source.last = landed.at(-1) ?? source.last;
  hub.landed({ object, seq: source.last, events: landed.map(eventOf), destroyed: false });
}

describe("a subscriber that catches up", () => {
  it("finds what landed under its read in memory, and reads no second time", async () => {
    source.last = 2;
    const sink = join({ kind: "after", number: 0 });
    await time.settle();
    land(3, 4);
    land(5);
    expect(source.answer()).toBe(0);
    await time.settle();
    expect(sink.numbers).toEqual([1, 2, 3, 4, 5]);
    land(6);
    expect(sink.numbers).toEqual([1, 2, 3, 4, 5, 6]);
    expect(source.reads).toEqual([]);
  });

  it("reads another page where more landed than is kept", async () => {
    source.last = 2;
    const sink = join({ kind: "after", number: 0 });
    await time.settle();
    land(...numbers(3, 3 + BUFFER));
    source.answer();
    await time.settle();
    expect(sink.numbers).toEqual([1, 2]);
    land(8);
    expect(source.answer()).toBe(2);
    await time.settle();
    expect(sink.numbers).toEqual(numbers(1, 8));
    expect(source.reads).toEqual([]);
  });

  it("drops from memory what its page held already", async () => {
    const sink = join({ kind: "now" });
    await time.settle();
    source.answer();
    land(1, 2);
    await time.settle();
    expect(sink.story).toEqual(["subscribed 0", "event 1 said", "event 2 said"]);
  });

  it("shares a read with those who come from the same number, and nobody reads to follow what is known", async () => {
    source.last = 2;
    const [first, second] = [join({ kind: "after", number: 0 }), join({ kind: "after", number: 0 })];
    await time.settle();
    expect(source.reads).toHaveLength(1);
    source.answer();
    await time.settle();
    expect(second.events[0]).toBe(first.events[0]);
    const others = [join({ kind: "now" }), join({ kind: "after", number: 2 }), join({ kind: "after", number: 9 })];
    await time.settle();
    expect(source.reads).toEqual([]);
    for (const other of others) expect(other.story).toEqual(["subscribed 2"]);
  });

  it("keeps nothing in memory while its sink has no room", async () => {
    source.last = 2;
    const sink = join({ kind: "after", number: 0 });
    sink.block();
    await time.settle();
    source.answer();
    await time.settle();
    land(3);
    sink.unblock();
    await time.settle();
    // Event 3 was not kept for it: it stands in the object.
    expect([sink.numbers, source.reads.length]).toEqual([[1, 2], 1]);
    source.answer();
    await time.settle();
    expect(sink.numbers).toEqual([1, 2, 3]);
  });
});

it("one that leaves while it catches up leaves no events behind", async () => {
  const topic = new Topic(object, source, resolveSettings());
  const request = { object, from: { kind: "after" as const, number: 0 }, caller: { kind: "client" as const } };
  const parts = { request, sink: new RecordingSink(), topic, source, world, closed: () => {} };
  const [leaving, staying] = [new EventSubscription(parts), new EventSubscription(parts)];
  topic.subscribers.add(staying);
  leaving.close();
  staying.close();
  topic.landed({ object, seq: 1, events: [eventOf(1)], destroyed: false });
  expect([topic.last, topic.recentAfter(0)]).toEqual([1, undefined]);
});

describe("events that landed without a word", () => {
  it("are read from the object when the next one shows that they are missing", async () => {
    const sink = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    land(1);
    source.last = 3;
    land(4);
    expect(sink.numbers).toEqual([1]);
    await time.settle();
    expect(source.answer()).toBe(1);
    await time.settle();
    land(5);
    expect(sink.numbers).toEqual([1, 2, 3, 4, 5]);
  });

  it("are read when another subscriber's read shows them", async () => {
    const sink = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    source.last = 2;
    const other = join({ kind: "after", number: -0 });
    await time.settle();
    expect(other.story).toEqual(["subscribed 0"]);
    const snapshot = join({ kind: "snapshot", reading: { method: "last", args: [] } });
    await time.settle();
    expect(snapshot.story).toEqual(["snapshot 2 at 2", "subscribed 2"]);
    source.answer();
    await time.settle();
    expect([sink.numbers, other.numbers]).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });
});

describe("an object that counts lower than what was told of it", () => {
  const TOLD = 10;

  /** Lets all reads go, however many follow from each other. */
  async function answerAll(): Promise<number> {
    let reads = 0;
    for (await time.settle(); source.reads.length > 0; await time.settle()) {
      if (++reads > 20) throw new Error("it is read without end");
      source.answer();
    }
    return reads;
  }

  async function follow(more: Pick<SubscribeRequest, "snapshotAfterGap"> = {}): Promise<RecordingSink> {
    source.last = TOLD - 1;
    const sink = join({ kind: "now" }, more);
    await answerAll();
    land(TOLD);
    return sink;
  }

  it("tells who follows it where it stands, as soon as somebody has read that, and goes on from there", async () => {
    for (let lower = 0; lower < TOLD - 1; lower++) {
      for (let after = 0; after <= TOLD; after++) {
        const live = await follow();
        source.last = lower;
        const resumed = join({ kind: "after", number: after });
        await answerAll();
        land(lower + 1);
        await answerAll();
        const next = `event ${lower + 1} said`;
        // Who resumes at what was told last needs no read, and hears with the next event where the object stands.
        const story =
          after === TOLD
            ? [`subscribed ${TOLD}`, `subscribed ${lower + 1}`]
            : [
                `subscribed ${Math.min(after, lower)}`,
                ...numbers(after + 1, lower).map((n) => `event ${n} said`),
                next,
              ];
        expect(resumed.story).toEqual(story);
        expect(live.story.slice(2)).toEqual(
          after === TOLD ? [`subscribed ${lower + 1}`] : [`subscribed ${lower}`, next],
        );
        land(lower + 2);
        expect([live.numbers.at(-1), resumed.numbers.at(-1)]).toEqual([lower + 2, lower + 2]);
        hub.stop();
        hub = new Hub({ source, settings: resolveSettings({ EVENT_PAGE_MAX: PAGE, EVENT_BUFFER_MAX: BUFFER }), world });
      }
    }
  });

  it("gives them the value that they want in place of what they missed", async () => {
    const live = await follow({ snapshotAfterGap: { method: "last", args: [] } });
    source.last = 4;
    land(5);
    await answerAll();
    expect(live.story.slice(2)).toEqual(["subscribed 5", "snapshot 5 at 5"]);
  });

  it("on another node it is looked at when it has been found again", async () => {
    source.isHere = false;
    const live = await follow();
    source.last = 4;
    source.watcher?.found({ last: 4, exists: true });
    await answerAll();
    land(5);
    expect(live.story.slice(2)).toEqual(["subscribed 4", "event 5 said"]);
  });

  it("one who comes to it with what only was told here is told where it stands", async () => {
    source.isHere = false;
    const live = await follow();
    const late = join({ kind: "after", number: TOLD - 2 });
    await time.settle();
    // The read was asked before the last event, and answers after it: nobody has gone back.
    source.answer();
    await answerAll();
    expect([live.story.at(-1), late.numbers]).toEqual([`event ${TOLD} said`, [TOLD - 1, TOLD]]);
  });
});

describe("an object on another node", () => {
  beforeEach(() => {
    source.isHere = false;
  });

  /** It has been found at the end of its events. */
  function found(): void {
    source.watcher?.found({ last: source.last, exists: source.last > 0 });
  }

  it("may be read before its landings are told: nothing comes twice, and nobody else reads for that", async () => {
    source.last = 1;
    const early = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    found();
    source.last = 3;
    const late = join({ kind: "after", number: 0 });
    await time.settle();
    source.answer();
    await time.settle();
    expect([early.numbers, late.numbers, source.reads]).toEqual([[], [1, 2, 3], []]);
    land(2, 3);
    land(4);
    expect([early.numbers, late.numbers, source.reads]).toEqual([[2, 3, 4], [1, 2, 3, 4], []]);
  });

  it("is asked by who comes from a number beyond what was told, and by who wants what comes now", async () => {
    const first = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    found();
    source.last = 2;
    const [ahead, now] = [join({ kind: "after", number: 2 }), join({ kind: "now" })];
    await time.settle();
    source.answer();
    source.answer();
    await time.settle();
    land(1, 2);
    land(3);
    expect(first.numbers).toEqual([1, 2, 3]);
    expect([ahead.story, now.story]).toEqual([
      ["subscribed 2", "event 3 said"],
      ["subscribed 2", "event 3 said"],
    ]);
  });

  it("has its missed events read when it is found again", async () => {
    const sink = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    found();
    source.last = 2;
    found();
    await time.settle();
    expect(source.answer()).toBe(0);
    await time.settle();
    expect(sink.numbers).toEqual([1, 2]);
  });

  it("that ended while nobody was told ends its subscriptions when it is found again", async () => {
    const sink = join({ kind: "now" });
    await time.settle();
    source.answer();
    await time.settle();
    land(1);
    source.watcher?.found({ last: 1, exists: false });
    expect(sink.story).toEqual(["subscribed 0", "event 1 said", "ended destroyed after 1"]);
  });
});
