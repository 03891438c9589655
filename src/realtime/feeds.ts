/**
 * What lands of this node's objects, for the hubs of other nodes: one feed an object and hub, however many watch there.
 *
 * A feed begins with where the object stands, then tells every landing, and ends as soon as this node may not be the owner
 * any more: whoever reads it finds the object again, and reads what it missed. One that is not read keeps nothing but how far
 * it has come: its reader finds the events themselves in the object.
 */
import { asMoonportError, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { ItemQueue } from "../item-queue.js";
import { decodeValue, encodeValue } from "../store/value-codec.js";
import type { PlainValue } from "../values.js";
import type { Landing } from "./contract.js";
import type { LiveSource, StoredEvents } from "./live-source.js";

/** As it travels. */
export type FeedItem =
  | { readonly kind: "found"; readonly last: number; readonly exists: boolean }
  /** `events`: encoded, for users' values. */
  | { readonly kind: "landed"; readonly seq: number; readonly events: Uint8Array; readonly destroyed: boolean };

/** `positions`: the reader hears of landings by itself. */
export type FeedContent = "landings" | "positions";

/** Landings that may wait to be read. */
const ITEMS_MAX = 64;
/** Larger ones are read from the object, in pages. */
const ITEM_BYTES_MAX = 256 * 1_024;

export class Feeds {
  readonly #source: Pick<LiveSource, "events">;
  readonly #byObject = new Map<string, Set<Feed>>();
  #isStopped = false;

  constructor(source: Pick<LiveSource, "events">) {
    this.#source = source;
  }

  open(object: ObjectIdentity, content: FeedContent): AsyncIterableIterator<FeedItem> {
    if (this.#isStopped) throw stopping();
    const feed = new Feed(content, () => this.#forget(object.id, feed));
    const feeds = this.#byObject.get(object.id);
    if (feeds === undefined) this.#byObject.set(object.id, new Set([feed]));
    else feeds.add(feed);
    // It stands among the feeds by now: what lands while the object is read is told as well.
    void this.#find(object, feed);
    return feed.items;
  }

  landed(landing: Landing): void {
    const feeds = this.#byObject.get(landing.object.id);
    if (feeds === undefined) return;
    let encoded: Uint8Array | undefined;
    for (const feed of feeds) {
      if (feed.content === "landings") encoded ??= encodedEvents(landing);
      feed.landed(landing, encoded);
    }
  }

  /** The object may be another node's by now, or have landed what was not told. */
  lost(id: string): void {
    const why = MoonportError.of("moved", `${id} is not served as before`, { object: id });
    this.#end(this.#byObject.get(id), why);
  }

  /** Of all objects at once. */
  allLost(why: MoonportError): void {
    for (const feeds of [...this.#byObject.values()]) this.#end(feeds, why);
  }

  /** Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.allLost(stopping());
  }

  async #find(object: ObjectIdentity, feed: Feed): Promise<void> {
    try {
      feed.found(await this.#source.events(object, Number.MAX_SAFE_INTEGER, 1));
    } catch (error) {
      this.#forget(object.id, feed);
      feed.end(asMoonportError(error));
    }
  }

  #end(feeds: ReadonlySet<Feed> | undefined, why: MoonportError): void {
    for (const feed of [...(feeds ?? [])]) feed.end(why);
  }

  #forget(id: string, feed: Feed): void {
    const feeds = this.#byObject.get(id);
    if (feeds?.delete(feed) && feeds.size === 0) this.#byObject.delete(id);
  }
}

class Feed {
  readonly content: FeedContent;
  readonly items: ItemQueue<FeedItem>;
  readonly #over: () => void;
  /** What its reader will know of the object when it has read all that waits. */
  #position: FeedItem & { readonly kind: "found" } = { kind: "found", last: 0, exists: false };

  constructor(content: FeedContent, over: () => void) {
    this.content = content;
    this.#over = over;
    this.items = new ItemQueue(ITEMS_MAX, over);
  }

  found({ last, exists }: Pick<StoredEvents, "last" | "exists">): void {
    this.#moveTo(last, exists);
    this.items.push(this.#position);
  }

  /** @param events encoded; undefined when they are too many to be told */
  landed({ seq, destroyed, events }: Landing, encoded: Uint8Array | undefined): void {
    this.#moveTo(events.at(-1)?.number ?? 0, !destroyed);
    if (this.content === "positions") return;
    if (this.items.isFull) this.items.replace(this.#position);
    else if (encoded === undefined) this.items.push(this.#position);
    else this.items.push({ kind: "landed", seq, events: encoded, destroyed });
  }

  end(why: MoonportError): void {
    this.#over();
    this.items.end(why);
  }

  #moveTo(last: number, exists: boolean): void {
    this.#position = { kind: "found", last: Math.max(this.#position.last, last), exists };
  }
}

/** A landing as its feed told it. */
export function landingOf(object: ObjectIdentity, item: FeedItem & { readonly kind: "landed" }): Landing {
  const rows = decodeValue(item.events) as [number, string, PlainValue, number][];
  const events = rows.map(([number, name, data, atMs]) => ({ number, name, data, atMs }));
  return { object, seq: item.seq, events, destroyed: item.destroyed };
}

/** Once for all feeds. Undefined for more than one item may carry. */
function encodedEvents({ events }: Landing): Uint8Array | undefined {
  const rows = events.map(({ number, name, data, atMs }) => [number, name, data, atMs]);
  const encoded = encodeValue(rows, Number.POSITIVE_INFINITY, "events");
  return encoded.byteLength <= ITEM_BYTES_MAX ? encoded : undefined;
}

function stopping(): MoonportError {
  return MoonportError.of("node_stopping", "the node is shutting down", { retryAfterMs: 1_000 });
}
