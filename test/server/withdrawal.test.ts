/** Tokens are withdrawn or narrowed while something goes on: what they no longer allow ends, and nothing else does. */
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Access, Principal } from "../../src/auth/contract.js";
import { StaticTokens } from "../../src/auth/static-tokens.js";
import { HttpNodeClient } from "../../src/client/http-node-client.js";
import { connect } from "../../src/client/index.js";
import { MoonportError } from "../../src/errors.js";
import { identityOf } from "../../src/identity.js";
import type { Delivery } from "../../src/realtime/contract.js";
import type { PlainObject } from "../../src/values.js";
import type { ClientFrame } from "../../src/wire/frames.js";
import { classes } from "../realtime/log-class.js";
import { StreamClient, serveNode } from "../support/event-streams.js";
import { ask, world } from "./door.js";
import { type OpenSockets, openSockets, TestClient } from "./sockets.js";

const KEY = new Uint8Array(32).fill(7);
const tokenOf = (id: string): string => `mp_${id}-0123456789abcdef`;

interface Entry {
  readonly claims?: PlainObject;
  readonly allow: readonly object[];
}

type Entries = Readonly<Record<string, Entry | undefined>> & { readonly anonymous?: Entry | undefined };

/** By id; `anonymous` is everybody. */
function fileOf(entries: Entries): string {
  const { anonymous, ...named } = entries;
  const tokens = Object.entries(named).flatMap(([id, entry]) => (entry ? [{ id, token: tokenOf(id), ...entry }] : []));
  // A file has to let somebody in.
  const operator = { id: "operator", token: tokenOf("operator"), allow: [{ rights: ["admin"] }] };
  return JSON.stringify({ tokens: [...tokens, operator], ...(anonymous && { anonymous: { allow: anonymous.allow } }) });
}

const tokensOf = (entries: Entries): StaticTokens => new StaticTokens(fileOf(entries), "auth.json", KEY);
const replace = (tokens: StaticTokens, entries: Entries): void => tokens.replace(fileOf(entries), "auth.json");
const grant = (rights: readonly string[], more: object = {}): object => ({ rights, ...more });
const all: Entry = { allow: [grant(["read", "call", "subscribe"])] };

async function open(tokens: StaticTokens, settings: Record<string, number> = {}): Promise<OpenSockets> {
  const sockets = await openSockets(settings, tokens);
  onTestFinished(() => sockets.stop());
  return sockets;
}

const lot = { class: "Auction", key: "lot-1" };

