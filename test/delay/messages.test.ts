/** Messages between objects, and commands from outside, on a whole node under virtual time. */
import { expect, it } from "vitest";
import type { SendRequest } from "../../src/delay/contract.js";
import { VirtualNode } from "../support/virtual-node.js";
import { POST } from "./classes.js";

async function start(settings: Readonly<Record<string, number>> = {}): Promise<VirtualNode> {
  return VirtualNode.start({ classes: { Post: POST }, settings });
}

function send(virtual: VirtualNode, key: string, method: string, more: Partial<SendRequest> = {}): Promise<string> {
  const request = { app: "default", className: "Post", key, method, args: [], ...more };
  return virtual.time.until(virtual.node.delay.send(request)).then(({ id }) => id);
}

async function got(virtual: VirtualNode, key: string): Promise<unknown> {
  return virtual.call(`Post/${key}`, "got");
}

async function outboxOf(virtual: VirtualNode, key: string): Promise<number> {
  return (await virtual.time.until(virtual.node.inspect(virtual.identity(`Post/${key}`)))).outbox;
}

it("a message arrives once its sender has committed, in order, and leaves the outbox", async () => {
  const virtual = await start();
  await virtual.call("Post/a", "mail", "b", ["one", "two", "three"]);
  await virtual.time.advance(1_000);
  expect(await got(virtual, "b")).toEqual([
    "one from default/Post/a",
    "two from default/Post/a",
    "three from default/Post/a",
  ]);
  expect(await outboxOf(virtual, "a")).toBe(0);
});

it("a message of a call that fails is never sent", async () => {
  const virtual = await start();
  await expect(virtual.call("Post/a", "mail_and_fail", "b")).rejects.toMatchObject({ code: "method_error" });
  await virtual.time.advance(60_000);
  expect(await got(virtual, "b")).toBeNull();
});

it("what a method had others do before it failed is not done again by the next try to deliver its message", async () => {
  const Relay = `
    local Relay = class "Relay"
    function Relay:begin() send(Relay("b")):pass() end
    function Relay:pass() Relay("c"):count() error "and yet" end
    function Relay:count() state.store.set("n", (state.store.get("n") or 0) + 1) end
    function Relay.read:counted() return state.store.get("n") end
    return Relay`;
  const virtual = await VirtualNode.start({ classes: { Relay }, settings: { DELAY_ATTEMPTS_MAX: 3 } });
  await virtual.call("Relay/a", "begin");
  await virtual.time.advance(120_000);
  expect(await virtual.time.until(virtual.node.delay.list({ states: ["dead"] }))).toHaveLength(1);
  expect(await virtual.call("Relay/c", "counted")).toBe(1);
});

it("a message whose id its receiver may have forgotten is delivered under another", async () => {
  const virtual = await start();
  const ahead = (virtual.world.clock.wallMs() + 20_000)
    .toString(16)
    .padStart(12, "0")
    .replace(/^(.{8})/, "$1-");
  // More than the next life is told of one by one.
  const calls = Array.from({ length: 50 }, (_, n) =>
    virtual.start("Post/b", n < 49 ? "count" : "farewell", n < 49 ? [] : ["c", []], {
      callId: `${ahead}-7000-8000-0000000000${n + 10}`,
    }),
  );
  await virtual.time.until(Promise.all(calls));
  await virtual.time.advance(1_000);
  await virtual.call("Post/a", "mail", "b", ["hello"]);
  await virtual.time.advance(120_000);
  expect(await got(virtual, "b")).toEqual(["hello from default/Post/a"]);
});

it("a delayed message arrives at its time", async () => {
  const virtual = await start();
  await virtual.call("Post/a", "mail_later", "b", "later", "1h");
  await virtual.time.advance(3_599_000);
  expect(await got(virtual, "b")).toBeNull();
  await virtual.time.advance(2_000);
  expect(await got(virtual, "b")).toEqual(["later from default/Post/a"]);
});

it("a message that its receiver refuses is tried again, then a dead letter that can be delivered after all", async () => {
  const virtual = await start({ DELAY_ATTEMPTS_MAX: 3, DELAY_BACKOFF_MAX_MS: 10_000 });
  await virtual.call("Post/b", "refuse", true);
  await virtual.call("Post/a", "mail", "b", ["hello"]);
  await virtual.time.advance(120_000);
  expect(await outboxOf(virtual, "a")).toBe(0);
  const dead = await virtual.time.until(virtual.node.delay.list({ states: ["dead"] }));
  expect(dead).toMatchObject([{ object: "default/Post/b", method: "take", error: { code: "refused" }, attempts: 2 }]);
  await virtual.call("Post/b", "refuse", false);
  const id = dead[0]?.id ?? "";
  expect(await virtual.time.until(virtual.node.delay.retry(id))).toBe(true);
  await virtual.time.advance(1_000);
  expect(await got(virtual, "b")).toEqual(["hello from default/Post/a"]);
  const found = await virtual.time.until(virtual.node.delay.get(id));
  expect(found?.command.state).toBe("done");
  expect(await virtual.time.until(virtual.node.delay.retry(id))).toBe(false);
});

