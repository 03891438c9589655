/**
 * When queues are looked at for what waits too long: one timer for all of them. A node's mailboxes have one, its links and
 * each door with queues of its own have another; here they are all called mailboxes, and what waits in them calls.
 *
 * A mailbox stands here at most once, at the earliest moment at which one of its calls may have to be answered. A call that
 * leaves before does not change that: the look then finds nothing, and costs less than keeping account of each call would. So
 * a call costs a comparison, because what comes later mostly also expires later; and there are never more entries than
 * mailboxes. Moments lie on a grid of {@link LOOK_STEP_MS}, after the deadline, so that calls whose deadlines follow each
 * other closely are answered in one look.
 */
import { assert } from "../errors.js";
import type { Timer, World } from "./world.js";

/** A call that waits is answered at most this long after its deadline, unless the node is held up. */
export const LOOK_STEP_MS = 10;

/** Looked at in one turn of the loop: when a node's calls all expire together, its other work gets its turns in between. */
const LOOKS_PER_TURN = 32;

/** Answers what has waited too long. Returns the earliest deadline of the rest, Infinity when none has one. */
export type Look = (nowMs: number) => number;

/** One mailbox's place. */
export interface Watch {
  readonly nowMs: number;
  /** When it will be looked at; Infinity while it need not be. What expires no sooner than this changes nothing. */
  readonly dueMs: number;
  /** It is to be looked at once this moment has passed. */
  lookAfter(momentMs: number): void;
  /** Nothing waits there, and nothing will for a while. */
  cancel(): void;
}

export class Deadlines {
  readonly #world: Pick<World, "clock" | "timers">;
  /** A binary heap: no place is due before its parent. */
  readonly #heap: Place[] = [];
  #timer: { readonly kind: "none" } | { readonly kind: "set"; readonly dueMs: number; readonly timer: Timer } = NONE;
  #isStopped = false;

  constructor(world: Pick<World, "clock" | "timers">) {
    this.#world = world;
  }

  /** Mailboxes that are going to be looked at. */
  get size(): number {
    return this.#heap.length;
  }

  watch(look: Look): Watch {
    return new Place(look, this);
  }

  /** Nothing is looked at any more. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.#unset();
    for (const place of this.#heap) place.leave();
    this.#heap.length = 0;
  }

  /** For places alone. */
  get nowMs(): number {
    return this.#world.clock.monotonicMs();
  }

  /** For places alone: it is due sooner than it was. */
  hasten(place: Place): void {
    if (this.#isStopped) return place.leave();
    if (place.index < 0) place.index = this.#heap.push(place) - 1;
    this.#raise(place);
    this.#set();
  }

  /** For places alone. The timer stays as it is: it may find nothing. */
  remove(place: Place): void {
    const { index } = place;
    place.leave();
    const last = this.#heap.pop() as Place;
    if (last === place) return;
    last.index = index;
    this.#heap[index] = last;
    this.#raise(last);
    this.#sink(last);
  }

  #lookAround(): void {
    this.#timer = NONE;
    const { nowMs } = this;
    for (let looks = 0; looks < LOOKS_PER_TURN; looks++) {
      const place = this.#heap[0];
      if (place === undefined || place.dueMs > nowMs) break;
      this.remove(place);
      place.lookAfter(place.look(nowMs));
    }
    this.#set();
  }

  /** A timer that fires too soon costs less than setting it anew each time. */
  #set(): void {
    const first = this.#heap[0];
    if (first === undefined || (this.#timer.kind === "set" && this.#timer.dueMs <= first.dueMs)) return;
    this.#unset();
    const { timers } = this.#world;
    const { dueMs } = first;
    const delayMs = dueMs - this.nowMs;
    const run = (): void => this.#lookAround();
    this.#timer = { kind: "set", dueMs, timer: delayMs > 0 ? timers.after(delayMs, run) : timers.soon(run) };
  }

  #unset(): void {
    if (this.#timer.kind === "set") this.#timer.timer.cancel();
    this.#timer = NONE;
  }

  #raise(place: Place): void {
    const heap = this.#heap;
    while (place.index > 0) {
      const parent = heap[(place.index - 1) >> 1] as Place;
      if (parent.dueMs <= place.dueMs) return;
      this.#swap(place, parent);
    }
  }

  #sink(place: Place): void {
    const heap = this.#heap;
    for (;;) {
      const left = heap[2 * place.index + 1];
      const right = heap[2 * place.index + 2];
      const child = right !== undefined && left !== undefined && right.dueMs < left.dueMs ? right : left;
      if (child === undefined || child.dueMs >= place.dueMs) return;
      this.#swap(place, child);
    }
  }

  #swap(one: Place, other: Place): void {
    const { index } = one;
    one.index = other.index;
    other.index = index;
    this.#heap[one.index] = one;
    this.#heap[other.index] = other;
  }
}

const NONE = { kind: "none" } as const;

class Place implements Watch {
  readonly look: Look;
  readonly #deadlines: Deadlines;
  /** In the heap; -1 when it is not there. */
  index = -1;
  #dueMs = Number.POSITIVE_INFINITY;

  constructor(look: Look, deadlines: Deadlines) {
    this.look = look;
    this.#deadlines = deadlines;
  }

  get nowMs(): number {
    return this.#deadlines.nowMs;
  }

  get dueMs(): number {
    return this.#dueMs;
  }

  lookAfter(momentMs: number): void {
    const dueMs = (Math.floor(momentMs / LOOK_STEP_MS) + 1) * LOOK_STEP_MS;
    assert(!Number.isNaN(dueMs), "a deadline is a number");
    if (dueMs >= this.#dueMs) return;
    this.#dueMs = dueMs;
    this.#deadlines.hasten(this);
  }

  cancel(): void {
    if (this.index >= 0) this.#deadlines.remove(this);
  }

  /** It is not in the heap any more. */
  leave(): void {
    this.index = -1;
    this.#dueMs = Number.POSITIVE_INFINITY;
  }
}
