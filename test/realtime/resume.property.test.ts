/**
 * Subscribers that resume by number against a node that is evicted from, stopped and crashed under them: each sees every kept
 * event exactly once, in order.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Delivery, Sink, Subscription } from "../../src/realtime/contract.js";
import type { PlainValue } from "../../src/values.js";
import { VirtualNode } from "../support/virtual-node.js";
import { classes } from "./log-class.js";
import { RecordingSink } from "./support.js";

const TARGET = "Log/a";

/** What every subscriber must agree on: a number names one event, for ever. */
class Truth {
  readonly #events = new Map<number, string>();

  check(number: number, name: string, data: PlainValue): void {
    const event = `${name} ${JSON.stringify(data)}`;
    expect(this.#events.get(number) ?? event, `event ${number}`).toBe(event);
    this.#events.set(number, event);
  }
}

/** Someone who remembers the last number and comes back, whatever ended the subscription. */
class Reader implements Sink {
  readonly #at: VirtualNode;
  readonly #truth: Truth;
  readonly #inner = new RecordingSink();
  readonly #names: readonly string[] | undefined;
  #position: number;
  #subscription: Subscription | undefined;
  #attempt = 0;
  isConnected = false;
  /** Numbers that were delivered, or said to be no longer kept. */
  readonly #accounted: number[] = [];

  constructor(at: VirtualNode, truth: Truth, from: number, names: readonly string[] | undefined) {
    this.#at = at;
    this.#truth = truth;
    this.#position = from;
    this.#names = names;
  }