it("cancel and move say whether it was in time", async () => {
  const virtual = await start();
  const cancel = (id: string) => virtual.time.until(virtual.node.delay.cancel(id));
  const first = await send(virtual, "b", "take", { args: ["first"], delayMs: 10_000 });
  const second = await send(virtual, "b", "take", { args: ["second"], delayMs: 10_000 });
  const third = await send(virtual, "b", "take", { args: ["third"], delayMs: 10_000 });
  expect(await cancel(first)).toBe("done");
  expect(await cancel(first)).toBe("done");
  expect(await virtual.time.until(virtual.node.delay.move(second, { delayMs: 100_000 }))).toBe("done");
  await virtual.time.advance(11_000);
  expect(await got(virtual, "b")).toEqual(["third from nobody"]);
  expect(await cancel(third)).toBe("delivered");
  expect(await virtual.time.until(virtual.node.delay.move(third, { delayMs: 1 }))).toBe("delivered");
  expect(await cancel("never-heard-of")).toBe("unknown");
  await virtual.time.advance(100_000);
  expect(await got(virtual, "b")).toEqual(["third from nobody", "second from nobody"]);
});

it("a command of one id is one command, and another one under it is refused", async () => {
  const virtual = await start();
  for (let again = 0; again < 3; again++) await send(virtual, "b", "take", { args: ["x"], id: "x", delayMs: 1_000 });
  await virtual.time.advance(2_000);
  await send(virtual, "b", "take", { args: ["x"], id: "x" });
  await virtual.time.advance(2_000);
  expect(await got(virtual, "b")).toEqual(["x from nobody"]);
  await expect(send(virtual, "b", "refuse", { id: "x" })).rejects.toMatchObject({ code: "id_conflict" });
});

it.each([
  [{ delayMs: 1, atMs: 1 }, "bad_option"],
  [{ timeZone: "Europe/Berlin" }, "bad_option"],
  [{ cron: "not cron" }, "bad_value"],
  [{ cron: "0 9 * * *", timeZone: "Mars/Olympus" }, "bad_value"],
  [{ everyMs: 0 }, "bad_value"],
  [{ atMs: Number.MAX_VALUE }, "bad_value"],
  [{ id: "has#sign" }, "bad_option"],
  [{ method: "no_such" }, "method_not_found"],
  [{ className: "Nothing" }, "class_not_found"],
  [{ app: "system", className: "DelayShard", method: "append" }, "app_not_found"],
])("what cannot be sent is refused: %j is %s", async (wrong, code) => {
  const virtual = await start();
  await expect(send(virtual, "b", "take", wrong as Partial<SendRequest>)).rejects.toMatchObject({ code });
});

it("a command found after its expiry is not delivered, and counted", async () => {
  const virtual = await start();
  const nowMs = virtual.world.clock.wallMs();
  await send(virtual, "b", "take", { args: ["in time"], delayMs: 5_000, expiresMs: nowMs + 60_000 });
  const late = await send(virtual, "b", "take", { args: ["too late"], delayMs: 30_000, expiresMs: nowMs + 60_000 });
  await virtual.time.advance(10_000);
  virtual.crash();
  await virtual.time.advance(600_000);
  await virtual.open();
  await virtual.time.advance(10_000);
  expect(await got(virtual, "b")).toEqual(["in time from nobody"]);
  expect((await virtual.time.until(virtual.node.delay.get(late)))?.command.state).toBe("expired");
  const tallies = await virtual.time.until(virtual.node.delay.tallies());
  expect(tallies.reduce((sum, { counts }) => sum + (counts.expired ?? 0), 0)).toBe(1);
});

it("a recurring command runs at its times, lists its runs, and ends when it is cancelled", async () => {
  const virtual = await start();
  const id = await send(virtual, "b", "take", { args: ["tick"], everyMs: 10_000 });
  await virtual.time.advance(35_000);
  expect(await got(virtual, "b")).toHaveLength(3);
  const found = await virtual.time.until(virtual.node.delay.get(id));
  expect(found?.command).toMatchObject({ state: "pending", recurring: true, run: 4 });
  expect(found?.runs.map(({ outcome }) => outcome)).toEqual(["done", "done", "done"]);
  expect((found?.command.nextMs ?? 0) - (found?.runs.at(-1)?.dueMs ?? 0)).toBe(10_000);
  expect(await virtual.time.until(virtual.node.delay.cancel(id))).toBe("done");
  await virtual.time.advance(60_000);
  expect(await got(virtual, "b")).toHaveLength(3);
});

