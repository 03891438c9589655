/** What links promise, over the simulated network and over real WebSockets alike. */
import { afterEach, describe, expect, it } from "vitest";
import { assert, MoonportError } from "../../src/errors.js";
import { deferred } from "../../src/world/deferred.js";
import { RealStage, SimulatedStage, type Stage } from "./stage.js";

const STAGES: readonly (readonly [string, () => Stage])[] = [
  ["a simulated network", () => new SimulatedStage()],
  ["WebSockets", () => new RealStage()],
];

describe.each(STAGES)("links over %s", (_name, makeStage) => {
  let stage: Stage;
  afterEach(() => stage.stop());

  it("bring a request to its handler and the answer back, with who asked", async () => {
    stage = makeStage();
    const one = await stage.node("one");
    const two = await stage.node("two", {
      prepare: (links) => {
        links.handle("echo", (body, from) => ({ body, from }));
        links.handle("later", async (body) => body);
      },
    });
    const body = { text: "ü", bytes: new Uint8Array([1, 2, 3]), list: [1, null, undefined, 2 ** 40], deep: { a: {} } };
    expect(await stage.until(one.links.request(two, "echo", body))).toEqual({
      body,
      from: { node: "one", session: "one-1" },
    });
    expect(await stage.until(one.links.request(two, "later", undefined))).toBe(undefined);
  });

  it("keep the order of requests, those that waited for the link first", async () => {
    stage = makeStage();
    const seen: unknown[] = [];
    const one = await stage.node("one");
    const two = await stage.node("two", { prepare: (links) => links.handle("note", (body) => void seen.push(body)) });
    const asked: Promise<unknown>[] = [];
    for (let index = 0; index < 100; index++) asked.push(one.links.request(two, "note", index));
    await stage.until(asked[50] as Promise<unknown>);
    for (let index = 100; index < 200; index++) asked.push(one.links.request(two, "note", index));
    await stage.until(Promise.all(asked));
    expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => index));
  });

  it("carry a MoonportError whole, and of any other error only that there was one", async () => {
    stage = makeStage();
    const one = await stage.node("one");
    const two = await stage.node("two", {
      prepare: (links) => {
        links.handle("refuse", () => {
          throw MoonportError.of("journal_full", "no room", {
            hint: "wait",
            object: "a/B/c",
            callId: "id",
            retryAfterMs: 7,
            details: { free: 0 },
          });
        });
        links.handle("class", async () => {
          throw MoonportError.byClass("too_low", "bid more", { details: { least: 5 } });
        });
        links.handle("fault", () => {
          throw new Error("the password is hunter2");
        });
        links.handle("assertion", () => assert(false, "the password is hunter2"));
        links.handle("useless", () => Symbol("no value"));
      },
    });
    const ask = (kind: string): Promise<unknown> => stage.until(one.links.request(two, kind, null));
    await expect(ask("refuse")).rejects.toMatchObject({
      code: "journal_full",
      message: "no room",
      hint: "wait",
      object: "a/B/c",
      callId: "id",
      retryAfterMs: 7,
      details: { free: 0 },
      retryable: true,
    });
    await expect(ask("class")).rejects.toMatchObject({ code: "too_low", source: "class", details: { least: 5 } });
    await expect(ask("fault")).rejects.toMatchObject({ code: "internal", message: 'two failed at "fault"' });
    await expect(ask("assertion")).rejects.toMatchObject({ code: "internal", message: 'two failed at "assertion"' });
    await expect(ask("useless")).rejects.toMatchObject({ code: "bad_value" });
    await expect(ask("unheard-of")).rejects.toMatchObject({ code: "bad_request" });
  });

  it("serve both directions at once, and a node that asks itself", async () => {
    stage = makeStage();
    const answering = (name: string) => ({
      prepare: (links: { handle: (k: string, h: () => string) => void }) => links.handle("who", () => name),
    });
    const one = await stage.node("one", answering("one"));
    const two = await stage.node("two", answering("two"));
    const asked = [
      one.links.request(two, "who", 0),
      two.links.request(one, "who", 0),
      one.links.request(one, "who", 0),
    ];
    expect(await stage.until(Promise.all(asked))).toEqual(["two", "one", "one"]);
  });

  it("fail at once what asks where nobody listens, and what is under way when the other side stops", async () => {
    stage = makeStage();
    const never = deferred<void>();
    const arrived = deferred<void>();
    const one = await stage.node("one");
    const two = await stage.node("two", {
      prepare: (links) =>
        links.handle("hang", () => {
          arrived.resolve();
          return never.promise;
        }),
    });
    const hanging = one.links.request(two, "hang", null).catch((error) => error);
    await stage.until(arrived.promise);
    await stage.until(two.links.stop());
    expect(await stage.until(hanging)).toMatchObject({ code: "link_broken" });
    const again = one.links.request(two, "hang", null);
    await expect(stage.until(again)).rejects.toMatchObject({ code: "node_unreachable" });
    expect(one.links.underWay).toBe(0);
  });

  it("carry a stream to its end, large items too", async () => {
    stage = makeStage();
    const one = await stage.node("one");
    const two = await stage.node("two", {
      prepare: (links) =>
        links.handleStream("parts", async function* (body) {
          for (let part = 0; part < (body as number); part++) yield { part, bytes: new Uint8Array(100_000).fill(part) };
        }),
    });
    const read = async (): Promise<number[]> => {
      const parts: number[] = [];
      for await (const item of one.links.openStream(two, "parts", 200)) {
        const { part, bytes } = item as { part: number; bytes: Uint8Array };
        expect(bytes).toHaveLength(100_000);
        expect(bytes[99_999]).toBe(part % 256);
        parts.push(part);
      }
      return parts;
    };
    expect(await stage.until(read())).toEqual(Array.from({ length: 200 }, (_, part) => part));
    expect(one.links.underWay).toBe(0);
  });

  it("end a stream over there when its reader leaves, and here when it throws over there", async () => {
    stage = makeStage();
    const left = deferred<void>();
    const one = await stage.node("one");
    const two = await stage.node("two", {
      prepare: (links) => {
        links.handleStream("endless", async function* () {
          try {
            for (let item = 0; ; item++) yield item;
          } finally {
            left.resolve();
          }
        });
        links.handleStream("broken", async function* () {
          yield 1;
          throw MoonportError.of("object_corrupt", "it has a gap");
        });
      },
    });
    const readSome = async (): Promise<void> => {
      for await (const item of one.links.openStream(two, "endless", null)) if (item === 100) break;
    };
    await stage.until(readSome());
    await stage.until(left.promise);
    const items: unknown[] = [];
    const readAll = async (): Promise<void> => {
      for await (const item of one.links.openStream(two, "broken", null)) items.push(item);
    };
    await expect(stage.until(readAll())).rejects.toMatchObject({ code: "object_corrupt" });
    expect(items).toEqual([1]);
    expect(one.links.underWay).toBe(0);
  });

  it("refuse a message that is too large, on either way, and go on", async () => {
    stage = makeStage();
    const set = { LINK_MESSAGE_BYTES_MAX: 2 ** 20 };
    const one = await stage.node("one");
    const two = await stage.node("two", {
      set,
      prepare: (links) =>
        links.handle("bytes", (count) => (typeof count === "number" ? new Uint8Array(count) : "taken")),
    });
    const ask = (body: unknown): Promise<unknown> => stage.until(one.links.request(two, "bytes", body));
    // The first waits for the link, so how much the other side takes is not known yet.
    await expect(ask(new Uint8Array(2 ** 20))).rejects.toMatchObject({ code: "too_large" });
    await expect(ask(new Uint8Array(2 ** 20))).rejects.toMatchObject({ code: "too_large" });
    await expect(ask(2 ** 20)).rejects.toMatchObject({ code: "too_large" });
    expect(await ask(new Uint8Array(2 ** 20 - 100))).toBe("taken");
    expect(await ask(2 ** 20 - 100)).toHaveLength(2 ** 20 - 100);
  });
});
