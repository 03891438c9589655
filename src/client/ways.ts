/**
 * The ways that a client has beside its connection, where it may learn nodes: a socket each to the nodes that replies have named
 * as the owners of objects. A call of such an object goes there at once, and is spared the hop from node to node.
 *
 * A way is an offer. Any node answers for every object, so what is remembered may be wrong, old or made up: a call goes by the
 * connection where there is no way, and again by it, under its id, where a way has failed it.
 *
 * Bounded in objects that are remembered and in sockets. A socket is opened when a reply names its node, and not again for a
 * growing while after it failed; one that nothing was sent over for some time gives its place to another.
 */
import { type ErrorCode, isOwn, type MoonportError } from "../errors.js";
import type { ServingNode } from "../node-api.js";
import { RecentMap } from "../recent-map.js";
import { backoffMs } from "../world/backoff.js";
import { socketUrlOf } from "./addresses.js";
import { Lane, type Wire } from "./lane.js";
import type { Link, LinkListener } from "./link.js";
import type { ClientOptions } from "./options.js";
import type { ClientPlatform } from "./platform.js";

/** Answers after which the object is no longer believed to be where it was asked for. */
const NO_PLACE: readonly ErrorCode[] = [
  "moved",
  "outcome_unknown",
  "node_stopping",
  "node_full",
  "node_unreachable",
  "node_fenced",
  "node_replaced",
];

/** What becomes of it, as the calls hear it. */
export type WayListener<Call> = (lane: Lane<Call>) => Pick<LinkListener, "up" | "frame" | "down">;

export interface WayParts<Call> {
  readonly options: Pick<ClientOptions, "placesMax" | "nodeSocketsMax" | "reconnectDelayMs" | "reconnectDelayMaxMs">;
  readonly platform: Pick<ClientPlatform, "clock" | "random">;
  /** Where the connection is now. */
  readonly connectedTo: () => string;
  /** One life of a connection: it does not come back after its loss. */
  readonly makeLink: (url: string, listener: LinkListener) => Link;
  readonly wireOf: (link: Link) => Wire;
  readonly listener: WayListener<Call>;
}

interface Way<Call> {
  readonly url: string;
  readonly link: Link;
  readonly lane: Lane<Call>;
  usedMs: number;
}

interface Failed {
  readonly times: number;
  /** Monotonic: not tried before. */
  readonly untilMs: number;
}

/** A way that was used within this time keeps its place. */
const IDLE_MS = 10_000;
/** Addresses of which it is remembered that they failed. */
const FAILED_MAX = 64;

export class Ways<Call> {
  readonly #parts: WayParts<Call>;
  /** Where objects live, as far as answers have told: a guess, which costs a detour when it is wrong and nothing else. */
  readonly #places: RecentMap<string, string>;
  /** By the socket's address. */
  readonly #ways = new Map<string, Way<Call>>();
  readonly #failed = new RecentMap<string, Failed>(FAILED_MAX);

  constructor(parts: WayParts<Call>) {
    this.#parts = parts;
    this.#places = new RecentMap(parts.options.placesMax);
  }

  /** The lane to the object's owner, where there is one that is up. */
  of(object: string): Lane<Call> | undefined {
    const url = this.#places.get(object);
    const way = url === undefined ? undefined : this.#ways.get(url);
    if (way === undefined || !way.lane.wire.isUp) return undefined;
    way.usedMs = this.#nowMs();
    return way.lane;
  }

  /** @param node that the node on this lane had to ask; undefined: it answered itself */
  answered(object: string, lane: Lane<Call>, node: ServingNode | undefined): void {
    const way = this.#wayOf(lane);
    if (way !== undefined) this.#failed.delete(way.url);
    if (node === undefined && way !== undefined) return;
    const url = node?.url === undefined ? undefined : socketUrlOf(node.url);
    if (url === undefined || url === this.#parts.connectedTo()) return this.#places.delete(object);
    this.#places.set(object, url);
    this.#open(url, node?.url ?? url);
  }

  /** What the node on this lane said makes it no place to ask for the object. */
  refused(object: string, error: MoonportError): void {
    if (isOwn(error, ...NO_PLACE)) this.#places.delete(object);
  }

  stop(): void {
    for (const { link } of this.#ways.values()) link.stop();
    this.#ways.clear();
  }

  #open(url: string, address: string): void {
    const { options, makeLink, wireOf, listener } = this.#parts;
    if (this.#ways.has(url) || this.#nowMs() < (this.#failed.peek(url)?.untilMs ?? 0)) return;
    if (this.#ways.size >= options.nodeSocketsMax && !this.#makeRoom()) return;
    const link = makeLink(address, {
      changed: () => {},
      up: () => told.up(),
      frame: (frame) => told.frame(frame),
      down: (loss) => {
        this.#lost(way);
        told.down(loss);
      },
      failed: () => this.#lost(way),
    });
    const lane = new Lane<Call>(wireOf(link));
    const told = listener(lane);
    const way = { url, link, lane, usedMs: this.#nowMs() };
    this.#ways.set(url, way);
    link.start();
  }

  /** @returns whether the longest unused one was let go */
  #makeRoom(): boolean {
    let oldest: Way<Call> | undefined;
    for (const way of this.#ways.values()) {
      if (way.lane.waiting.size + way.lane.sent.size > 0) continue;
      if (oldest === undefined || way.usedMs < oldest.usedMs) oldest = way;
    }
    if (oldest === undefined || this.#nowMs() - oldest.usedMs < IDLE_MS) return false;
    this.#ways.delete(oldest.url);
    oldest.link.stop();
    return true;
  }

  #lost(way: Way<Call>): void {
    if (this.#ways.get(way.url) !== way) return;
    this.#ways.delete(way.url);
    const { options, platform } = this.#parts;
    const times = (this.#failed.peek(way.url)?.times ?? 0) + 1;
    const pauseMs = backoffMs(times, options.reconnectDelayMs, options.reconnectDelayMaxMs, platform.random.fraction());
    this.#failed.set(way.url, { times, untilMs: this.#nowMs() + pauseMs });
  }

  #wayOf(lane: Lane<Call>): Way<Call> | undefined {
    for (const way of this.#ways.values()) if (way.lane === lane) return way;
    return undefined;
  }

  #nowMs(): number {
    return this.#parts.platform.clock.monotonicMs();
  }
}
