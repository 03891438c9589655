/**
 * Those who watch lists in a simulation, through any node: they resume by number whatever ended their subscription, and hold
 * everything they are told against each other. The n-th event of a list is its n-th value, so each must see the list itself.
 */
import { asMoonportError } from "../../src/errors.js";
import { identityOf, type ObjectIdentity } from "../../src/identity.js";
import type { Delivery, Sink, SubscribeFrom, Subscription } from "../../src/realtime/contract.js";
import type { SimulatedFleet, SimulatedNode } from "../../src/simulation/simulated-fleet.js";
import type { SeededRandom } from "../../src/testing/seeded-random.js";
import type { World } from "../../src/world/world.js";
import { sleep } from "../../src/world/world.js";

export interface WatchersParts {
  readonly fleet: SimulatedFleet;
  /** Outside of all nodes. */
  readonly world: World;
  readonly random: SeededRandom;
  /** `Class/key`, lists only. */
  readonly objects: readonly string[];
  readonly count: number;
  readonly tell: (what: string) => void;
}

const READ_ALL = { method: "all", args: [] } as const;
const CALLER = { kind: "client" } as const;
const LOOK_MS = 40;
/** In calm, by then everybody has heard of everything. */
const CATCH_UP_MS = 15_000;

/** What one object's numbers stand for, as whoever saw one first was told. */
class Truth {
  readonly #values = new Map<number, number>();

  /** @returns what is wrong */
  check(number: number, value: unknown): string | undefined {
    const known = this.#values.get(number);
    if (known === undefined) this.#values.set(number, value as number);
    return known === undefined || known === value ? undefined : `event ${number} is ${value}, and was ${known}`;
  }
}

export class Watchers {
  readonly #parts: WatchersParts;
  readonly #all: (Subscriber | Viewer)[] = [];
  readonly #truths = new Map<string, Truth>();
  readonly violations: string[] = [];
  #isCalm = false;
  #isOver = false;

  constructor(parts: WatchersParts) {
    this.#parts = parts;
    for (let index = 0; index < parts.count; index++) {
      const object = parts.objects[parts.random.below(parts.objects.length)] as string;
      const truth = this.#truths.get(object) ?? new Truth();
      this.#truths.set(object, truth);
      const watcher: WatcherParts = {
        name: `watcher ${index} of ${object}`,
        object,
        truth,
        random: parts.random,
        violated: (what) => void this.violations.push(what),
      };
      this.#all.push(index % 3 === 2 ? new Viewer(watcher) : new Subscriber(watcher));
    }
    for (const one of this.#all) void this.#watch(one);
  }

  /** Events that were told in all. */
  get told(): number {
    return this.#all.reduce((sum, { told }) => sum + told, 0);
  }

  /** From now on nobody leaves of himself: what is missed stays missed. */
  stay(): void {
    this.#isCalm = true;
  }

  /** In calm. @param lists what each object holds by now @returns what is wrong */
  async end(lists: ReadonlyMap<string, unknown>): Promise<readonly string[]> {
    const { fleet, world, tell } = this.#parts;
    const untilMs = fleet.time.nowMs + CATCH_UP_MS;
    const listOf = ({ object }: Watcher): readonly number[] =>
      (lists.get(object) as readonly number[] | undefined) ?? [];
    const behind = (): (Subscriber | Viewer)[] => this.#all.filter((one) => !one.hasSeen(listOf(one)));
    while (behind().length > 0 && fleet.time.nowMs < untilMs) await sleep(world, LOOK_MS);
    for (const one of behind()) this.violations.push(`${one.name} ${one.missing(listOf(one))}`);
    this.#isOver = true;
    for (const one of this.#all) one.leave();
    tell(`${this.told} told to watchers`);
    return this.violations;
  }

  /** Connects again, elsewhere, whenever it has lost its node or had enough of it. */
  async #watch(one: Subscriber | Viewer): Promise<void> {
    const { world, random, fleet, tell } = this.#parts;
    while (!this.#isOver) {
      const names = [...fleet.nodes.keys()];
      const node = fleet.node(names[random.below(names.length)] as string);
      await sleep(world, random.below(80));
      if (!node.isUp) continue;
      const life = node.node;
      try {
        const leavesAtMs = fleet.time.nowMs + random.below(8_000);
        await one.join(node);
        const hasEnough = (): boolean => this.#isOver || (!this.#isCalm && fleet.time.nowMs >= leavesAtMs);
        while (one.isWatching && node.isUp && node.node === life && !hasEnough()) await sleep(world, LOOK_MS);
      } catch (thrown) {
        const { code, message } = asMoonportError(thrown);
        tell(`${one.name} refused by ${node.name}: ${code}`);
        if (code === "internal" || code === "object_corrupt") this.violations.push(`${one.name}: ${message}`);
      }
      one.leave();
    }
  }
}

interface WatcherParts {
  readonly name: string;
  /** `Class/key` */
  readonly object: string;
  readonly truth: Truth;
  readonly random: SeededRandom;
  readonly violated: (what: string) => void;
}

abstract class Watcher implements Sink {
  readonly name: string;
  readonly object: string;
  protected readonly parts: WatcherParts;
  told = 0;
  #isWatching = false;
  #subscription: Subscription | undefined;
  /** Of tries to join: what an earlier one brings late is not heard. */
  #tries = 0;

