/**
 * One watched object: who follows its events and views, and the last event that they were told of.
 *
 * It exists only while somebody watches, and keeps nothing of the object awake. While a subscriber catches up it also keeps
 * the newest landed events, so that reading the older ones and following the live ones meet without loss: whoever reads a
 * page late finds what landed meanwhile here, or (when more landed than is kept) reads another page.
 */
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import type { Delivery, EndReason, Landing, LiveEvent } from "./contract.js";
import type { LiveSource, StoredEvents, Watch, Watcher } from "./live-source.js";
import type { LiveView } from "./live-view.js";

export type EventDelivery = Extract<Delivery, { kind: "event" }>;

export interface EventPage {
  readonly events: readonly EventDelivery[];
  readonly last: number;
  /** Whether the object has content. */
  readonly exists: boolean;
}

/** A subscriber, as its topic sees it. */
export interface Follower {
  /** An event landed. */
  follow(delivery: EventDelivery): void;
  /** Events landed that it was not told of. */
  fallBehind(): void;
  objectDestroyed(): void;
  end(reason: EndReason): void;
}

export class Topic implements Watcher {
  readonly object: ObjectIdentity;
  readonly subscribers = new Set<Follower>();
  readonly views = new Map<string, LiveView>();
  readonly #source: LiveSource;
  readonly #watch: Watch;
  readonly #settings: Pick<Settings, "EVENT_BUFFER_MAX" | "EVENT_PAGE_MAX">;
  /** Unknown until the first read or landing. Lower than before only where a read finds the object so. */
  #last: number | undefined;
  /** Whether the object had content when it was last heard of. */
  #exists = false;
  /** Contiguous, ending at `#last`. */
  #recent: EventDelivery[] = [];
  #catchingUp = 0;
  /** Shared by those who resume from the same number at the same time, as all do after a restart. */
  readonly #reads = new Map<number, Promise<EventPage>>();

  constructor(
    object: ObjectIdentity,
    source: LiveSource,
    settings: Pick<Settings, "EVENT_BUFFER_MAX" | "EVENT_PAGE_MAX">,
  ) {
    this.object = object;
    this.#source = source;
    this.#settings = settings;
    this.#watch = source.watch(object, this);
  }

  /** Nobody watches any more. */
  close(): void {
    this.#watch.stop();
  }

  get isWatched(): boolean {
    return this.subscribers.size > 0 || this.views.size > 0;
  }

  /** Number of the last event that was told; undefined while nobody asked the object yet. */
  get last(): number | undefined {
    return this.#last;
  }

  /** Whether that is the last one that has landed: of an object elsewhere, more may be on its way. */
  get isUpToDate(): boolean {
    return this.#last !== undefined && this.#watch.isHere;
  }

  /** Keeps recent events from now on, until {@link releaseRecent} was called as often. */
  holdRecent(): void {
    this.#catchingUp++;
  }

  releaseRecent(): void {
    this.#catchingUp--;
    if (this.#catchingUp === 0) this.#recent = [];
  }

  /** The event after `number`, if it is among the recent ones. */
  recentAfter(number: number): EventDelivery | undefined {
    const oldest = this.#recent[0]?.event.number;
    return oldest === undefined ? undefined : this.#recent[number + 1 - oldest];
  }

  /** The events after `after` as they stand in the object, a bounded page of them. */
  read(after: number): Promise<EventPage> {
    const underWay = this.#reads.get(after);
    if (underWay !== undefined) return underWay;
    const read = this.#readPage(after, this.#settings.EVENT_PAGE_MAX).finally(() => this.#reads.delete(after));
    this.#reads.set(after, read);
    return read;
  }

  async findLast(): Promise<number> {
    if (this.#last !== undefined && this.isUpToDate) return this.#last;
    return (await this.read(Number.MAX_SAFE_INTEGER)).last;
  }

  /**
   * An event with this number stands in the object. Here, a landing that was not told is found by that. Of an object
   * elsewhere the word is only quicker than the landing.
   */
  saw(number: number): void {
    if (this.#last === undefined || this.#watch.isHere) this.#goTo(number);
  }

  landed(landing: Landing): void {
    this.#exists = !landing.destroyed;
    for (const event of landing.events) this.#publish(event);
    if (landing.destroyed) this.#destroyed();
    for (const view of this.views.values()) view.changed();
  }

  found({ last, exists }: Pick<StoredEvents, "last" | "exists">): void {
    if (this.#last !== undefined && last < this.#last) this.#lostTrack();
    else this.#goTo(last);
    const hasEnded = this.#exists && !exists;
    this.#exists = exists;
    if (hasEnded) this.#destroyed();
    for (const view of this.views.values()) view.changed();
  }

  #goTo(number: number): void {
    if (this.#last !== undefined && number <= this.#last) return;
    const wasKnown = this.#last !== undefined;
    this.#last = number;
    if (wasKnown) this.#lostTrack();
  }

  /** What was told beyond this number before the object was asked is not in it: its bucket is an earlier one, say. */
  #fellBack(number: number): void {
    this.#last = number;
    this.#lostTrack();
  }

  #destroyed(): void {
    for (const subscriber of this.subscribers) subscriber.objectDestroyed();
  }

  async #readPage(after: number, limit: number): Promise<EventPage> {
    const known = this.#last;
    const { events, last, exists } = await this.#source.events(this.object, after, limit);
    if (known !== undefined && last < known) this.#fellBack(last);
    else this.saw(last);
    return { events: events.map(deliveryOf), last, exists };
  }

  #publish(event: Landing["events"][number]): void {
    const { number } = event;
    const last = this.#last;
    if (last !== undefined && number <= last) {
      // Here nothing is read before it is told: either it is told twice, or the object counts lower. A read tells which.
      if (this.#watch.isHere) this.#lostTrack();
      return;
    }
    this.#last = number;
    if (last !== undefined && number > last + 1) this.#lostTrack();
    if (this.subscribers.size === 0) return;
    const delivery = deliveryOf(event);
    if (this.#catchingUp > 0) this.#keep(delivery);
    for (const subscriber of this.subscribers) subscriber.follow(delivery);
  }

  /**
   * Events landed that this node was not told of, while the object was in doubt or elsewhere: they stand in its table. Called
   * once `#last` is known, or the subscribers would find themselves up to date.
   */
  #lostTrack(): void {
    this.#recent = [];
    for (const subscriber of this.subscribers) subscriber.fallBehind();
  }

  #keep(delivery: EventDelivery): void {
    this.#recent.push(delivery);
    if (this.#recent.length > this.#settings.EVENT_BUFFER_MAX) this.#recent.shift();
  }
}

function deliveryOf({ number, name, data, atMs }: Landing["events"][number]): EventDelivery {
  const event: LiveEvent = { number, name, data, atMs, encoded: new Map() };
  return { kind: "event", event };
}
