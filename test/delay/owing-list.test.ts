/** The session's owing list in the bucket, and what keeps an object on it (W1). */
import { describe, expect, it } from "vitest";
import { MemoryBucket } from "../../src/bucket/memory-bucket.js";
import { ArgumentStore } from "../../src/delay/argument-store.js";
import { OwedKeeper } from "../../src/delay/owed-keeper.js";
import { OwingList } from "../../src/delay/owing-list.js";
import { Scheduler } from "../../src/delay/scheduler.js";
import { ShardMap } from "../../src/delay/shard-map.js";
import { type ErrorCode, MoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import { DelayCounters } from "../../src/metrics/delay-counters.js";
import { resolveSettings } from "../../src/settings/settings.js";
import type { StoredMessage } from "../../src/store/outbox.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import type { PlainValue } from "../../src/values.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const SESSIONS = ["s1", "s2"] as const;
const LINGER_MS = 30_000;

function object(key: string): ObjectIdentity {
  return identityOf("default", "Alarm", key);
}

async function start() {
  const time = new VirtualTime();
  const world = new VirtualWorld({ time, root: temporaryFolder(), seed: 1 });
  const bucket = new MemoryBucket(world);
  await bucket.start();
  let session: string = SESSIONS[0];
  const owing = new OwingList({ world, bucket, session: () => session });
  const listed = async (): Promise<string[]> => {
    const { keys } = await time.until(bucket.list("owing/"));
    const parts = await Promise.all(keys.map((key) => time.until(bucket.get(key))));
    return parts.flatMap((part) => JSON.parse(Buffer.from(part?.bytes ?? []).toString("utf8")) as string[]);
  };
  const added = async (id: string): Promise<void> => time.until(owing.add(id) ?? Promise.resolve());
  /** As a node does that has lapsed; until it has a session again it goes by the old one's name. */
  const lapse = (): void => owing.sessionEnded();
  const rejoin = (): void => {
    session = SESSIONS[1];
  };
  return { time, world, bucket, owing, listed, added, lapse, rejoin };
}

describe("the owing list", () => {
  it("is written once for all that come in one turn, and not again for who stands there", async () => {
    const { time, bucket, owing, listed } = await start();
    await time.until(Promise.all(["a", "b", "c"].map((id) => owing.add(id))));
    expect(bucket.counts().write).toBe(1);
    expect(owing.add("b")).toBeUndefined();
    expect(await listed()).toEqual(["a", "b", "c"]);
  });

  it("is rewritten by a long session: who owes nothing any more leaves it, and parts that nobody needs go", async () => {
    const { time, owing, listed, added } = await start();
    for (let hour = 0; hour < 3; hour++) {
      for (let n = 0; n < 300; n++) await added(`${hour}-${n}`);
      for (let n = 0; n < 300; n++) if (n !== 150) owing.release(`${hour}-${n}`);
      await time.advance(2 * LINGER_MS);
    }
    const left = await listed();
    expect(left).toEqual(expect.arrayContaining(["0-150", "1-150", "2-150"]));
    // At most the parts that the three stand in.
    expect(left.length).toBeLessThanOrEqual(3 * 128);
    for (const id of ["0-150", "1-150", "2-150"]) owing.release(id);
    await time.advance(2 * LINGER_MS);
    expect(await listed()).toEqual([]);
  });

  it("of a session that has ended is not that of the next: what was listed in between is listed again", async () => {
    const { time, bucket, owing, added, lapse, rejoin } = await start();
    await added("before");
    lapse();
    await added("between");
    rejoin();
    for (const id of ["between", "after"]) await added(id);
    expect(owing.add("between")).toBeUndefined();
    const { keys } = await time.until(bucket.list(`owing/${SESSIONS[1]}/`));
    const lists = await Promise.all(keys.map((key) => time.until(bucket.get(key))));
    const listed = lists.flatMap((one) => JSON.parse(Buffer.from(one?.bytes ?? []).toString()) as string[]);
    expect(listed).toEqual(expect.arrayContaining(["between", "after"]));
  });

  it("promises nothing where the session has changed before it is written", async () => {
    const { time, bucket, owing, lapse, rejoin } = await start();
    lapse();
    const gate = bucket.gate();
    const adding = owing.add("between") as Promise<void>;
    await time.advance(10);
    rejoin();
    gate.release();
    await expect(time.until(adding)).rejects.toMatchObject({ code: "node_fenced" });
  });

  it("takes up what comes while parts that nobody needs are being deleted", async () => {
    const { time, bucket, owing, listed, added } = await start();
    await added("a");
    owing.release("a");
    const answer = deferred<void>();
    const begun = deferred<void>();
    const remove = bucket.delete.bind(bucket);
    bucket.delete = async (keys) => {
      begun.resolve();
      await answer.promise;
      await remove(keys);
    };
    await time.advance(2 * LINGER_MS);
    await time.until(begun.promise);
    const adding = owing.add("b");
    await time.settle();
    answer.resolve();
    await time.until(adding ?? Promise.resolve());
    expect(await listed()).toEqual(["b"]);
  });

  it("of a session that ends owing nothing is deleted at once; one that owes leaves it to be read", async () => {
    for (const owes of [false, true]) {
      const { time, owing, listed, added } = await start();
      await added("a");
      await added("b");
      owing.release("a");
      if (!owes) owing.release("b");
      await time.until(owing.stop());
      expect(await listed()).toEqual(owes ? ["a", "b"] : []);
    }
  });

  it("promises nothing once it has been given back: whoever ends the session may have read it", async () => {
    const { time, owing, added } = await start();
    await added("a");
    owing.release("a");
    const stopping = owing.stop();
    for (const id of ["a", "b"]) {
      await expect(time.until(owing.add(id) ?? Promise.resolve())).rejects.toMatchObject({ code: "node_fenced" });
    }
    await time.until(stopping);
  });

  it("does not write a part again whose last write has an outcome that nobody knows", async () => {
    const { time, bucket, owing, listed, added } = await start();
    await added("a");
    bucket.faults.failNext(1, { kind: "lost_answer" }, ["write"]);
    await expect(time.until(owing.add("b") ?? Promise.resolve())).rejects.toMatchObject({ code: "bucket_failed" });
    await added("b");
    expect((await time.until(bucket.list("owing/"))).keys).toEqual([
      `owing/${SESSIONS[0]}/1`,
      `owing/${SESSIONS[0]}/2`,
    ]);
    expect(await listed()).toContain("b");
  });
});

/** By its delay shard. */
function messageTo(key: string, number: number): StoredMessage {
  return {
    number,
    id: `m${number}`,
    className: "Alarm",
    key,
    method: "ring",
    args: [],
    dueMs: 0,
    isDelayed: true,
  };
}

/** A keeper whose shards answer when they are told to. @param outbox of every object */
async function startKeeper(outbox: StoredMessage[] = []) {
  const parts = await start();
  const settings = resolveSettings({});
  const answers: Deferred<PlainValue>[] = [];
  const ask = (): Promise<PlainValue> => {
    const answer = deferred<PlainValue>();
    answers.push(answer);
    return answer.promise;
  };
  const port = {
    ask,
    call: async () => null,
    wake: async () => ({ epoch: 1, seq: 1, ran: 0, inMs: null, dueMs: null }),
  };
  const { world, bucket, owing } = parts;
  const shards = new ShardMap([16]);
  const scheduler = new Scheduler({ world, settings, port, shards, arguments: new ArgumentStore(bucket) });
  const keeper = new OwedKeeper({
    world,
    settings,
    port,
    scheduler,
    shards,
    owing,
    counters: new DelayCounters(),
    messages: async () => [...outbox],
    sent: async (_, numbers) => {
      for (const number of numbers)
        outbox.splice(
          outbox.findIndex((message) => message.number === number),
          1,
        );
    },
  });
  return { ...parts, keeper, answers };
}

describe("what an object owes", () => {
  it("keeps it listed while the bucket is being told of more, though all of before is done meanwhile", async () => {
    const { time, keeper, answers, listed, added } = await startKeeper();
    const alarm = object("a");
    const timer = { seq: 1, nextDueMs: 1_000, messagesThrough: 0, isToldToShard: false };
    await time.until(keeper.listed(alarm, 1, { mark: timer, changesRow: false }) ?? Promise.resolve());
    keeper.landed(alarm, 1, timer);
    keeper.named(alarm);
    await time.settle();
    // A message is on its way into the bucket when the shard takes the wake time of before.
    const message = { seq: 2, nextDueMs: 1_000, messagesThrough: 1, isToldToShard: false };
    expect(keeper.listed(alarm, 1, { mark: message, changesRow: false })).toBeUndefined();
    answers[0]?.resolve([true]);
    await time.settle();
    // Another object has the list rewritten meanwhile.
    await added("other");
    expect(await listed()).toEqual([alarm.id, "other"]);
    keeper.landed(alarm, 1, message);
    keeper.named(alarm);
    await time.advance(2 * LINGER_MS);
    await added("one more");
    expect(await listed()).not.toContain(alarm.id);
  });

  it("keeps it listed from before the bucket names what a claim or a restore brings until its file is opened", async () => {
    const { time, keeper, answers, listed, added } = await startKeeper();
    const alarm = object("a");
    const timer = { seq: 1, nextDueMs: 1_000, messagesThrough: 0, isToldToShard: false };
    // Of an earlier residency, whose wake time is told only now.
    keeper.landed(alarm, 1, timer);
    await time.settle();
    await time.until(keeper.renews(alarm) ?? Promise.resolve());
    answers[0]?.resolve([true]);
    await time.settle();
    await added("other");
    expect(await listed()).toEqual([alarm.id, "other"]);
    keeper.opened(alarm, 2, { ...timer, nextDueMs: undefined });
    await time.advance(2 * LINGER_MS);
    await added("one more");
    expect(await listed()).not.toContain(alarm.id);
  });

  it("keeps it listed while it is to be woken, though it is opened meanwhile and owes nothing by then", async () => {
    const { time, keeper, listed, added } = await startKeeper();
    const alarm = object("a");
    await time.until(Promise.all([keeper.hold(alarm), keeper.hold(alarm)]));
    keeper.opened(alarm, 1, { seq: 1, nextDueMs: undefined, messagesThrough: 0, isToldToShard: false });
    keeper.letGo(alarm);
    await added("other");
    expect(await listed()).toEqual([alarm.id, "other"]);
    keeper.letGo(alarm);
    await time.advance(2 * LINGER_MS);
    await added("one more");
    expect(await listed()).not.toContain(alarm.id);
  });

  it("tells its shard of a timer that is set after the shard woke it, though the answer of before comes later still", async () => {
    const { time, keeper, answers } = await startKeeper();
    const alarm = object("a");
    const timer = { seq: 1, nextDueMs: 1_000, messagesThrough: 0, isToldToShard: false };
    await time.until(keeper.listed(alarm, 1, { mark: timer, changesRow: false }) ?? Promise.resolve());
    keeper.landed(alarm, 1, timer);
    keeper.named(alarm);
    await time.settle();
    // The shard has taken it, and asks, before the answer is here; nothing is due any more when it is told so.
    const woken = { epoch: 1, seq: 2, ran: 1, inMs: null, dueMs: null };
    await time.until(keeper.waking(alarm, "asker", async () => woken));
    answers[0]?.resolve([true]);
    await time.settle();
    keeper.landed(alarm, 1, { seq: 3, nextDueMs: 5_000, messagesThrough: 0, isToldToShard: false });
    await time.settle();
    expect(answers).toHaveLength(2);
  });

  it.each<ErrorCode>(["node_stopping", "moved", "node_fenced"])(
    "sends its messages, though the node of a shard says %s of itself",
    async (code) => {
      const outbox = [messageTo("b", 1)];
      const { time, keeper, answers, listed, added } = await startKeeper(outbox);
      const alarm = object("a");
      const mark = { seq: 1, nextDueMs: undefined, messagesThrough: 1, isToldToShard: false };
      await time.until(keeper.listed(alarm, 1, { mark, changesRow: false }) ?? Promise.resolve());
      keeper.landed(alarm, 1, mark);
      keeper.named(alarm);
      await time.settle();
      answers[0]?.reject(MoonportError.of(code, "the node of the shard"));
      await time.advance(1_000);
      await added("other");
      expect(await listed()).toEqual([alarm.id, "other"]);
      expect(answers).toHaveLength(2);
      answers[1]?.resolve(["scheduled"]);
      await time.until(keeper.settled());
      expect(outbox).toEqual([]);
    },
  );

  it("keeps it listed from before a row lands until its directory has it", async () => {
    const { time, keeper, listed, added } = await startKeeper();
    const alarm = object("a");
    await time.until(keeper.listed(alarm, 1, { mark: undefined, changesRow: true }) ?? Promise.resolve());
    keeper.offered(alarm, false);
    keeper.named(alarm);
    await time.advance(2 * LINGER_MS);
    await added("other");
    expect(await listed()).toEqual([alarm.id, "other"]);
    keeper.told(alarm);
    await time.advance(2 * LINGER_MS);
    await added("one more");
    expect(await listed()).not.toContain(alarm.id);
  });
});
