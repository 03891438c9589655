/**
 * One subscriber of one object's events, from the request to its end.
 *
 * It catches up from the object's own table in bounded pages, at the pace of its sink, then follows what lands. Its cursor is
 * the last number it delivered or passed over; every event above it is delivered next or not at all, so nothing is lost and
 * nothing doubled, whatever happens between page and landing.
 */
import { asMoonportError } from "../errors.js";
import { type World, yieldTurn } from "../world/world.js";
import type { Delivery, EndReason, Sink, SubscribeRequest, Subscription } from "./contract.js";
import type { LiveSource } from "./live-source.js";
import type { EventDelivery, EventPage, Follower, Topic } from "./topic.js";

type Greeting = readonly Extract<Delivery, { kind: "subscribed" | "snapshot" }>[];
type End = { readonly reason: EndReason; readonly error?: Error };

type State =
  /** Being asked for; `end`, `destroyedAt`: what came in between. */
  | { readonly kind: "preparing"; readonly end: End | undefined; readonly destroyedAt: number | undefined }
  /** `destroyedAt`: the object ended with that event, and so will this. */
  | { readonly kind: "catching_up"; readonly destroyedAt: number | undefined }
  | { readonly kind: "live" }
  | { readonly kind: "closed" };

export interface EventSubscriptionParts {
  readonly request: SubscribeRequest;
  readonly sink: Sink;
  readonly topic: Topic;
  readonly source: LiveSource;
  readonly world: Pick<World, "timers" | "log">;
  /** It has ended, by whichever side. */
  readonly closed: (subscription: EventSubscription) => void;
}

export class EventSubscription implements Subscription, Follower {
  readonly #parts: EventSubscriptionParts;
  readonly #names: ReadonlySet<string> | undefined;
  #state: State = { kind: "preparing", end: undefined, destroyedAt: undefined };
  #cursor = 0;
  #greeting: Greeting = [];
  #firstPage: EventPage | undefined;
  /** Whether the topic keeps recent events for this one. */
  #holds = false;

  constructor(parts: EventSubscriptionParts) {
    this.#parts = parts;
    const { names } = parts.request;
    this.#names = names && new Set(names);
    this.#hold();
  }

  get after(): number {
    return this.#cursor;
  }

  /** Why it ended before it began. */
  get endedEarly(): EndReason | undefined {
    return this.#state.kind === "preparing" ? this.#state.end?.reason : undefined;
  }

