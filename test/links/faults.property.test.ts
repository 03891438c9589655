/**
 * Three nodes that ask each other over a network which cuts, slows, resets and refuses, while nodes die and come back. Whatever
 * happens, each request is heeded at most once and in order, and answered once: with its own answer, or with a coded error
 * that says whether it may have been heeded.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { MoonportError } from "../../src/errors.js";
import type { Links } from "../../src/links/links.js";
import { sleep } from "../../src/world/world.js";
import { SimulatedStage, type StageNode } from "./stage.js";

const NAMES = ["one", "two", "three"] as const;
const SET = {
  LINK_REQUEST_MS: 800,
  LINK_CONNECT_MS: 200,
  LINK_HEARTBEAT_MS: 50,
  LINK_BACKOFF_MAX_MS: 200,
  LINK_STREAM_WINDOW: 4,
};
/** After this long everything that was asked is answered. */
const LONGEST_MS = SET.LINK_REQUEST_MS + 50;
/** Of those the other side has not heard. */
const UNSENT = ["node_unreachable", "link_refused", "link_full", "node_stopping"];

type Kind = "now" | "later" | "refuse" | "hang";

interface Asked {
  readonly id: number;
  readonly kind: Kind;
  readonly from: string;
  readonly askedMs: number;
  outcome:
    | { readonly kind: "open" }
    | { readonly kind: "answered"; readonly value: unknown }
    | { readonly kind: "failed"; readonly error: unknown };
}

const node = fc.nat(NAMES.length - 1);
const pair = fc
  .tuple(node, fc.nat(NAMES.length - 2))
  .map(([one, step]) => [one, (one + 1 + step) % NAMES.length] as const);
const kind = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Kind>("now") },
  { weight: 3, arbitrary: fc.constant<Kind>("later") },
  { weight: 1, arbitrary: fc.constantFrom<Kind>("refuse", "hang") },
);
const command = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      pair,
      kinds: fc.array(kind, { minLength: 1, maxLength: 8 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.nat(400) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut" as const), pair, oneWay: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("heal" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("slow" as const), pair, ms: fc.nat(300) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reset" as const), pair }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("refuse" as const), node }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const), node, silently: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("stream" as const), pair, items: fc.nat(20) }) },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

class Drill {
  readonly #stage: SimulatedStage;
  readonly #nodes = new Map<string, StageNode>();
  readonly #lives = new Map<string, number>();
  readonly #asked: Asked[] = [];
  readonly #streams: Promise<void>[] = [];
  /** Ids in the order in which handlers saw them, by asking life and answering life. */
  readonly #seen = new Map<string, number[]>();

  constructor(seed: number) {
    this.#stage = new SimulatedStage({ seed, latencyMs: { min: 0.2, max: 20 } });
  }

  async start(): Promise<void> {
    for (const name of NAMES) await this.#startNode(name);
  }

