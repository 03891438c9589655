/** What lands here, for hubs of other nodes that watch an object which they believe to be here. */
import { identityOf, type ObjectIdentity } from "../identity.js";
import type { Feeds } from "../realtime/feeds.js";
import type { FeedAsked } from "./following.js";
import { HOPS_MAX, type Places } from "./place.js";
import { believedOn, type Routing } from "./routing.js";

/** A stream of what lands of an object. */
export const LIVE = "object.live";

export interface PeerFeedsParts {
  readonly self: string;
  readonly places: Places;
  readonly routing: Pick<Routing, "believed" | "refuseStray">;
  /** Of this node. */
  readonly feeds: Feeds;
}

export class PeerFeeds {
  readonly #parts: PeerFeedsParts;

  constructor(parts: PeerFeedsParts) {
    this.#parts = parts;
  }

  /** What lands of an object that is believed to be here. @throws MoonportError `moved` to where it is believed to be */
  open({ app, className, key, hops }: FeedAsked, from: string): AsyncIterable<unknown> {
    const { self, places, routing } = this.#parts;
    const object = identityOf(app, className, key);
    places.isNotAt(object, from);
    const to = routing.believed(object);
    if (to !== self && hops < HOPS_MAX) throw believedOn(object, to);
    return this.#onLastHop(object);
  }

  async *#onLastHop(object: ObjectIdentity): AsyncIterable<unknown> {
    await this.#parts.routing.refuseStray(object);
    yield* this.#parts.feeds.open(object, "landings");
  }
}
