/** The calls of one socket by themselves, under virtual time: bounds, order, and nobody who waits without a reason. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { identityOf } from "../../src/identity.js";
import type { CallReply } from "../../src/node-api.js";
import { SocketCalls } from "../../src/server/socket-calls.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { Deadlines, LOOK_STEP_MS } from "../../src/world/deadlines.js";
import { type Deferred, deferred } from "../../src/world/deferred.js";
import { FakeNode } from "../support/fake-node.js";

const CALLS_MAX = 5;
const OBJECT_CALLS_MAX = 2;
const TIMEOUT_MS = 100;

type Step =
  | { readonly kind: "call"; readonly key: string; readonly timeoutMs: number }
  | { readonly kind: "answer"; readonly which: number }
  | { readonly kind: "cancel"; readonly which: number }
  | { readonly kind: "pass"; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("call" as const),
      key: fc.constantFrom("a", "b", "c"),
      timeoutMs: fc.integer({ min: 1, max: TIMEOUT_MS }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("answer" as const, "cancel" as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 60 }) }) },
);

/** One that the socket was asked. */
interface Asked {
  readonly id: number;
  readonly key: string;
  state: "waits" | "runs" | "left";
}

class Bench {
  readonly time = new VirtualTime();
  readonly node = new FakeNode();
  readonly asked: Asked[] = [];
  readonly begun: Asked[] = [];
  readonly expired: Asked[] = [];
  readonly replies = new Map<Asked, Deferred<CallReply>>();
  readonly calls: SocketCalls;
  isEased = true;

  constructor() {
    const clock = { monotonicMs: () => this.time.nowMs, wallMs: () => this.time.nowMs };
    const timers = {
      after: (delayMs: number, run: () => void) => this.time.after(delayMs, run),
      soon: (run: () => void) => this.time.soon(run),
    };
    this.node.answer = ({ method }) => {
      const asked = this.asked[Number(method.slice(1))] as Asked;
      asked.state = "runs";
      this.begun.push(asked);
      const reply = deferred<CallReply>();
      this.replies.set(asked, reply);
      return reply.promise;
    };
    this.calls = new SocketCalls({
      node: this.node,
      callsMax: CALLS_MAX,
      objectCallsMax: OBJECT_CALLS_MAX,
      timeoutMs: TIMEOUT_MS,
      deadlines: new Deadlines({ clock, timers }),
      hasRoom: () => true,
      replied: () => {},
      failed: (id) => {
        const asked = this.asked[id] as Asked;
        asked.state = "left";
        this.expired.push(asked);
      },
      eased: () => {
        this.isEased = true;
      },
    });
  }

  async take(one: Step): Promise<void> {
    if (one.kind === "call") {
      const id = this.asked.length;
      this.asked.push({ id, key: one.key, state: "waits" });
      const object = identityOf("default", "Auction", one.key);
      this.calls.begin({
        id,
        object,
        method: `m${id}`,
        args: [],
        caller: { kind: "system" },
        timeoutMs: one.timeoutMs,
      });
    } else if (one.kind === "answer") {
      const running = [...this.replies.keys()];
      const asked = running[one.which % Math.max(1, running.length)];
      if (asked === undefined) return;
      this.replies.get(asked)?.resolve({ value: null });
      this.replies.delete(asked);
    } else if (one.kind === "cancel") {
      const there = this.asked.filter(({ id }) => this.calls.has(id));
      const asked = there[one.which % Math.max(1, there.length)];
      if (asked === undefined) return;
      if (asked.state === "waits") asked.state = "left";
      this.calls.cancel(asked.id);
    } else {
      await this.time.advance(one.ms);
    }
    await this.time.settle();
    if (this.asked.some(({ state }) => state === "waits")) this.isEased = false;
  }

  /** What the node has, and what it would have to answer before the next one begins. */
  check(): void {
    const running = [...this.replies.keys()];
    expect(running.length).toBeLessThanOrEqual(CALLS_MAX);
    const of = (key: string): number => running.filter((asked) => asked.key === key).length;
    for (const key of ["a", "b", "c"]) expect(of(key)).toBeLessThanOrEqual(OBJECT_CALLS_MAX);
    expect(this.begun.map(({ id }) => id)).toEqual(this.begun.map(({ id }) => id).sort((a, b) => a - b));
    const first = this.asked.find(({ state }) => state === "waits");
    expect(this.calls.isAtBound).toBe(first !== undefined || running.length >= CALLS_MAX);
    if (first === undefined) return expect(this.isEased).toBe(true);
    expect(running.length === CALLS_MAX || of(first.key) === OBJECT_CALLS_MAX).toBe(true);
    expect(this.begun.every(({ id }) => id < first.id)).toBe(true);
  }
}

test("calls begin in order, within both bounds, and as soon as these allow it; each that waits too long is answered", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: "max" }), async (steps) => {
      const bench = new Bench();
      for (const one of steps) {
        await bench.take(one);
        bench.check();
      }
      await bench.time.advance(TIMEOUT_MS + 2 * LOOK_STEP_MS);
      expect(bench.asked.filter(({ state }) => state === "waits")).toEqual([]);
      while (bench.replies.size > 0) await bench.take({ kind: "answer", which: 0 });
      expect(bench.calls.size).toBe(0);
      expect(bench.calls.isAtBound).toBe(false);
    }),
  );
});
