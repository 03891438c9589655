/** What a bucket does when its store asks for fewer requests: the decisions, and the gate that keeps to them. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Pass, RequestGate } from "../../src/bucket/s3/request-gate.js";
import { retryAfterMs } from "../../src/bucket/s3/retry-after.js";
import { afterRefusal, afterSuccess, openThrottle, type Throttle } from "../../src/bucket/s3/throttle.js";
import { resolveSettings } from "../../src/settings/settings.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { VirtualWorld } from "../../src/testing/virtual-world.js";
import { temporaryFolder } from "../support/temporary-folder.js";

const REQUESTS_MAX = 64;
const PAUSE_MAX_MS = 20_000;

const refusal = { retryAfterMs: undefined, pauseMaxMs: PAUSE_MAX_MS, fraction: 0.5 };

describe("the throttle", () => {
  test("lets everything through until the store refuses, then half of it after a pause", () => {
    const open = openThrottle(REQUESTS_MAX);
    const cut = afterRefusal(open, { ...refusal, nowMs: 1_000, sentMs: 990 });
    expect(open).toMatchObject({ window: 64, notBeforeMs: 0 });
    expect(cut).toMatchObject({ window: 32, notBeforeMs: 1_075 });
  });

  test("counts a burst that is refused together once, and what the store asks for at its longest", () => {
    let throttle = afterRefusal(openThrottle(REQUESTS_MAX), { ...refusal, nowMs: 1_000, sentMs: 990 });
    throttle = afterRefusal(throttle, { ...refusal, nowMs: 1_010, sentMs: 995, retryAfterMs: 5_000 });
    throttle = afterRefusal(throttle, { ...refusal, nowMs: 1_020, sentMs: 996, retryAfterMs: 100 });
    expect(throttle).toMatchObject({ window: 32, notBeforeMs: 6_010 });
  });

  test("believes no store that asks for a day", () => {
    const cut = afterRefusal(openThrottle(REQUESTS_MAX), { ...refusal, nowMs: 0, sentMs: 0, retryAfterMs: 86_400_000 });
    expect(cut.notBeforeMs).toBe(PAUSE_MAX_MS);
  });

  test("refused again and again comes down to one request at a time, and to ever longer pauses", () => {
    let throttle = openThrottle(REQUESTS_MAX);
    const pauses: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      const nowMs = Math.max(throttle.notBeforeMs, 0) + 1;
      throttle = afterRefusal(throttle, { ...refusal, nowMs, sentMs: nowMs, fraction: 1 });
      pauses.push(throttle.notBeforeMs - nowMs);
    }
    expect(throttle.window).toBe(1);
    expect(pauses).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000, 20_000, 20_000]);
  });

  test("grows by one request in a round of successes, and forgets its pauses", () => {
    let throttle: Throttle = { window: 4, notBeforeMs: 0, pauseMs: 400, cutAtMs: 10 };
    for (let success = 0; success < 5; success += 1) throttle = afterSuccess(throttle, REQUESTS_MAX, 20);
    expect(Math.floor(throttle.window)).toBe(5);
    expect(throttle.pauseMs).toBe(0);
  });

  test("learns nothing from the success of a request that left before the refusal", () => {
    const cut = afterRefusal(openThrottle(REQUESTS_MAX), { ...refusal, nowMs: 1_000, sentMs: 990 });
    expect(afterSuccess(cut, REQUESTS_MAX, 999)).toEqual(cut);
  });

  test("stays within its bounds whatever happens", () => {
    const step = fc.record({
      passMs: fc.nat(30_000),
      agoMs: fc.nat(5_000),
      asked: fc.option(fc.nat(100_000), { nil: undefined }),
      refused: fc.boolean(),
      fraction: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let throttle = openThrottle(REQUESTS_MAX);
        let nowMs = 0;
        for (const { passMs, agoMs, asked, refused, fraction } of steps) {
          nowMs += passMs;
          const sentMs = nowMs - agoMs;
          const before = throttle;
          throttle = refused
            ? afterRefusal(throttle, { nowMs, sentMs, retryAfterMs: asked, pauseMaxMs: PAUSE_MAX_MS, fraction })
            : afterSuccess(throttle, REQUESTS_MAX, sentMs);
          expect(throttle.window).toBeGreaterThanOrEqual(1);
          expect(throttle.window).toBeLessThanOrEqual(REQUESTS_MAX);
          expect(throttle.notBeforeMs).toBeGreaterThanOrEqual(before.notBeforeMs);
          expect(throttle.notBeforeMs - nowMs).toBeLessThanOrEqual(PAUSE_MAX_MS);
        }
      }),
    );
  });
});

test.each([
  [undefined, undefined],
  ["3", 3_000],
  [" 0.5 ", 500],
  ["Thu, 01 Jan 1970 00:00:12 GMT", 2_000],
  ["Thu, 01 Jan 1970 00:00:01 GMT", 0],
  ["soon", undefined],
  ["-1", undefined],
  ["", undefined],
])("Retry-After %j, at ten seconds past the epoch, is %j ms", (header, expected) => {
  expect(retryAfterMs(header, 10_000)).toBe(expected);
});

describe("the gate", () => {
  function gateAt(overrides: Record<string, number> = {}) {
    const time = new VirtualTime();
    const world = new VirtualWorld({ time, root: temporaryFolder() });
    const settings = resolveSettings({ BUCKET_REQUESTS_MAX: 4, BUCKET_TIMEOUT_MS: 10_000, ...overrides });
    return { time, gate: new RequestGate(world, settings, "s3://b") };
  }

  /** A store that refuses what comes beyond so many requests a second, and takes 20 ms for every answer. */
  class Store {
    seen = 0;
    served = 0;
    readonly #time: VirtualTime;
    readonly #perSecond: number;
    #tokens = 0;
    #lastMs = 0;

    constructor(time: VirtualTime, perSecond: number) {
      this.#time = time;
      this.#perSecond = perSecond;
    }

    async request(): Promise<boolean> {
      this.seen += 1;
      const passedMs = this.#time.nowMs - this.#lastMs;
      this.#lastMs = this.#time.nowMs;
      this.#tokens = Math.min(this.#perSecond / 10, this.#tokens + (passedMs * this.#perSecond) / 1_000);
      const serves = this.#tokens >= 1;
      if (serves) this.#tokens -= 1;
      await new Promise<void>((resolve) => void this.#time.after(20, resolve));
      if (serves) this.served += 1;
      return serves;
    }
  }

  test("lets so many through at once, the others in the order they came", async () => {
    const { time, gate } = gateAt();
    const order: number[] = [];
    const passes: Pass[] = [];
    const entering = Array.from({ length: 7 }, async (_, index) => {
      const pass = await gate.enter(10_000);
      order.push(index);
      passes.push(pass);
    });
    await time.settle();
    expect(order).toEqual([0, 1, 2, 3]);
    passes[2]?.end({ kind: "answered" });
    passes[0]?.end({ kind: "failed" });
    await time.settle();
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
    passes[1]?.end({ kind: "answered" });
    await Promise.all(entering);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test("refuses one more than may wait, naming the setting, and whoever has waited too long", async () => {
    const { time, gate } = gateAt({ BUCKET_REQUESTS_MAX: 1, BUCKET_QUEUE_MAX: 2 });
    await gate.enter(10_000);
    const waiting = Promise.allSettled([gate.enter(500), gate.enter(900)]);
    expect(() => gate.enter(10_000)).toThrow(
      expect.objectContaining({ code: "bucket_failed", hint: "BUCKET_QUEUE_MAX bounds them" }),
    );
    await time.advance(500);
    // Room again.
    const third = Promise.resolve(gate.enter(10_000)).catch((error: unknown) => error);
    await time.advance(10_000);
    for (const end of await waiting) {
      expect(end).toMatchObject({ status: "rejected", reason: { details: { outcome: "refused" } } });
    }
    expect(await third).toMatchObject({ code: "bucket_failed", message: expect.stringContaining("not sent within") });
  });

  test("sends nothing in a pause, and tells at once those who cannot wait for its end", async () => {
    const { time, gate } = gateAt();
    const pass = await gate.enter(10_000);
    let entered = 0;
    pass.end({ kind: "throttled", retryAfterMs: 3_000 });
    expect(() => gate.enter(2_999)).toThrow(
      expect.objectContaining({ retryAfterMs: 3_000, details: { outcome: "refused", throttled: true } }),
    );
    for (let one = 0; one < 4; one += 1) void Promise.resolve(gate.enter(10_000)).then(() => (entered += 1));
    await time.advance(2_999);
    expect(entered).toBe(0);
    await time.advance(1);
    expect(entered).toBe(2);
  });

  test("lets nobody overtake those who wait for the end of a pause", async () => {
    const { time, gate } = gateAt({ BUCKET_REQUESTS_MAX: 2 });
    const pass = await gate.enter(10_000);
    pass.end({ kind: "throttled", retryAfterMs: 3_000 });
    const order: string[] = [];
    const entering = (name: string) => Promise.resolve(gate.enter(10_000)).then(() => void order.push(name));
    void entering("first");
    // The pause is over, and nobody has been told yet.
    time.pass(3_000);
    void entering("second");
    await time.advance(0);
    expect(order).toEqual(["first"]);
  });

  test("a pause that begins while requests wait refuses those that cannot wait for its end", async () => {
    const { gate } = gateAt({ BUCKET_REQUESTS_MAX: 1 });
    const pass = await gate.enter(10_000);
    const waiting = Promise.resolve(gate.enter(2_000)).catch((error: unknown) => error);
    pass.end({ kind: "throttled", retryAfterMs: 3_000 });
    expect(await waiting).toMatchObject({ retryAfterMs: 3_000, details: { outcome: "refused", throttled: true } });
  });

  test("closed, refuses what waits and what comes, and waits for what is under way", async () => {
    const { time, gate } = gateAt({ BUCKET_REQUESTS_MAX: 1 });
    const pass = await gate.enter(10_000);
    const waiting = Promise.resolve(gate.enter(10_000)).catch((error: unknown) => error);
    let closed = false;
    const closing = gate.close().then(() => {
      closed = true;
    });
    expect(await waiting).toMatchObject({ details: { outcome: "refused" } });
    expect(() => gate.enter(10_000)).toThrow("is stopped");
    await time.settle();
    expect(closed).toBe(false);
    pass.end({ kind: "answered" });
    await closing;
  });

  test.each([50, 400])("a store that takes %i requests a second is asked little more than that", async (perSecond) => {
    const { time, gate } = gateAt({ BUCKET_REQUESTS_MAX: 64 });
    const store = new Store(time, perSecond);
    let stop = false;
    // Far more callers than the store could serve, each asking again whatever the answer was.
    const callers = Array.from({ length: 200 }, async () => {
      while (!stop) {
        const pass = await Promise.resolve(gate.enter(time.nowMs + 10_000)).catch(() => undefined);
        if (pass === undefined) continue;
        const isServed = await store.request();
        pass.end(isServed ? { kind: "answered" } : { kind: "throttled", retryAfterMs: undefined });
      }
    });
    const seconds = 60;
    await time.advance(seconds * 1_000);
    // Unthrottled, 64 at a time and 20 ms each, it would be 3,200 a second.
    expect(store.seen / seconds).toBeLessThan(perSecond * 1.5);
    expect(store.served / seconds).toBeGreaterThan(perSecond * 0.2);
    stop = true;
    await time.until(Promise.all(callers));
  });
});