  close(): void {
    if (this.#state.kind === "closed") return;
    this.#release();
    this.#state = { kind: "closed" };
    this.#firstPage = undefined;
    this.#parts.closed(this);
  }

  /** Finds out where to begin. @throws MoonportError */
  async prepare(): Promise<void> {
    const { request, topic, source } = this.#parts;
    const { from } = request;
    switch (from.kind) {
      case "now":
        return this.#beginAt(await topic.findLast());
      case "after":
        return await this.#prepareAfter(from.number);
      case "snapshot": {
        const { value, number } = await source.evaluate(request.object, from.reading, request.caller);
        topic.saw(number);
        return this.#beginAt(number, { kind: "snapshot", value, number });
      }
    }
  }

  /** The request is accepted: from now on the sink is told. */
  begin(): void {
    if (this.#state.kind !== "preparing") return;
    const { end, destroyedAt } = this.#state;
    this.#state = { kind: "catching_up", destroyedAt };
    if (end === undefined) return void this.#catchUp();
    this.#tellGreeting();
    this.end(end.reason, end.error);
  }

  follow(delivery: EventDelivery): void {
    // What it read may be ahead of what is told of an object elsewhere.
    if (this.#state.kind !== "live" || delivery.event.number <= this.#cursor) return;
    if (this.#wants(delivery) && this.#parts.sink.isFull()) return this.end("slow");
    this.#pass(delivery);
  }

  fallBehind(): void {
    if (this.#state.kind !== "live") return;
    this.#hold();
    this.#state = { kind: "catching_up", destroyedAt: undefined };
    void this.#catchUp("reads");
  }

  objectDestroyed(): void {
    if (this.#state.kind === "live") return this.end("destroyed");
    if (this.#state.kind === "closed") return;
    // Before it knows where it begins, what ended is a life that it never followed.
    if (this.#state.kind === "preparing" && this.#greeting.length === 0) return;
    this.#state = { ...this.#state, destroyedAt: this.#parts.topic.last };
  }

  end(reason: EndReason, error?: Error): void {
    if (this.#state.kind === "closed") return;
    if (this.#state.kind === "preparing") {
      this.#state = { ...this.#state, end: error === undefined ? { reason } : { reason, error } };
      return;
    }
    this.#tell({ kind: "ended", reason, after: this.#cursor, ...(error !== undefined && { error }) });
    this.close();
  }

  async #prepareAfter(number: number): Promise<void> {
    const { topic } = this.#parts;
    if (number === topic.last) return this.#beginAt(number);
    if (topic.last !== undefined && number > topic.last && topic.isUpToDate) return this.#beginLower(topic.last);
    const page = await topic.read(number);
    if (number > page.last) return this.#beginLower(page.last);
    if (number === page.last) return this.#beginAt(number);
    this.#firstPage = page;
    this.#beginAt(number);
  }

  /** What it was to go on after is not in the object: whoever wants a value in place of what it missed gets it. */
  async #beginLower(last: number): Promise<void> {
    const { request, topic, source } = this.#parts;
    if (request.snapshotAfterGap === undefined) return this.#beginAt(last);
    const { value, number } = await source.evaluate(request.object, request.snapshotAfterGap, request.caller);
    topic.saw(number);
    this.#beginAt(number, { kind: "snapshot", value, number });
  }

  #beginAt(number: number, snapshot?: Greeting[number]): void {
    this.#cursor = number;
    const subscribed = { kind: "subscribed" as const, after: number };
    this.#greeting = snapshot === undefined ? [subscribed] : [snapshot, subscribed];
  }

  /** @param begins `reads`: by asking the object, whatever was told of it */
  async #catchUp(begins: "reads" | "as_prepared" = "as_prepared"): Promise<void> {
    try {
      await this.#greet();
      let page = begins === "reads" ? await this.#read() : this.#firstPage;
      this.#firstPage = undefined;
      for (;;) {
        const before = this.#cursor;
        if (page !== undefined) await this.#passPage(page);
        await this.#passRecent();
        if (this.#state.kind !== "catching_up") return;
        // A page that brought nothing is asked for again: where that is for long, others have their turn between.
        if (page !== undefined && this.#cursor === before) await yieldTurn(this.#parts.world);
        page = await this.#read();
      }
    } catch (thrown) {
      this.end("failed", asMoonportError(thrown));
    }
  }

  /** A snapshot may be as large as any value: it waits for the sink, like a page. */
  async #greet(): Promise<void> {
    while (this.#state.kind === "catching_up") {
      const room = this.#greeting.some(({ kind }) => kind === "snapshot") ? this.#parts.sink.room() : undefined;
      if (room === undefined) return this.#tellGreeting();
      await this.#waitFor(room);
    }
  }

  #tellGreeting(): void {
    for (const delivery of this.#greeting) this.#tell(delivery);
    this.#greeting = [];
  }

  /** What a page in common with others told last may be older than what this one has passed; the next one is not. */
  async #read(): Promise<EventPage> {
    const { topic } = this.#parts;
    const page = await topic.read(this.#cursor);
    if (page.last >= this.#cursor) return page;
    const again = await topic.read(this.#cursor);
    if (again.last < this.#cursor) await this.#beginAnew(again.last);
    return again;
  }

  /** The object counts lower than this subscription has come: it says so, and goes on from there. */
  async #beginAnew(number: number): Promise<void> {
    if (!this.#isCatchingUp()) return;
    this.#cursor = number;
    this.#tell({ kind: "subscribed", after: number });
    await this.#passSnapshot();
  }

  async #passPage(page: EventPage): Promise<void> {
    this.#endWith(page);
    if (!this.#isCatchingUp()) return;
    const first = page.events.find(({ event }) => event.number > this.#cursor)?.event.number ?? page.last + 1;
    if (first > this.#cursor + 1) await this.#passGap(first);
    for (const delivery of page.events) {
      if (delivery.event.number <= this.#cursor) continue;
      if (!(await this.#withRoom(() => this.#pass(delivery)))) return;
    }
  }

  /** An object that is gone, and has emitted since: the life that this subscription was to follow has ended unheard. */
  #endWith({ last, exists }: EventPage): void {
    if (this.#state.kind !== "catching_up" || exists || last <= this.#cursor) return;
    this.#state = { kind: "catching_up", destroyedAt: this.#state.destroyedAt ?? last };
  }

  async #passGap(firstKept: number): Promise<void> {
    const { destroyedAt } = this.#state.kind === "catching_up" ? this.#state : { destroyedAt: undefined };
    // What is missing beyond the object's end belongs to its next life, which this subscription does not follow.
    const first = Math.min(firstKept, (destroyedAt ?? firstKept) + 1);
    this.#tell({ kind: "gap", from: this.#cursor + 1, first });
    this.#cursor = first - 1;
    await this.#passSnapshot();
  }

  /** In place of what is missing, for who asked for that. */
  async #passSnapshot(): Promise<void> {
    const { request, source } = this.#parts;
    if (request.snapshotAfterGap === undefined || !this.#isCatchingUp()) return;
    const { value, number } = await source.evaluate(request.object, request.snapshotAfterGap, request.caller);
    this.#parts.topic.saw(number);
    await this.#withRoom(() => {
      this.#tell({ kind: "snapshot", value, number });
      this.#cursor = Math.max(this.#cursor, number);
    });
  }

  /** What landed since the page was read, then live; stays behind where more landed than is kept. */
  async #passRecent(): Promise<void> {
    const { topic } = this.#parts;
    while (this.#isCatchingUp() && this.#cursor < (topic.last ?? 0)) {
      const next = topic.recentAfter(this.#cursor);
      if (next === undefined) return;
      if (!(await this.#withRoom(() => this.#pass(next)))) return;
    }
    // In the tick of the comparison: the next landing finds it live.
    if (!this.#isCatchingUp()) return;
    this.#state = { kind: "live" };
    this.#release();
  }

  /**
   * Waits for the sink, and tells it in the tick in which it had room: others that share its buffer wait for the same room.
   * False when the subscription is over, by then or with the event just delivered.
   */
  async #withRoom(tell: () => void): Promise<boolean> {
    while (this.#isCatchingUp()) {
      const room = this.#parts.sink.room();
      if (room === undefined) {
        tell();
        return true;
      }
      await this.#waitFor(room);
    }
    return false;
  }

  /** A sink may take for ever: the events it waits for stand in the object's table. */
  async #waitFor(room: Promise<void>): Promise<void> {
    this.#release();
    await room;
    if (this.#state.kind === "catching_up") this.#hold();
  }

  /** Also ends what has come to the end of its object. */
  #isCatchingUp(): boolean {
    if (this.#state.kind !== "catching_up") return false;
    const { destroyedAt } = this.#state;
    if (destroyedAt === undefined || this.#cursor < destroyedAt) return true;
    this.end("destroyed");
    return false;
  }

  #pass(delivery: EventDelivery): void {
    this.#cursor = delivery.event.number;
    if (this.#wants(delivery)) this.#tell(delivery);
  }

  #wants({ event }: EventDelivery): boolean {
    return this.#names === undefined || this.#names.has(event.name);
  }

  #hold(): void {
    if (this.#holds) return;
    this.#holds = true;
    this.#parts.topic.holdRecent();
  }

  #release(): void {
    if (!this.#holds) return;
    this.#holds = false;
    this.#parts.topic.releaseRecent();
  }

  #tell(delivery: Delivery): void {
    if (this.#state.kind === "closed") return;
    try {
      this.#parts.sink.deliver(delivery);
    } catch (error) {
      const { world, request } = this.#parts;
      world.log.error(
        { object: request.object.id, error: asMoonportError(error).message },
        "a subscriber's sink threw",
      );
      this.close();
    }
  }
}