  async run(todo: Command): Promise<void> {
    const { network, time } = this.#stage;
    switch (todo.do) {
      case "ask":
        for (const one of todo.kinds) this.#ask(...this.#names(todo.pair), one);
        return;
      case "stream":
        this.#streams.push(this.#read(...this.#names(todo.pair), todo.items));
        return;
      case "pass":
        return time.advance(todo.ms);
      case "cut":
        return network.cut(...this.#names(todo.pair), todo.oneWay);
      case "heal":
        return this.#heal();
      case "slow":
        return network.slow(...this.#names(todo.pair), { min: 0, max: todo.ms });
      case "reset":
        return network.reset(...this.#names(todo.pair));
      case "refuse":
        return network.refuse(NAMES[todo.node] as string);
      case "restart":
        return this.#restart(NAMES[todo.node] as string, todo.silently);
    }
  }

  /** Everything is well again: what was asked is settled, and what is asked now is answered. */
  async calm(): Promise<void> {
    const { time, network } = this.#stage;
    this.#heal();
    for (const one of NAMES) for (const other of NAMES) network.slow(one, other, undefined);
    await time.advance(LONGEST_MS + 1_000);
    await time.until(Promise.all(this.#streams));
    const before = this.#asked.length;
    for (const one of NAMES) for (const other of NAMES) if (one !== other) this.#ask(one, other, "now");
    await time.advance(LONGEST_MS);
    const after = this.#asked.slice(before);
    expect(after.map(({ outcome }) => outcome.kind)).toEqual(after.map(() => "answered"));
  }

  async stop(): Promise<void> {
    const { time, network } = this.#stage;
    this.#ask("one", "two", "hang");
    await time.advance(30);
    for (const { links } of this.#nodes.values()) {
      await time.until(links.stop());
      expect(links.underWay).toBe(0);
    }
    await time.settle();
    expect(this.#asked.at(-1)?.outcome).toMatchObject({ kind: "failed", error: { code: "link_broken" } });
    await time.advance(10_000);
    expect([network.openChannels, time.pendingTimers]).toEqual([0, 0]);
  }

  check(): void {
    const seen = [...this.#seen.values()].flat();
    expect(new Set(seen).size, "none is heeded twice").toBe(seen.length);
    for (const ids of this.#seen.values()) expect(ids, "in order").toEqual(ids.toSorted((a, b) => a - b));
    const heeded = new Set(seen);
    for (const one of this.#asked) this.#checkOne(one, heeded.has(one.id));
  }

  #checkOne({ id, kind: asked, outcome }: Asked, wasHeeded: boolean): void {
    if (outcome.kind === "open") throw new Error(`request ${id} is not settled`);
    if (outcome.kind === "answered") {
      expect(outcome.value).toBe(id);
      expect(wasHeeded && (asked === "now" || asked === "later")).toBe(true);
      return;
    }
    expect(outcome.error).toBeInstanceOf(MoonportError);
    const { code, details } = outcome.error as MoonportError;
    if (code === "mailbox_full") expect([asked, details]).toEqual(["refuse", { id }]);
    else if (UNSENT.includes(code)) expect(wasHeeded, `${code}: ${id}`).toBe(false);
    else expect(code).toBe("link_broken");
  }

  #names([from, to]: readonly [number, number]): [string, string] {
    return [NAMES[from] as string, NAMES[to] as string];
  }

  #heal(): void {
    this.#stage.network.heal();
    for (const name of NAMES) this.#stage.network.admit(name);
  }

  #at(name: string): StageNode {
    const found = this.#nodes.get(name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  }

  #ask(from: string, to: string, what: Kind): void {
    const { time } = this.#stage;
    const asked: Asked = { id: this.#asked.length, kind: what, from, askedMs: time.nowMs, outcome: { kind: "open" } };
    this.#asked.push(asked);
    const settle = (outcome: Asked["outcome"]): void => {
      expect(asked.outcome.kind).toBe("open");
      expect(time.nowMs - asked.askedMs).toBeLessThanOrEqual(LONGEST_MS);
      asked.outcome = outcome;
    };
    this.#at(from)
      .links.request(this.#at(to), what, asked.id)
      .then(
        (value) => settle({ kind: "answered", value }),
        (error) => settle({ kind: "failed", error }),
      );
  }

  async #read(from: string, to: string, items: number): Promise<void> {
    let next = 0;
    try {
      for await (const item of this.#at(from).links.openStream(this.#at(to), "count", items)) expect(item).toBe(next++);
      expect(next).toBe(items);
    } catch (error) {
      expect(error).toBeInstanceOf(MoonportError);
      expect(["link_broken", "node_unreachable", "node_stopping"]).toContain((error as MoonportError).code);
    }
  }

  async #startNode(name: string): Promise<void> {
    const life = `${name}-${(this.#lives.get(name) ?? 0) + 1}`;
    this.#lives.set(name, (this.#lives.get(name) ?? 0) + 1);
    const prepare = (links: Links): void => this.#prepare(links, life);
    this.#nodes.set(
      name,
      await this.#stage.node(name, { set: SET, self: () => ({ node: name, session: life }), prepare }),
    );
  }

  async #restart(name: string, silently: boolean): Promise<void> {
    this.#stage.network.kill(name, { silently });
    // The dead one's promises: nobody is there to hear them, but every request of this test is to settle.
    await this.#at(name).links.stop();
    await this.#startNode(name);
  }

  #prepare(links: Links, life: string): void {
    const { time } = this.#stage;
    const see = (body: unknown, from: { session: string }): number => {
      const line = `${from.session} ${life}`;
      this.#seen.set(line, [...(this.#seen.get(line) ?? []), body as number]);
      return body as number;
    };
    links.handle("now", see);
    links.handle("later", async (body, from) => {
      const id = see(body, from);
      await sleep({ timers: time }, (id * 37) % 300);
      return id;
    });
    links.handle("refuse", (body, from) => {
      throw MoonportError.of("mailbox_full", "full", { details: { id: see(body, from) } });
    });
    links.handle("hang", (body, from) => {
      see(body, from);
      return new Promise(() => {});
    });
    links.handleStream("count", async function* (body) {
      for (let item = 0; item < (body as number); item++) {
        await sleep({ timers: time }, (item * 13) % 20);
        yield item;
      }
    });
  }
}

it("whatever the network does, requests are heeded at most once, in order, and answered once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(2 ** 31), fc.array(command, { minLength: 10, maxLength: 60 }), async (seed, commands) => {
      const drill = new Drill(seed);
      await drill.start();
      for (const todo of commands) await drill.run(todo);
      await drill.calm();
      await drill.stop();
      drill.check();
    }),
    { numRuns: 60 },
  );
}, 300_000);
