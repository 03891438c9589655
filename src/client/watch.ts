/**
 * What a client asked the node to go on telling: subscriptions and live views. This owns when the asking is done: as soon as
 * there is a connection, again after each loss, and after a pause when the node said "not now". What is asked for, and what
 * is made of the answers, is the matter of each {@link Watch}.
 */
import { asMoonportError, type MoonportError } from "../errors.js";
import type { ClientFrame, ServerFrame } from "../wire/frames.js";
import { errorOf } from "../wire/problem.js";
import { backoffMs } from "../world/backoff.js";
import type { Asked, Wire } from "./lane.js";
import type { ClientPlatform, PlatformTimer } from "./platform.js";

export type WatchFrame = Exclude<ServerFrame, { type: "welcome" | "pong" | "reply" | "leaving" }>;

export interface Watch {
  /** The frame that asks for what is still to come. */
  request(id: number): ClientFrame;
  take(frame: Exclude<WatchFrame, { type: "error" | "ended" }>): void;
  /** It was refused, or the client has closed: nothing follows. */
  fail(error: MoonportError): void;
  /** The object was destroyed: nothing follows. */
  destroyed(after: number): void;
  /** Ends it for its reader, and with it its entry here. */
  close(): void;
}

/** A watch's place in the book: asking for it, pausing it, ending it. */
export interface WatchEntry {
  /** Until {@link resume}, nothing more is taken. */
  pause(): void;
  resume(): void;
  /** Idempotent. */
  close(): void;
}

type Place =
  | { readonly kind: "idle" }
  | { readonly kind: "asked"; readonly id: number; isAnswered: boolean }
  | { readonly kind: "retrying"; readonly timer: PlatformTimer }
  | { readonly kind: "paused" }
  | { readonly kind: "closed" };

type WatchPlatform = Pick<ClientPlatform, "random" | "timers">;

const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 10_000;

export class Watches {
  readonly #platform: WatchPlatform;
  readonly #wire: Wire;
  readonly #all = new Set<Entry>();
  readonly #byId = new Map<number, Entry>();

  constructor(platform: WatchPlatform, wire: Wire) {
    this.#platform = platform;
    this.#wire = wire;
  }

  /** @param signal closes the watch when it aborts */
  add(watch: Watch, signal: AbortSignal | undefined): WatchEntry {
    const abort = (): void => watch.close();
    const entry = new Entry(watch, this.#wire, this.#platform, this.#byId, () => {
      this.#all.delete(entry);
      signal?.removeEventListener("abort", abort);
    });
    signal?.addEventListener("abort", abort, { once: true });
    this.#all.add(entry);
    entry.ask();
    return entry;
  }

  up(): void {
    for (const entry of this.#all) entry.ask();
  }

  down(): void {
    for (const entry of this.#all) entry.lost();
  }

  asked(): Asked[] {
    return [...this.#byId.values()].flatMap((entry) => entry.asked());
  }

  take(frame: WatchFrame): void {
    // One that was closed or paused meanwhile has no number any more.
    this.#byId.get(frame.id)?.take(frame);
  }

  failAll(error: MoonportError): void {
    for (const entry of this.#all) entry.fail(error);
  }

  closeAll(): void {
    for (const entry of this.#all) entry.watch.close();
  }
}

class Entry implements WatchEntry {
  readonly watch: Watch;
  readonly #wire: Wire;
  readonly #platform: WatchPlatform;
  readonly #byId: Map<number, Entry>;
  readonly #forget: () => void;
  #place: Place = { kind: "idle" };
  #failures = 0;

  constructor(watch: Watch, wire: Wire, platform: WatchPlatform, byId: Map<number, Entry>, forget: () => void) {
    this.watch = watch;
    this.#wire = wire;
    this.#platform = platform;
    this.#byId = byId;
    this.#forget = forget;
  }

  /** Sends the request if there is a connection and nothing speaks against it. */
  ask(): void {
    if (this.#place.kind !== "idle" || !this.#wire.isUp) return;
    const id = this.#wire.nextId();
    this.#place = { kind: "asked", id, isAnswered: false };
    this.#byId.set(id, this);
    this.#wire.send(this.watch.request(id));
  }

  lost(): void {
    if (this.#place.kind === "paused") return;
    this.#leave({ kind: "idle" });
  }

  take(frame: WatchFrame): void {
    switch (frame.type) {
      case "error": {
        const error = errorOf(frame.error) ?? asMoonportError("the node sent an error that is none");
        return error.retryable ? this.#retry(error.retryAfterMs) : this.fail(error);
      }
      case "ended":
        if (frame.reason !== "destroyed") return this.#retry();
        this.#end();
        return this.watch.destroyed(frame.after);
      default:
        this.#failures = 0;
        if (this.#place.kind === "asked") this.#place.isAnswered = true;
        this.watch.take(frame);
    }
  }

  fail(error: MoonportError): void {
    this.#end();
    this.watch.fail(error);
  }

  /** What has an answer was not too large; and its request may be another by now. */
  asked(): Asked[] {
    if (this.#place.kind !== "asked" || this.#place.isAnswered) return [];
    return [{ frame: this.watch.request(this.#place.id), fail: (error) => this.fail(error) }];
  }

  pause(): void {
    if (this.#place.kind === "closed") return;
    this.#unsubscribe();
    this.#leave({ kind: "paused" });
  }

  resume(): void {
    if (this.#place.kind !== "paused") return;
    this.#place = { kind: "idle" };
    this.ask();
  }

  close(): void {
    if (this.#place.kind === "closed") return;
    this.#unsubscribe();
    this.#end();
  }

  #retry(retryAfterMs = 0): void {
    this.#failures += 1;
    const { random, timers } = this.#platform;
    const pauseMs = backoffMs(this.#failures, RETRY_FIRST_MS, RETRY_MAX_MS, random.fraction());
    const timer = timers.after(Math.max(retryAfterMs, pauseMs), () => {
      this.#place = { kind: "idle" };
      this.ask();
    });
    this.#leave({ kind: "retrying", timer });
  }

  #unsubscribe(): void {
    if (this.#place.kind === "asked") this.#wire.send({ type: "unsubscribe", id: this.#place.id });
  }

  #end(): void {
    this.#leave({ kind: "closed" });
    this.#forget();
  }

  #leave(next: Place): void {
    if (this.#place.kind === "asked") this.#byId.delete(this.#place.id);
    if (this.#place.kind === "retrying") this.#place.timer.cancel();
    this.#place = next;
  }
}