describe("a WebSocket", () => {
  it("closes with 4401 when its token is gone, whatever is under way, and others stay", async () => {
    const tokens = tokensOf({ ada: all, bob: all });
    const sockets = await open(tokens);
    sockets.node.answer = () => new Promise(() => {});
    const ada = await TestClient.greeted(sockets.port, undefined, tokenOf("ada"));
    const bob = await TestClient.greeted(sockets.port, undefined, tokenOf("bob"));
    for (const client of [ada, bob]) {
      client.send({ type: "subscribe", id: 1, ...lot });
      client.send({ type: "call", id: 2, ...lot, method: "bid" });
      await client.roundTrip();
    }
    replace(tokens, { bob: all });
    expect(await ada.closed).toEqual({ code: 4401, reason: "unauthenticated: the token is not known here" });
    await bob.roundTrip();
    expect(bob.frames).toEqual([]);
    expect(sockets.live.subscriptions.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    expect(sockets.node.calls[0]?.waiter?.isGone()).toBe(true);
    // The door would wait for it.
    bob.send({ type: "cancel", id: 2 });
    await bob.roundTrip();
  });

  it("without a token closes with 4401 when nobody is let in without one any more", async () => {
    const tokens = tokensOf({ anonymous: all });
    const sockets = await open(tokens);
    const anybody = await TestClient.greeted(sockets.port);
    replace(tokens, { anonymous: { allow: [grant(["read"])] } });
    await anybody.roundTrip();
    replace(tokens, {});
    expect((await anybody.closed).code).toBe(4401);
  });

  it("tells a subscription and a view that they ended and why, and goes on with the rest", async () => {
    const tokens = tokensOf({ ada: all });
    const sockets = await open(tokens);
    const ada = await TestClient.greeted(sockets.port, undefined, tokenOf("ada"));
    ada.send({ type: "subscribe", id: 1, ...lot });
    ada.send({ type: "subscribe", id: 2, class: "Chat", key: "room" });
    ada.send({ type: "view", id: 3, ...lot, method: "top" });
    ada.send({ type: "view", id: 4, ...lot, method: "bids" });
    await ada.roundTrip();
    replace(tokens, {
      ada: { allow: [grant(["subscribe"], { classes: ["Chat"] }), grant(["read"], { methods: ["top"] })] },
    });
    expect(await ada.next("error", 1)).toMatchObject({ error: { code: "forbidden", status: 403, retryable: false } });
    expect(await ada.next("error", 4)).toMatchObject({ error: { code: "forbidden" } });
    sockets.live.deliver({ kind: "subscribed", after: 7 });
    await ada.roundTrip();
    expect(ada.frames.map(({ type, id }) => [type, id])).toEqual([
      ["subscribed", 2],
      ["subscribed", 3],
    ]);
    expect(sockets.door.load).toEqual({ sockets: 1, calls: 0, subscriptions: 2 });
  });

  it("tells a subscription that does not stand yet, and closes it when it would", async () => {
    const tokens = tokensOf({ ada: all });
    const sockets = await open(tokens);
    const { live } = sockets;
    const subscribe = live.subscribe.bind(live);
    let stand = (): void => {};
    const held = new Promise<void>((resolve) => {
      stand = resolve;
    });
    live.subscribe = (request, sink) => held.then(() => subscribe(request, sink));
    const ada = await TestClient.greeted(sockets.port, undefined, tokenOf("ada"));
    ada.send({ type: "subscribe", id: 1, ...lot });
    await ada.roundTrip();
    replace(tokens, { ada: { allow: [grant(["read"])] } });
    expect(await ada.next("error", 1)).toMatchObject({ error: { code: "forbidden" } });
    stand();
    await ada.roundTrip();
    expect([live.subscriptions.length, live.open]).toEqual([1, 0]);
  });

  it("goes on as whom its token now says: later calls at once, what was evaluated as the old one asks again", async () => {
    const bidder = { ...all, claims: { role: "bidder" } };
    const tokens = tokensOf({ ada: bidder });
    const sockets = await open(tokens);
    const ada = await TestClient.greeted(sockets.port, undefined, tokenOf("ada"));
    ada.send({ type: "view", id: 1, ...lot, method: "top" });
    ada.send({ type: "subscribe", id: 2, ...lot });
    ada.send({ type: "subscribe", id: 3, ...lot, snapshotAfterGap: { method: "top", args: [] } });
    await ada.roundTrip();
    // The same again is no change.
    replace(tokens, { ada: { ...all, claims: { role: "bidder" } } });
    await ada.roundTrip();
    replace(tokens, { ada: { ...all, claims: { role: "guest" } } });
    for (const id of [1, 3]) {
      expect(await ada.next("error", id)).toMatchObject({ error: { code: "token_changed", retryable: true } });
    }
    ada.send({ type: "call", id: 4, ...lot, method: "bid" });
    await ada.next("reply", 4);
    expect(sockets.node.calls[0]?.caller).toEqual({ kind: "client", id: "ada", claims: { role: "guest" } });
    expect(ada.frames).toEqual([]);
    expect(sockets.live.open).toBe(1);
  });

  it("that has not said hello is let in, or not, by the file of the moment", async () => {
    const tokens = tokensOf({ ada: all });
    const sockets = await open(tokens);
    const ada = await TestClient.connect(sockets.port);
    replace(tokens, {});
    ada.send({ type: "hello", token: tokenOf("ada") });
    expect((await ada.closed).code).toBe(4401);
  });

  it("keeps exactly what the new file allows, whatever the old one did", async () => {
    const limited = fc.record(
      { classes: fc.constant(["Auction"]), keys: fc.constant(["lot-*"]), methods: fc.constant(["top"]) },
      { requiredKeys: [] },
    );
    const rights = fc.subarray(["read", "call", "subscribe"], { minLength: 1 });
    const entry = fc.record({
      allow: fc.array(
        fc.tuple(rights, limited).map(([held, limits]) => grant(held, limits)),
        { minLength: 1, maxLength: 2 },
      ),
    });
    const entries = fc.record({
      ada: fc.option(entry, { nil: undefined, freq: 6 }),
      bob: fc.option(entry, { nil: undefined, freq: 6 }),
      anonymous: fc.option(entry, { nil: undefined, freq: 3 }),
    });
    const target = fc.constantFrom(lot, { class: "Auction", key: "house" }, { class: "Chat", key: "lot-1" });
    const method = fc.constantFrom("top", "bids");
    const watching = fc.oneof(
      fc.record({ type: fc.constant("view" as const), target, method }),
      fc.record({ type: fc.constant("subscribe" as const), target, method: fc.option(method, { nil: undefined }) }),
    );
    const people = ["ada", "bob", "anonymous"] as const;
    await fc.assert(
      fc.asyncProperty(
        fc.array(watching, { minLength: 1, maxLength: 12 }),
        fc.array(entries, { minLength: 1, maxLength: 3 }),
        async (asked, files) => {
          const tokens = tokensOf({ ada: all, bob: all, anonymous: all });
          const sockets = await openSockets({}, tokens);
          const clients = await Promise.all(
            people.map((who) =>
              TestClient.greeted(sockets.port, undefined, who === "anonymous" ? undefined : tokenOf(who)),
            ),
          );
          for (const client of clients) {
            for (const [id, one] of asked.entries()) client.send(frameOf(id, one));
            await client.roundTrip();
          }
          for (const file of files) replace(tokens, file);
          const last = files.at(-1) as Entries;
          const oracle = tokensOf(last);
          for (const [at, who] of people.entries()) {
            const client = clients[at] as TestClient;
            if (last[who] === undefined) {
              expect((await client.closed).code).toBe(4401);
              continue;
            }
            const principal = oracle.authenticate(who === "anonymous" ? undefined : tokenOf(who));
            const refused = asked.flatMap((one, id) => (mayHave(principal, one) ? [] : [id]));
            for (const id of refused) await client.next("error", id);
            client.send({ type: "ping" });
            await client.next("pong");
            expect(client.frames.filter(({ type }) => type === "error")).toEqual([]);
          }
          await sockets.stop();
        },
      ),
      { numRuns: 40 },
    );
  });
});

interface Watching {
  readonly type: "view" | "subscribe";
  readonly target: { readonly class: string; readonly key: string };
  readonly method?: string | undefined;
}

function frameOf(id: number, { type, target, method }: Watching): ClientFrame {
  if (type === "view") return { type, id, ...target, method: method ?? "" };
  return { type, id, ...target, ...(method !== undefined && { snapshotAfterGap: { method, args: [] } }) };
}

/** What the rights of docs/auth.md say, asked anew. */
function mayHave(principal: Principal, { type, target, method }: Watching): boolean {
  const allows = (access: Pick<Access, "right" | "method">): boolean => {
    try {
      principal.check({ app: "default", className: target.class, key: target.key, ...access });
      return true;
    } catch (error) {
      if (error instanceof MoonportError) return false;
      throw error;
    }
  };
  const reads = method === undefined || allows({ right: "read", method }) || allows({ right: "call", method });
  return reads && (type === "view" || allows({ right: "subscribe" }));
}

describe("an event stream", () => {
  const PATH = "/v1/default/Log/a/-/events";
  const as = (id: string): { authorization: string } => ({ authorization: `Bearer ${tokenOf(id)}` });

  it("says why it ends when its token is gone or allows it no longer, and others go on", async () => {
    const tokens = tokensOf({ ada: all, bob: all, cyd: all });
    const served = await serveNode({ classes, auth: tokens });
    const [ada, bob, cyd] = await Promise.all(
      ["ada", "bob", "cyd"].map((id) => StreamClient.open(served.port, PATH, as(id))),
    );
    for (const stream of [ada, bob, cyd]) await stream?.until(({ messages }) => messages.length === 1);
    replace(tokens, { bob: { allow: [grant(["read"])] }, cyd: all });
    await Promise.all([ada?.ended(), bob?.ended()]);
    const [gone, narrowed] = [ada, bob].map((stream) => JSON.parse(stream?.messages.at(-1)?.data ?? "{}"));
    expect(gone).toMatchObject({ reason: "withdrawn", after: 0, error: { code: "unauthenticated" } });
    expect(narrowed).toMatchObject({ reason: "withdrawn", after: 0, error: { code: "forbidden" } });
    expect((await served.node.status()).subscriptions).toBe(1);
    const said = await ask(served.port, "POST", "/v1/default/Log/a/say", '["hi"]', as("cyd"));
    expect(said.status).toBe(200);
    await cyd?.until(({ messages }) => messages.length === 2);
    expect(ada?.story).toHaveLength(2);
  });

  it("with a snapshot ends for whom its token says something else of, to be opened again", async () => {
    const tokens = tokensOf({ ada: { ...all, claims: { role: "bidder" } } });
    const served = await serveNode({ classes, auth: tokens });
    const plain = await StreamClient.open(served.port, PATH, as("ada"));
    const reading = await StreamClient.open(served.port, `${PATH}?snapshot=last`, as("ada"));
    await plain.until(({ messages }) => messages.length === 1);
    await reading.until(({ messages }) => messages.length === 2);
    replace(tokens, { ada: { ...all, claims: { role: "guest" } } });
    await reading.ended();
    const { reason, error } = JSON.parse(reading.messages.at(-1)?.data ?? "{}");
    expect([reason, error.code, error.retryable]).toEqual(["withdrawn", "token_changed", true]);
    expect(plain.isEnded).toBe(false);
  });

  it("whose rights went while it was being opened does not go on", async () => {
    const tokens = tokensOf({ ada: all });
    const served = await serveNode({ classes, auth: tokens });
    await ask(served.port, "POST", "/v1/default/Log/a/say", '["hi"]', as("ada"));
    const subscribe = served.node.subscribe.bind(served.node);
    served.node.subscribe = async (request, sink) => {
      const subscription = await subscribe(request, sink);
      replace(tokens, {});
      // Whoever is open by now has been looked at; this one is not.
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      return subscription;
    };
    const stream = await StreamClient.open(served.port, PATH, as("ada"));
    await stream.ended();
    expect(JSON.parse(stream.messages.at(-1)?.data ?? "{}")).toMatchObject({ reason: "withdrawn" });
    while ((await served.node.status()).subscriptions > 0) await new Promise((resolve) => setImmediate(resolve));
  });
});

describe("our clients", () => {
  const log = { object: identityOf("default", "Log", "a"), caller: { kind: "client" as const } };
  /** The token of ada, with another name on it. */
  const renamed = (id: string, entry: Entry): string =>
    JSON.stringify({ tokens: [{ id, token: tokenOf("ada"), ...entry }] });

  it("hear over a WebSocket that it is over, or go on as whom the token now says, with nothing lost", async () => {
    const tokens = tokensOf({ ada: all });
    const served = await serveNode({ classes, auth: tokens });
    const client = connect(served.doors.url, { token: tokenOf("ada"), reconnectDelayMs: 10 });
    onTestFinished(() => client.close());
    const object = client.object("Log", "a");
    await object.call("say", ["one"]);
    const who = object.view("who");
    const events = object.subscribe({ from: { after: 0 }, snapshotAfterGap: { snapshot: "last" } });
    expect((await who.next()).value).toBe("ada");
    expect((await events.next()).value).toMatchObject({ number: 1 });
    tokens.replace(renamed("eve", all), "auth.json");
    expect((await who.next()).value).toBe("eve");
    await object.call("say", ["two"]);
    expect((await events.next()).value).toMatchObject({ number: 2, data: "two" });
    tokens.replace(renamed("eve", { allow: [grant(["read"])] }), "auth.json");
    await expect(events.next()).rejects.toMatchObject({ code: "forbidden" });
    await object.call("last", []);
    tokens.replace(fileOf({}), "auth.json");
    await expect(who.next()).rejects.toMatchObject({ code: "unauthenticated" });
    expect(client.state).toMatchObject({ kind: "closed", error: { code: "unauthenticated" } });
  });

  it("hear the same over an event stream", async () => {
    const tokens = tokensOf({ ada: all });
    const served = await serveNode({ classes, auth: tokens });
    const client = new HttpNodeClient({ url: served.doors.url, world, token: tokenOf("ada") });
    onTestFinished(() => client.close());
    const told: Delivery[] = [];
    let heard = (): void => {};
    const sink = {
      deliver: (one: Delivery) => {
        told.push(one);
        heard();
      },
      room: () => undefined,
      isFull: () => false,
    };
    const until = async (count: number): Promise<void> => {
      while (told.length < count) {
        await new Promise<void>((resolve) => {
          heard = resolve;
        });
      }
    };
    const from = { kind: "snapshot" as const, reading: { method: "last", args: [] } };
    await client.subscribe({ ...log, from }, sink);
    await until(2);
    tokens.replace(renamed("eve", all), "auth.json");
    await served.node.call({ ...log, method: "say", args: ["one"] });
    await until(3);
    tokens.replace(renamed("eve", { allow: [grant(["read"])] }), "auth.json");
    await until(4);
    expect(told.map(({ kind }) => kind)).toEqual(["snapshot", "subscribed", "event", "ended"]);
    expect(told[3]).toMatchObject({ reason: "failed", after: 1, error: { code: "forbidden" } });
  });
});
