/**
 * The hub of a node: everybody who watches objects through it, from any door. Where they live is its source's concern.
 *
 * A watched object may sleep: the hub holds names and numbers, never an object or its file. It hears of every landed flight
 * (G1) and passes it on to those who watch that object; for an object that nobody watches that is one look into a map.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Settings } from "../settings/settings.js";
import { encodeValue } from "../store/value-codec.js";
import type { World } from "../world/world.js";
import type { Landing, LiveApi, Sink, SubscribeRequest, Subscription, ViewRequest } from "./contract.js";
import { EventSubscription } from "./event-subscription.js";
import type { LiveSource } from "./live-source.js";
import { LiveView, Viewer } from "./live-view.js";
import { Topic } from "./topic.js";

export interface HubParts {
  readonly source: LiveSource;
  readonly world: Pick<World, "timers" | "log">;
  readonly settings: Pick<Settings, "SUBSCRIPTIONS_MAX" | "EVENT_PAGE_MAX" | "EVENT_BUFFER_MAX" | "VIEW_INTERVAL_MS">;
}

/** Names that one subscription may filter by. */
const NAMES_MAX = 100;

export class Hub implements LiveApi {
  readonly #parts: HubParts;
  #source: LiveSource;
  /** By object id, only while somebody watches. */
  readonly #topics = new Map<string, Topic>();
  #subscriptions = 0;
  #isStopped = false;

  constructor(parts: HubParts) {
    this.#parts = parts;
    this.#source = parts.source;
  }

  /** Before anybody subscribes: what is watched may live on other nodes. */
  useSource(source: LiveSource): void {
    this.#source = source;
  }

  /** Subscriptions and views. */
  get subscriptions(): number {
    return this.#subscriptions;
  }

  get watchedObjects(): number {
    return this.#topics.size;
  }

  async subscribe(request: SubscribeRequest, sink: Sink): Promise<Subscription> {
    const { object } = request;
    try {
      this.#checkSubscribe(request);
      const topic = this.#topicOf(object);
      const source = this.#source;
      const { world } = this.#parts;
      const closed = (gone: EventSubscription): void => {
        topic.subscribers.delete(gone);
        this.#left(topic);
      };
      const subscription = new EventSubscription({ request, sink, topic, source, world, closed });
      topic.subscribers.add(subscription);
      this.#subscriptions++;
      await this.#prepare(subscription);
      // The caller learns that it stands before its sink hears anything.
      world.timers.soon(() => subscription.begin());
      return subscription;
    } catch (thrown) {
      throw asMoonportError(thrown).with({ object: object.id });
    }
  }

  async view({ object, reading, caller }: ViewRequest, sink: Sink): Promise<Subscription> {
    const source = this.#source;
    const { world, settings } = this.#parts;
    try {
      this.#assertRoom();
      source.checkReading(object, reading.method);
    } catch (thrown) {
      throw asMoonportError(thrown).with({ object: object.id });
    }
    const topic = this.#topicOf(object);
    const key = viewKey({ object, reading, caller });
    const view = topic.views.get(key) ?? new LiveView({ object, reading, caller, source, world, settings });
    topic.views.set(key, view);
    const viewer = new Viewer(sink, world.log, (gone) => {
      view.viewers.delete(gone);
      if (view.viewers.size === 0) {
        view.close();
        topic.views.delete(key);
      }
      this.#left(topic);
    });
    view.viewers.add(viewer);
    this.#subscriptions++;
    world.timers.soon(() => view.join(viewer));
    return viewer;
  }

  /** Told of every landed flight. */
  landed(landing: Landing): void {
    this.#topics.get(landing.object.id)?.landed(landing);
  }

  /** The node's classes were loaded anew. */
  classesChanged(): void {
    for (const topic of this.#topics.values()) {
      for (const view of topic.views.values()) view.classesChanged();
    }
  }

  /** Ends every subscription, and takes no more. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    for (const topic of this.#topics.values()) {
      for (const subscriber of topic.subscribers) subscriber.end("stopping");
      for (const view of topic.views.values()) {
        for (const viewer of view.viewers) viewer.end("stopping");
      }
    }
  }

  async #prepare(subscription: EventSubscription): Promise<void> {
    try {
      await subscription.prepare();
      if (subscription.endedEarly === "stopping") throw stopping();
    } catch (error) {
      subscription.close();
      throw error;
    }
  }

  #checkSubscribe({ object, from, names, snapshotAfterGap }: SubscribeRequest): void {
    this.#assertRoom();
    const source = this.#source;
    source.checkClass(object);
    if (from.kind === "snapshot") source.checkReading(object, from.reading.method);
    if (snapshotAfterGap !== undefined) source.checkReading(object, snapshotAfterGap.method);
    if (from.kind === "after" && !(Number.isSafeInteger(from.number) && from.number >= 0)) {
      throw MoonportError.of("bad_request", "the number to subscribe after is a whole number from 0");
    }
    if (names !== undefined && names.length > NAMES_MAX) {
      throw MoonportError.of("bad_request", `a subscription filters by ${NAMES_MAX} event names at most`);
    }
  }

  #assertRoom(): void {
    if (this.#isStopped) throw stopping();
    const { SUBSCRIPTIONS_MAX } = this.#parts.settings;
    if (this.#subscriptions < SUBSCRIPTIONS_MAX) return;
    throw MoonportError.of("subscriptions_full", `the node has ${SUBSCRIPTIONS_MAX} subscriptions already`, {
      hint: "the limit is SUBSCRIPTIONS_MAX",
      retryAfterMs: 1_000,
    });
  }

  #topicOf(object: ObjectIdentity): Topic {
    const known = this.#topics.get(object.id);
    if (known !== undefined) return known;
    const topic = new Topic(object, this.#source, this.#parts.settings);
    this.#topics.set(object.id, topic);
    return topic;
  }

  #left(topic: Topic): void {
    this.#subscriptions--;
    if (topic.isWatched || this.#topics.get(topic.object.id) !== topic) return;
    this.#topics.delete(topic.object.id);
    topic.close();
  }
}

/** A reading method may look at its caller, so only the same caller shares what it answers. */
function viewKey({ reading, caller }: ViewRequest): string {
  const { kind, id = null, claims = null } = caller;
  const parts = [reading.method, [...reading.args], kind, id, claims];
  return Buffer.from(encodeValue(parts, Number.POSITIVE_INFINITY, "a view's arguments")).toString("latin1");
}

function stopping(): MoonportError {
  return MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
}
