/** A mailbox by itself, under virtual time: what waits too long is answered, once, in time, and never runs. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import { Mailbox } from "../../src/object/mailbox.js";
import { VirtualTime } from "../../src/testing/virtual-time.js";
import { Deadlines, LOOK_STEP_MS } from "../../src/world/deadlines.js";

interface Call {
  readonly name: string;
  readonly expiresMs?: number;
  isGone: boolean;
  reject(error: MoonportError): void;
}

/** Time, its timers counted. */
class Bench {
  readonly time = new VirtualTime();
  timersSet = 0;
  timersWaiting = 0;
  readonly deadlines: Deadlines;
  /** By each run of a timer. */
  readonly answeredInTurn: number[] = [];
  readonly answered: { name: string; code: string; atMs: number }[] = [];

  constructor() {
    const counted = (make: (run: () => void) => { cancel(): void }, run: () => void): { cancel(): void } => {
      let isOver = false;
      const over = (): void => {
        if (!isOver) this.timersWaiting--;
        isOver = true;
      };
      this.timersSet++;
      this.timersWaiting++;
      const timer = make(() => {
        over();
        const before = this.answered.length;
        run();
        this.answeredInTurn.push(this.answered.length - before);
      });
      return {
        cancel: () => {
          over();
          timer.cancel();
        },
      };
    };
    this.deadlines = new Deadlines({
      clock: { wallMs: () => this.time.nowMs, monotonicMs: () => this.time.nowMs },
      timers: {
        after: (delayMs, run) => counted((counting) => this.time.after(delayMs, counting), run),
        soon: (run) => counted((counting) => this.time.soon(counting), run),
      },
    });
  }

  mailbox(max: number): Mailbox<Call> {
    return new Mailbox<Call>({
      object: "default/Log/a",
      max,
      deadlines: this.deadlines,
      refusal: ({ isGone, expiresMs = Number.POSITIVE_INFINITY }, nowMs) => {
        if (isGone) return MoonportError.of("caller_gone", "gone");
        return nowMs > expiresMs ? MoonportError.of("deadline_exceeded", "late") : undefined;
      },
    });
  }

  call(name: string, timeoutMs?: number): Call {
    return {
      name,
      isGone: false,
      ...(timeoutMs !== undefined && { expiresMs: this.time.nowMs + timeoutMs }),
      reject: ({ code }) => void this.answered.push({ name, code, atMs: this.time.nowMs }),
    };
  }
}

function codeOf(action: () => void): string {
  try {
    action();
    return "fine";
  } catch (error) {
    return (error as MoonportError).code;
  }
}

type Step =
  | { readonly kind: "put"; readonly box: number; readonly timeoutMs: number | undefined }
  | { readonly kind: "take"; readonly box: number }
  | { readonly kind: "takeAll"; readonly box: number }
  | { readonly kind: "gone"; readonly which: number; readonly isTold: boolean }
  | { readonly kind: "pass"; readonly ms: number };

const BOXES = 3;
const MAX = 6;
const box = fc.nat(BOXES - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("put" as const),
      box,
      timeoutMs: fc.option(fc.oneof(fc.nat(40), fc.nat(4_000), fc.double({ min: 0, max: 100, noNaN: true })), {
        nil: undefined,
        freq: 8,
      }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("take" as const), box }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("takeAll" as const), box }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("gone" as const), which: fc.nat(50), isTold: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.oneof(fc.nat(15), fc.nat(3_000)) }) },
);

