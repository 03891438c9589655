/**
 * One watched object, wherever it lives and moves to: whoever watches it hears of every landing, from its owner's feed or by
 * finding it again.
 *
 * A feed ends when its node dies, loses its session or the object; then the object is looked for as a call would look for it,
 * and what landed meanwhile is read from it. An object without content has no owner that would say so when it changes: it is
 * found again whenever other nodes are there than before, and from time to time.
 */
import { asMoonportError, isOwn, MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import { type FeedItem, type Feeds, landingOf } from "../realtime/feeds.js";
import type { Watch, Watcher } from "../realtime/live-source.js";
import type { Settings } from "../settings/settings.js";
import type { PermitPool } from "../shipping/permits.js";
import { backoffMs } from "../world/backoff.js";
import { sleep, type Timer, type World } from "../world/world.js";
import { HOPS_MAX, type Places } from "./place.js";

/** What is asked of the node where the object is believed to be. */
export interface FeedAsked {
  readonly app: string;
  readonly className: string;
  readonly key: string;
  /** Nodes that were asked for it in a row, with this one. */
  readonly hops: number;
}

export interface FollowingParts {
  readonly world: World;
  readonly settings: Pick<Settings, "NODE_TTL_MS" | "CALL_TIMEOUT_MS">;
  readonly self: string;
  /** Of this node. */
  readonly feeds: Feeds;
  readonly places: Places;
  /** How many objects are looked for at once. */
  readonly turns: PermitPool;
  readonly isHere: (object: ObjectIdentity) => boolean;
  readonly isValid: () => boolean;
  /** @throws MoonportError, here or while it is read */
  readonly openFeed: (node: string, asked: FeedAsked) => AsyncIterable<unknown>;
}

const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 1_000;
/** An object without content is looked for again after a session's time, and ever less often. */
const LOOK_PAUSE_FACTOR_MAX = 64;

type State =
  | { readonly kind: "looking" }
  | { readonly kind: "found"; readonly node: string; readonly exists: boolean }
  | { readonly kind: "stopped" };

const LOOKING = { kind: "looking" } as const;

export class Following implements Watch {
  readonly #parts: FollowingParts;
  readonly #object: ObjectIdentity;
  readonly #watcher: Watcher;
  readonly #ended: () => void;
  #state: State = LOOKING;
  #failures = 0;
  #hops = 1;
  /** Said to be the owner by the node that was asked last. */
  #named: string | undefined;
  /** Other nodes are there than when it was last looked for. */
  #isOutdated = false;
  #looksInVain = 0;
  #leaveFeed: () => void = () => {};
  #lookLater: Timer | undefined;
  #pause = new AbortController();

  constructor(parts: FollowingParts, object: ObjectIdentity, watcher: Watcher, ended: () => void) {
    this.#parts = parts;
    this.#object = object;
    this.#watcher = watcher;
    this.#ended = ended;
    this.#run().catch((error: unknown) => {
      parts.world.log.error({ object: object.id, error: asMoonportError(error).message }, "no longer followed");
    });
  }

  /** Another owner may have begun since this node's session ended. */
  get isHere(): boolean {
    const { self, isValid } = this.#parts;
    return this.#state.kind === "found" && this.#state.node === self && this.#state.exists && isValid();
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#state = { kind: "stopped" };
    this.#lookLater?.cancel();
    this.#leaveFeed();
    this.#pause.abort();
    this.#ended();
  }

  /** Other nodes are there than before. */
  membersChanged(): void {
    this.#isOutdated = true;
    this.#looksInVain = 0;
    if (this.#state.kind === "found" && !this.#state.exists) this.#leaveFeed();
    this.#pause.abort();
  }

  get #isStopped(): boolean {
    return this.#state.kind === "stopped";
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        await this.#follow();
      } catch (thrown) {
        await this.#failed(asMoonportError(thrown));
      }
    }
  }

  /** From looking for the object until it has to be looked for again. */
  async #follow(): Promise<void> {
    const { world, settings, turns } = this.#parts;
    const turn = turns.request("background");
    let tooLong: Timer | undefined;
    try {
      await turn.granted;
      if (this.#isStopped) return;
      this.#isOutdated = false;
      const node = this.#place();
      const feed = this.#openFeed(node)[Symbol.asyncIterator]();
      this.#leaveFeed = () => void feed.return?.();
      tooLong = world.timers.after(settings.CALL_TIMEOUT_MS, this.#leaveFeed);
      for await (const item of { [Symbol.asyncIterator]: () => feed }) {
        if (this.#isStopped) return;
        if (this.#take(item as FeedItem, node)) turn.release();
        if (this.#state.kind === "found") tooLong.cancel();
      }
      if (this.#state.kind === "looking") throw this.#notFound(node);
    } finally {
      turn.release();
      tooLong?.cancel();
      this.#lookLater?.cancel();
      this.#leaveFeed = () => {};
      if (!this.#isStopped) this.#state = LOOKING;
    }
  }

  #place(): string {
    const { self, places, isHere } = this.#parts;
    return isHere(this.#object) ? self : (this.#named ?? places.of(this.#object));
  }

  #openFeed(node: string): AsyncIterable<unknown> {
    const { self, feeds, openFeed } = this.#parts;
    const { app, className, key } = this.#object;
    if (node === self) return feeds.open(this.#object, "positions");
    return openFeed(node, { app, className, key, hops: this.#hops });
  }

  /** Whether the object has been found by it. */
  #take(item: FeedItem, node: string): boolean {
    if (item.kind === "landed") {
      const landing = landingOf(this.#object, item);
      if (this.#state.kind === "found") this.#goOnAt(node, !landing.destroyed);
      this.#watcher.landed(landing);
      return false;
    }
    this.#failures = 0;
    this.#hops = 1;
    this.#named = undefined;
    if (item.exists) this.#parts.places.learn(this.#object, node);
    this.#goOnAt(node, item.exists);
    this.#watcher.found(item);
    return true;
  }

  #goOnAt(node: string, exists: boolean): void {
    if (this.#state.kind === "found" && this.#state.exists === exists) return;
    this.#state = { kind: "found", node, exists };
    this.#lookLater?.cancel();
    if (exists) {
      this.#looksInVain = 0;
      return;
    }
    const { world, settings } = this.#parts;
    const factor = this.#isOutdated ? 0 : Math.min(2 ** this.#looksInVain++, LOOK_PAUSE_FACTOR_MAX);
    this.#lookLater = world.timers.after(settings.NODE_TTL_MS * factor, this.#leaveFeed);
  }

  async #failed(error: MoonportError): Promise<void> {
    const { world, places } = this.#parts;
    const owner = isOwn(error, "moved") ? error.details?.node : undefined;
    this.#failures++;
    if (typeof owner === "string") {
      places.learn(this.#object, owner);
      this.#named = owner;
      this.#hops = HOPS_MAX;
      if (this.#failures <= HOPS_MAX) return;
    } else {
      places.forget(this.#object);
      this.#named = undefined;
      this.#hops = 1;
    }
    const pauseMs = backoffMs(this.#failures, PAUSE_FIRST_MS, PAUSE_MAX_MS, world.random.fraction());
    this.#pause = new AbortController();
    if (!this.#isStopped) await sleep(world, pauseMs, this.#pause.signal);
  }

  #notFound(node: string): MoonportError {
    const { id } = this.#object;
    return MoonportError.of("node_unreachable", `${node} has not said in time where ${id} stands`, { object: id });
  }
}
