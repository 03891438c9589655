/** Streams between nodes: nothing is made ahead of the window, whatever reader and maker do. */
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { deferred } from "../../src/world/deferred.js";
import { sleep } from "../../src/world/world.js";
import { SimulatedStage } from "./stage.js";

let stage: SimulatedStage;
beforeEach(() => {
  stage = new SimulatedStage({ latencyMs: { min: 1, max: 5 } });
});
afterEach(() => stage.stop());

it("every item arrives once and in order, and never more than a window is made and not read", async () => {
  const pauses = fc.array(fc.nat(20), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 9 }),
      fc.nat(60),
      pauses,
      pauses,
      async (window, items, making, reading) => {
        const { time, network } = stage;
        let [made, read, mostAhead] = [0, 0, 0];
        // Only the reader's setting counts.
        const one = await stage.node("one", { set: { LINK_STREAM_WINDOW: window } });
        const two = await stage.node("two", {
          prepare: (links) =>
            links.handleStream("count", async function* () {
              for (let item = 0; item < items; item++) {
                await sleep({ timers: time }, making[item % making.length] as number);
                made += 1;
                mostAhead = Math.max(mostAhead, made - read);
                yield item;
              }
            }),
        });
        const readAll = async (): Promise<void> => {
          for await (const item of one.links.openStream(two, "count", null)) {
            expect(item).toBe(read++);
            await sleep({ timers: time }, reading[read % reading.length] as number);
          }
        };
        await time.until(readAll());
        expect(read).toBe(items);
        expect(mostAhead).toBeLessThanOrEqual(window);
        for (const name of ["one", "two"]) network.kill(name);
        for (const { links } of [one, two]) await links.stop();
      },
    ),
    { numRuns: 50 },
  );
});

it("a reader that stops holds up its own stream only", async () => {
  let made = 0;
  const one = await stage.node("one", { set: { LINK_STREAM_WINDOW: 10 } });
  const two = await stage.node("two", {
    prepare: (links) => {
      links.handle("echo", (body) => body);
      links.handleStream("endless", async function* () {
        for (;;) yield ++made;
      });
    },
  });
  const stream = one.links.openStream(two, "endless", null)[Symbol.asyncIterator]();
  expect(await stage.until(stream.next())).toEqual({ done: false, value: 1 });
  await stage.time.advance(60_000);
  expect(made).toBe(10);
  expect(await stage.until(one.links.request(two, "echo", 1))).toBe(1);
});

it("is asked for at the first read, and one that is left before that never", async () => {
  let opened = 0;
  const one = await stage.node("one");
  const two = await stage.node("two", {
    prepare: (links) =>
      links.handleStream("once", async function* () {
        opened += 1;
        yield "only";
      }),
  });
  const unread = one.links.openStream(two, "once", null)[Symbol.asyncIterator]();
  await stage.time.advance(100);
  await unread.return?.();
  expect(await unread.next()).toEqual({ done: true, value: undefined });
  expect(opened).toBe(0);
});

it("a reader that leaves while it waits ends what it waits for at once", async () => {
  const left = deferred();
  const one = await stage.node("one");
  const two = await stage.node("two", {
    prepare: (links) =>
      links.handleStream("silent", () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => new Promise(() => {}),
          return: async () => {
            left.resolve();
            return { done: true, value: undefined };
          },
        }),
      })),
  });
  const stream = one.links.openStream(two, "silent", null)[Symbol.asyncIterator]();
  const waiting = stream.next();
  await stage.time.advance(100);
  await stream.return?.();
  expect(await waiting).toEqual({ done: true, value: undefined });
  await stage.until(left.promise);
  expect(one.links.underWay).toBe(0);
});

it("a link that breaks ends its streams on both sides, after what had arrived", async () => {
  const left = deferred();
  const one = await stage.node("one");
  const two = await stage.node("two", {
    prepare: (links) =>
      links.handleStream("some", async function* () {
        try {
          yield 1;
          yield 2;
          for (;;) {
            await sleep({ timers: stage.time }, 10);
            yield 3;
          }
        } finally {
          left.resolve();
        }
      }),
  });
  const stream = one.links.openStream(two, "some", null)[Symbol.asyncIterator]();
  expect(await stage.until(stream.next())).toEqual({ done: false, value: 1 });
  stage.network.reset("one", "two");
  await stage.time.advance(100);
  const rest: unknown[] = [];
  const readRest = async (): Promise<void> => {
    for (let next = await stream.next(); next.done !== true; next = await stream.next()) rest.push(next.value);
  };
  await expect(stage.until(readRest())).rejects.toMatchObject({ code: "link_broken" });
  expect(rest[0]).toBe(2);
  await stage.until(left.promise);
});

it("what cannot be served fails at the first read", async () => {
  const one = await stage.node("one");
  const two = await stage.node("two", {
    prepare: (links) => {
      links.handleStream("refused", () => {
        throw MoonportError.of("object_not_found", "no such object");
      });
      links.handleStream("useless", async function* () {
        yield Symbol("no value");
      });
    },
  });
  const first = (kind: string): Promise<unknown> =>
    stage.until(one.links.openStream(two, kind, null)[Symbol.asyncIterator]().next());
  await expect(first("refused")).rejects.toMatchObject({ code: "object_not_found" });
  await expect(first("useless")).rejects.toMatchObject({ code: "bad_value" });
  await expect(first("unheard-of")).rejects.toMatchObject({ code: "bad_request" });
  stage.network.kill("two");
  await stage.time.advance(2_000);
  await expect(first("refused")).rejects.toMatchObject({ code: "node_unreachable" });
  expect(one.links.underWay).toBe(0);
});

it("streams rest while half of what the link may buffer is full, so that answers get through", async () => {
  const one = await stage.node("one", { set: { LINK_STREAM_WINDOW: 1_000 } });
  const two = await stage.node("two", {
    set: { LINK_BUFFER_BYTES_MAX: 2 ** 20 },
    prepare: (links) => {
      links.handle("echo", (body) => body);
      links.handleStream("bytes", async function* () {
        for (let part = 0; part < 100; part++) yield new Uint8Array(100_000);
      });
    },
  });
  stage.network.slow("two", "one", { min: 50, max: 50 });
  let parts = 0;
  const readAll = async (): Promise<void> => {
    for await (const part of one.links.openStream(two, "bytes", null)) parts += (part as Uint8Array).length / 100_000;
  };
  const reading = readAll();
  expect(await stage.until(one.links.request(two, "echo", "through"))).toBe("through");
  await stage.until(reading);
  expect(parts).toBe(100);
});