it("who scheduled a command may have an object told what became of it", async () => {
  const virtual = await start({ DELAY_ATTEMPTS_MAX: 1 });
  const outcome = { className: "Post", key: "log", method: "told" };
  await send(virtual, "b", "take", { args: ["fine"], id: "fine", outcome });
  await send(virtual, "b", "take_not", { id: "wrong", outcome });
  await virtual.time.advance(10_000);
  const told = (await got(virtual, "log")) as string[];
  expect(told.sort()).toEqual(["fine done", "wrong dead method_error"]);
});

it("large arguments lie in the bucket until nobody refers to them", async () => {
  const virtual = await start();
  const large = "x".repeat(40_000);
  const first = await send(virtual, "b", "take", { args: [large], delayMs: 5_000 });
  await send(virtual, "b", "take", { args: [large], delayMs: 10_000 });
  expect(await virtual.keys("delay/")).toHaveLength(1);
  await virtual.time.advance(6_000);
  expect((await virtual.time.until(virtual.node.delay.get(first)))?.command.state).toBe("done");
  await virtual.time.advance(2 * 3_600_000);
  expect((await got(virtual, "b")) as string[]).toHaveLength(2);
  expect(await virtual.keys("delay/")).toEqual([]);
});

it("what ended is forgotten after a time, and the log keeps so many entries", async () => {
  const virtual = await start({ DELAY_KEPT_MS: 60_000, DELAY_LOG_ENTRIES_MAX: 20 });
  for (let count = 0; count < 30; count++) await send(virtual, "b", "take", { args: ["x"], id: `x${count}` });
  await virtual.time.advance(1_500_000);
  expect(await virtual.time.until(virtual.node.delay.list({}))).toEqual([]);
  const [{ shard = 0 } = {}] = (await virtual.time.until(virtual.node.delay.tallies())).filter(
    ({ counts }) => counts.done,
  );
  const log = await virtual.time.until(virtual.node.delay.log(shard, 0, 1_000));
  expect(log).toHaveLength(20);
  expect(log.at(-1)?.number).toBeGreaterThan(20);
});

it("many commands due in the same second are all delivered, a bounded number at a time", async () => {
  const virtual = await start({ DELAY_CONCURRENCY: 10, DELAY_BATCH_MAX: 50 });
  const count = 500;
  const sending = Array.from({ length: count }, (_, index) =>
    virtual.node.delay.send({
      app: "default",
      className: "Post",
      key: `k${index % 7}`,
      method: "count",
      args: [],
      delayMs: 10_000,
    }),
  );
  await virtual.time.until(Promise.all(sending));
  await virtual.time.advance(60_000);
  let delivered = 0;
  for (let key = 0; key < 7; key++) delivered += (await virtual.call(`Post/k${key}`, "counted")) as number;
  expect(delivered).toBe(count);
});

it("jobs go on after one that cannot be delivered, without another being added", async () => {
  const virtual = await start();
  await send(virtual, "b", "take_not", { delayMs: 1_000 });
  await send(virtual, "b", "take", { args: ["next"], delayMs: 2_000 });
  await virtual.time.advance(10_000);
  expect(await got(virtual, "b")).toEqual(["next from nobody"]);
});

it("one command that no transaction takes does not take the others along", async () => {
  const virtual = await start();
  const good = { app: "default", className: "Post", key: "b", method: "take", args: ["good"] };
  const sending = Promise.allSettled([
    virtual.node.delay.send({ ...good, id: "one" }),
    // Far in the past, which the shard itself refuses.
    virtual.node.delay.send({ ...good, id: "two", atMs: -1 }),
    virtual.node.delay.send({ ...good, id: "three" }),
  ]);
  const results = await virtual.time.until(sending);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  await virtual.time.advance(5_000);
  expect(await got(virtual, "b")).toEqual(["good from nobody", "good from nobody"]);
});

it("a stop that is orderly leaves nothing owed", async () => {
  const virtual = await start();
  await virtual.call("Post/a", "mail", "b", ["one"]);
  await virtual.call("Post/a", "mail_later", "b", "later", "1h");
  await virtual.stop();
  expect(await virtual.keys("owing/")).toEqual([]);
  expect(virtual.time.pendingTimers).toBe(0);
  await virtual.time.advance(3_700_000);
  virtual.crash();
  await virtual.open();
  await virtual.time.advance(5_000);
  expect(await got(virtual, "b")).toEqual(["one from default/Post/a", "later from default/Post/a"]);
});