describe("what waits in a mailbox", () => {
  it("is taken in order or answered in time, never both, whatever comes, goes and passes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const bench = new Bench();
        const boxes = Array.from({ length: BOXES }, () => bench.mailbox(MAX));
        /** Put, and neither taken nor answered as far as the test has looked. */
        const waiting: Call[][] = boxes.map(() => []);
        const told = new Map<string, number>();
        let heard = 0;
        const look = (taken?: Call): void => {
          for (const { name, code, atMs } of bench.answered.slice(heard)) {
            const queue = waiting.find((calls) => calls.some((call) => call.name === name)) ?? [];
            const [call] = queue.splice(
              queue.findIndex((one) => one.name === name),
              1,
            );
            if (call === undefined) throw new Error(`${name} was answered, and had been before or was taken`);
            if (code === "caller_gone") expect(call.isGone).toBe(true);
            else expect(atMs).toBeGreaterThan(call.expiresMs ?? Number.POSITIVE_INFINITY);
          }
          heard = bench.answered.length;
          for (const queue of waiting) if (taken !== undefined && queue[0] === taken) queue.shift();
          const nowMs = bench.time.nowMs;
          for (const call of waiting.flat()) {
            expect(nowMs).toBeLessThanOrEqual((call.expiresMs ?? Number.POSITIVE_INFINITY) + LOOK_STEP_MS);
            expect(nowMs).toBeLessThanOrEqual((told.get(call.name) ?? Number.POSITIVE_INFINITY) + LOOK_STEP_MS);
          }
          expect(boxes.map(({ size }) => size)).toEqual(waiting.map(({ length }) => length));
          expect(bench.timersWaiting).toBeLessThanOrEqual(1);
          expect(bench.deadlines.size).toBeLessThanOrEqual(BOXES);
        };
        for (const [index, todo] of steps.entries()) {
          if (todo.kind === "pass") await bench.time.advance(todo.ms);
          else if (todo.kind === "gone") {
            const all = waiting.flat();
            const call = all[todo.which % all.length];
            const at = waiting.findIndex((calls) => call !== undefined && calls.includes(call));
            if (call !== undefined) {
              call.isGone = true;
              if (todo.isTold) {
                if (!told.has(call.name)) told.set(call.name, bench.time.nowMs);
                boxes[at]?.callerGone();
              }
            }
          } else {
            const mailbox = boxes[todo.box] as Mailbox<Call>;
            const queue = waiting[todo.box] as Call[];
            if (todo.kind === "take") {
              const taken = mailbox.take(bench.time.nowMs);
              const wanted = queue.find(
                ({ isGone, expiresMs = Number.POSITIVE_INFINITY }) => !isGone && bench.time.nowMs <= expiresMs,
              );
              expect(taken).toBe(wanted);
              look(wanted);
            } else if (todo.kind === "takeAll") {
              expect(mailbox.takeAll()).toEqual(queue.splice(0));
            } else {
              const call = bench.call(`call ${index}`, todo.timeoutMs);
              const code = codeOf(() => mailbox.put(call));
              if (code === "fine") queue.push(call);
              else expect([code, mailbox.size]).toEqual(["mailbox_full", MAX]);
            }
          }
          look();
        }
        // The last deadline is the end of all that have one.
        await bench.time.advance(4_000 + LOOK_STEP_MS);
        look();
        for (const call of waiting.flat()) expect(call.expiresMs).toBeUndefined();
        expect(bench.timersWaiting).toBe(0);
        expect(bench.deadlines.size).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it("makes room where its caller has gone, without anybody saying so, once the mailbox is full", async () => {
    const bench = new Bench();
    const mailbox = bench.mailbox(3);
    const calls = ["a", "b", "c"].map((name) => bench.call(name));
    for (const call of calls) mailbox.put(call);
    expect(codeOf(() => mailbox.put(bench.call("d")))).toBe("mailbox_full");
    (calls[1] as Call).isGone = true;
    await bench.time.advance(LOOK_STEP_MS);
    mailbox.put(bench.call("e"));
    expect(bench.answered).toEqual([{ name: "b", code: "caller_gone", atMs: LOOK_STEP_MS }]);
    expect(mailbox.takeAll().map(({ name }) => name)).toEqual(["a", "c", "e"]);
  });

  it("costs a full mailbox one look in a while, however many calls are refused", () => {
    const bench = new Bench();
    let looks = 0;
    const mailbox = new Mailbox<Call>({
      object: "default/Log/a",
      max: 10,
      deadlines: bench.deadlines,
      refusal: () => {
        looks++;
        return undefined;
      },
    });
    for (let n = 0; n < 10; n++) mailbox.put(bench.call(`${n}`));
    for (let n = 0; n < 1_000; n++) expect(codeOf(() => mailbox.put(bench.call("more")))).toBe("mailbox_full");
    expect(looks).toBe(10);
  });

  it("sets hardly a timer while calls come and go faster than they expire", async () => {
    const bench = new Bench();
    const mailboxes = Array.from({ length: 50 }, () => bench.mailbox(128));
    for (let n = 0; n < 20_000; n++) {
      const mailbox = mailboxes[n % mailboxes.length] as Mailbox<Call>;
      mailbox.put(bench.call(`${n}`, 30_000));
      mailbox.take(bench.time.nowMs);
      if (n % 10 === 0) await bench.time.advance(1);
    }
    expect(bench.timersSet).toBe(1);
    expect(bench.timersWaiting).toBe(1);
    expect(bench.answered).toEqual([]);
  });

  it("keeps one entry of a mailbox whose calls have ever shorter deadlines", () => {
    const bench = new Bench();
    const mailbox = bench.mailbox(100_000);
    for (let n = 0; n < 10_000; n++) mailbox.put(bench.call(`${n}`, 600_000 - n * 20));
    expect([bench.deadlines.size, bench.timersWaiting]).toEqual([1, 1]);
  });

  it("is let go of when its object leaves memory, and when the node stops", async () => {
    const bench = new Bench();
    const [leaves, stays] = [bench.mailbox(3), bench.mailbox(3)];
    for (const mailbox of [leaves, stays]) mailbox.put(bench.call("a", 1_000));
    leaves.take(0);
    leaves.close();
    expect(bench.deadlines.size).toBe(1);
    bench.deadlines.stop();
    expect([bench.deadlines.size, bench.timersWaiting]).toEqual([0, 0]);
    stays.put(bench.call("b", 10));
    await bench.time.advance(10_000);
    expect([bench.timersWaiting, bench.answered]).toEqual([0, []]);
  });

  it("is answered in steps when all mailboxes of a node expire together", async () => {
    const bench = new Bench();
    const mailboxes = Array.from({ length: 1_000 }, () => bench.mailbox(3));
    for (const [n, mailbox] of mailboxes.entries()) mailbox.put(bench.call(`${n}`, 95));
    bench.time.pass(200);
    await bench.time.advance(0);
    expect(bench.answered).toHaveLength(1_000);
    const inOneTurn = Math.max(...bench.answeredInTurn);
    expect(inOneTurn).toBeLessThan(100);
  });
});