  async connect(): Promise<void> {
    const attempt = ++this.#attempt;
    this.isConnected = true;
    const { world } = this.#at;
    const current = (): boolean => attempt === this.#attempt && !world.revoked;
    const sink: Sink = {
      deliver: (delivery) => {
        if (current()) this.deliver(delivery);
      },
      room: () => this.#inner.room(),
      isFull: () => this.#inner.isFull(),
    };
    const request = {
      object: this.#at.identity(TARGET),
      caller: { kind: "client" as const },
      from: { kind: "after" as const, number: this.#position },
      ...(this.#names && { names: this.#names }),
    };
    try {
      const subscription = await this.#at.node.subscribe(request, sink);
      if (current()) this.#subscription = subscription;
      else subscription.close();
    } catch {
      if (attempt === this.#attempt) this.isConnected = false;
    }
  }

  /** Goes away; what it passed over may be asked of the subscription as long as that stands. */
  disconnect(): void {
    if (this.#subscription !== undefined) this.#advance(this.#subscription.after);
    this.#subscription?.close();
    this.cut();
  }

  /** The other side died: nothing can be asked. */
  cut(): void {
    this.#attempt++;
    this.#subscription = undefined;
    this.isConnected = false;
  }

  slow(isSlow: boolean): void {
    this.#inner.full = isSlow;
    if (isSlow) this.#inner.block();
    else this.#inner.unblock();
  }

  deliver(delivery: Delivery): void {
    switch (delivery.kind) {
      case "subscribed":
        expect(delivery.after).toBeLessThanOrEqual(this.#position);
        this.#position = delivery.after;
        return;
      case "gap":
        expect(delivery.from).toBe(this.#position + 1);
        for (let number = delivery.from; number < delivery.first; number++) this.#accounted.push(number);
        this.#position = delivery.first - 1;
        return;
      case "event": {
        const { number, name, data } = delivery.event;
        this.#truth.check(number, name, data);
        if (this.#names === undefined) expect(number).toBe(this.#position + 1);
        else expect(number).toBeGreaterThan(this.#position);
        this.#accounted.push(number);
        this.#position = number;
        return;
      }
      case "ended":
        this.#advance(delivery.after);
        this.cut();
        return;
      default:
        throw new Error(`unexpected ${delivery.kind}`);
    }
  }

  room(): Promise<void> | undefined {
    return this.#inner.room();
  }

  isFull(): boolean {
    return this.#inner.isFull();
  }

  /** At the end, caught up with an object whose kept events are these. */
  checkAgainst(kept: readonly { readonly number: number; readonly name: string }[], from: number): void {
    const seen = new Set(this.#accounted);
    expect(seen.size).toBe(this.#accounted.length);
    for (const { number, name } of kept) {
      const wanted = number > from && (this.#names === undefined || this.#names.includes(name));
      if (wanted) expect(seen.has(number), `event ${number} (${name})`).toBe(true);
    }
  }

  #advance(after: number): void {
    expect(after).toBeGreaterThanOrEqual(this.#position);
    this.#position = after;
  }
}

type Step =
  | { readonly kind: "emit"; readonly count: number; readonly name: string }
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "join"; readonly back: number; readonly names: readonly string[] | undefined }
  | { readonly kind: "leave" | "slow" | "quick"; readonly reader: number }
  | { readonly kind: "sleep" | "restart" | "crash" };

const name = fc.constantFrom("said", "whispered");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("emit" as const), count: fc.integer({ min: 1, max: 9 }), name }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 12 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("join" as const),
      back: fc.integer({ min: 0, max: 40 }),
      names: fc.option(fc.constantFrom(["said"], ["whispered"]), { nil: undefined }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("leave" as const, "slow" as const, "quick" as const),
      reader: fc.nat(7),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("sleep" as const, "restart" as const, "crash" as const) }),
  },
);

interface Joined {
  readonly reader: Reader;
  readonly from: number;
}

class Run {
  readonly #at: VirtualNode;
  readonly #truth = new Truth();
  readonly #joined: Joined[] = [];
  #token = 0;
  /** Never above the object's last landed number. */
  #landed = 0;

  constructor(at: VirtualNode) {
    this.#at = at;
  }

  async perform(step: Step): Promise<void> {
    const at = this.#at;
    switch (step.kind) {
      case "emit":
        at.start(TARGET, "mark", [step.count, step.name, this.#token++]);
        return;
      case "pass":
        return await at.time.advance(step.ms);
      case "join": {
        this.#noteLanded();
        const from = Math.max(0, this.#landed - step.back);
        const reader = new Reader(at, this.#truth, from, step.names);
        this.#joined.push({ reader, from });
        void reader.connect();
        return;
      }
      case "leave":
        this.#reader(step.reader)?.disconnect();
        return;
      case "slow":
      case "quick":
        this.#reader(step.reader)?.slow(step.kind === "slow");
        return;
      case "sleep":
        return await at.time.advance(1_500);
      case "restart":
        await at.stop();
        await at.open();
        return this.#reconnect();
      case "crash":
        at.crash();
        for (const { reader } of this.#joined) reader.cut();
        await at.open();
        return this.#reconnect();
    }
  }

  async finish(): Promise<void> {
    const at = this.#at;
    for (const { reader } of this.#joined) reader.slow(false);
    await at.call(TARGET, "mark", 1, "said", -1);
    // A subscription whose answer is on its way may still be refused.
    for (let round = 0; round < 3; round++) {
      this.#reconnect();
      await at.time.advance(500);
    }
    const object = at.identity(TARGET);
    const all = new RecordingSink();
    const request = { object, caller: { kind: "client" as const }, from: { kind: "after" as const, number: 0 } };
    const subscription = await at.time.until(at.node.subscribe(request, all));
    await at.time.settle();
    for (const { number, name, data } of all.events) this.#truth.check(number, name, data);
    for (const { reader, from } of this.#joined) reader.checkAgainst(all.events, from);
    subscription.close();
    for (const { reader } of this.#joined) reader.disconnect();
    expect(await at.node.status()).toMatchObject({ subscriptions: 0, watchedObjects: 0 });
  }

  #reconnect(): void {
    for (const { reader } of this.#joined) if (!reader.isConnected) void reader.connect();
  }

  #reader(index: number): Reader | undefined {
    return this.#joined[index % Math.max(1, this.#joined.length)]?.reader;
  }

  #noteLanded(): void {
    for (const one of this.#at.observations)
      if (one.kind === "event") this.#landed = Math.max(this.#landed, one.number);
  }
}

const settings = {
  EVENT_ROWS_MAX: 90,
  EVENT_PAGE_MAX: 4,
  EVENT_BUFFER_MAX: 3,
  OBJECT_IDLE_MS: 1_000,
  OBJECT_MAILBOX_MAX: 1_000,
};

it("every subscriber that resumes sees every kept event exactly once, in order", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), fc.nat(1_000), async (steps, seed) => {
      const at = await VirtualNode.start({ classes, settings, seed, bucket: { latencyMs: 2 } });
      const run = new Run(at);
      for (const one of steps) await run.perform(one);
      await run.finish();
      await at.stop();
    }),
    { numRuns: Number(process.env.RUNS ?? 40) },
  );
});
