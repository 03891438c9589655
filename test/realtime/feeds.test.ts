/** What a node tells the hubs of others of its objects. */
import { beforeEach, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { Landing } from "../../src/realtime/contract.js";
import { type FeedItem, Feeds, landingOf } from "../../src/realtime/feeds.js";
import type { StoredEvents } from "../../src/realtime/live-source.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";

const object = identityOf("default", "Log", "a");

let stored: Deferred<StoredEvents>;
let feeds: Feeds;
beforeEach(() => {
  stored = deferred();
  feeds = new Feeds({ events: () => stored.promise });
});

function land(number: number, data: string | Uint8Array = `${number}`): Landing {
  const landing = { object, seq: number, events: [{ number, name: "said", data, atMs: 7 }], destroyed: false };
  feeds.landed(landing);
  return landing;
}

function stands(last: number): void {
  stored.resolve({ events: [], first: 1, last, exists: last > 0 });
}

async function next(feed: AsyncIterator<FeedItem>): Promise<FeedItem> {
  return (await feed.next()).value as FeedItem;
}

it("say where the object stands, and every landing, also those under the question", async () => {
  const feed = feeds.open(object, "landings");
  const first = land(1);
  stands(1);
  const told = [await next(feed), await next(feed)];
  expect(landingOf(object, told[0] as FeedItem & { kind: "landed" })).toEqual(first);
  expect(told[1]).toEqual({ kind: "found", last: 1, exists: true });
  const second = land(2);
  expect(landingOf(object, (await next(feed)) as FeedItem & { kind: "landed" })).toEqual(second);
});

it("that are not read keep the last number alone, and go on from there", async () => {
  const feed = feeds.open(object, "landings");
  stands(0);
  await next(feed);
  for (let number = 1; number <= 1_000; number++) land(number);
  const told: FeedItem[] = [];
  do told.push(await next(feed));
  while (lastOf(told.at(-1) as FeedItem) < 1_000);
  expect(told.length).toBeLessThan(100);
  expect(told[0]).toMatchObject({ kind: "found", exists: true });
  land(1_001);
  expect(lastOf(await next(feed))).toBe(1_001);
});

it("name events that are too large to be told, and do not carry them", async () => {
  const feed = feeds.open(object, "landings");
  stands(0);
  await next(feed);
  land(1, new Uint8Array(1_000_000));
  expect(await next(feed)).toEqual({ kind: "found", last: 1, exists: true });
});

it("of positions tell no landings", async () => {
  const feed = feeds.open(object, "positions");
  stands(1);
  await next(feed);
  land(2);
  feeds.lost(object.id);
  await expect(feed.next()).rejects.toMatchObject({ code: "moved" });
});

it.each([
  ["the object is lost", () => feeds.lost(object.id), "moved"],
  ["all are", () => feeds.allLost(MoonportError.of("node_fenced", "the session has lapsed")), "node_fenced"],
  ["the node stops", () => feeds.stop(), "node_stopping"],
])("end when %s, and hear nothing more", async (_, end, code) => {
  const feed = feeds.open(object, "landings");
  end();
  stands(1);
  land(2);
  await expect(feed.next()).rejects.toMatchObject({ code });
  expect(await feed.next()).toEqual({ done: true, value: undefined });
});

it("that cannot be told where the object stands end with the reason", async () => {
  const feed = feeds.open(object, "landings");
  stored.reject(MoonportError.of("moved", "elsewhere", { details: { node: "n2" } }));
  await expect(feed.next()).rejects.toMatchObject({ code: "moved", details: { node: "n2" } });
});

function lastOf(item: FeedItem): number {
  return item.kind === "found" ? item.last : item.seq;
}