  constructor(parts: WatcherParts) {
    this.parts = parts;
    this.name = parts.name;
    this.object = parts.object;
  }

  get isWatching(): boolean {
    return this.#isWatching;
  }

  /** @throws MoonportError */
  async join(node: SimulatedNode): Promise<void> {
    const attempt = ++this.#tries;
    this.#isWatching = true;
    const sink: Sink = {
      deliver: (delivery) => {
        if (attempt === this.#tries) this.#hear(delivery);
      },
      room: () => this.room(),
      isFull: () => this.isFull(),
    };
    const subscription = await this.begin(node, sink);
    if (attempt === this.#tries) this.#subscription = subscription;
    else subscription.close();
  }

  leave(): void {
    this.#tries++;
    this.#isWatching = false;
    this.#subscription?.close();
    this.#subscription = undefined;
  }

  #hear(delivery: Delivery): void {
    this.told++;
    if (delivery.kind === "ended") this.#isWatching = false;
    else this.deliver(delivery);
  }

  room(): undefined {}

  isFull(): boolean {
    return this.parts.random.fraction() < 0.002;
  }

  abstract deliver(delivery: Delivery): void;
  abstract hasSeen(list: readonly number[]): boolean;
  abstract missing(list: readonly number[]): string;
  protected abstract begin(node: SimulatedNode, sink: Sink): Promise<Subscription>;
}

/** Must see every event once, in order. */
class Subscriber extends Watcher {
  #position = 0;

  protected begin(node: SimulatedNode, sink: Sink): Promise<Subscription> {
    const { random, object } = this.parts;
    const from: SubscribeFrom =
      this.#position === 0 && random.fraction() < 0.3
        ? { kind: "snapshot", reading: READ_ALL }
        : { kind: "after", number: this.#position };
    return node.subscribe({ object: identityOfPath(object), from, caller: CALLER }, sink);
  }

  deliver(delivery: Delivery): void {
    switch (delivery.kind) {
      case "subscribed":
        return this.#expect(delivery.after, this.#position, "was subscribed after");
      case "snapshot": {
        const list = delivery.value as readonly number[];
        this.#expect(list.length, delivery.number, "got a snapshot of length");
        for (const [index, value] of list.entries()) this.#check(index + 1, value);
        this.#position = delivery.number;
        return;
      }
      case "gap":
        return this.parts.violated(`${this.name} was told of a gap from ${delivery.from} to ${delivery.first}`);
      case "event": {
        const { number, data } = delivery.event;
        this.#expect(number, this.#position + 1, "was told of event");
        this.#check(number, (data as { value: number }).value);
        this.#position = number;
      }
    }
  }

  hasSeen(list: readonly number[]): boolean {
    return this.#position >= list.length;
  }

  missing(list: readonly number[]): string {
    return `has seen ${this.#position} of ${list.length} events in calm`;
  }

  #expect(found: number, expected: number, what: string): void {
    if (found !== expected) this.parts.violated(`${this.name} ${what} ${found} where ${expected} was due`);
  }

  #check(number: number, value: unknown): void {
    const fault = this.parts.truth.check(number, value);
    if (fault !== undefined) this.parts.violated(`${this.name}: ${fault}`);
  }
}

/** Must come to see the whole list. */
class Viewer extends Watcher {
  #value: readonly number[] | undefined;

  protected begin(node: SimulatedNode, sink: Sink): Promise<Subscription> {
    this.#value = undefined;
    return node.view({ object: identityOfPath(this.object), reading: READ_ALL, caller: CALLER }, sink);
  }

  deliver(delivery: Delivery): void {
    if (delivery.kind !== "view") return;
    const list = delivery.value as readonly number[];
    if (list.length < (this.#value?.length ?? 0)) {
      this.parts.violated(`${this.name} saw ${list.length} values after ${this.#value?.length}`);
    }
    this.#value = list;
    for (const [index, value] of list.entries()) {
      const fault = this.parts.truth.check(index + 1, value);
      if (fault !== undefined) return this.parts.violated(`${this.name}: ${fault}`);
    }
  }

  hasSeen(list: readonly number[]): boolean {
    return this.#value !== undefined && this.#value.length >= list.length;
  }

  missing(list: readonly number[]): string {
    return `has ${this.#value?.length ?? "nothing"} of ${list.length} values in calm`;
  }
}

function identityOfPath(object: string): ObjectIdentity {
  const [className = "", key = ""] = object.split("/");
  return identityOf("default", className, key);
}
