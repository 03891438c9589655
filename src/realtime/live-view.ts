/**
 * One live view: a reading method's value for all who watch it with the same arguments as the same caller.
 *
 * It is evaluated after the object's writes landed, one evaluation at a time and at most one waiting, and told when its
 * encoded value differs from the last. A viewer whose sink is full gets the newest value once there is room: values in
 * between are nothing that anybody could miss.
 */
import { asMoonportError, type MoonportError } from "../errors.js";
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { Settings } from "../settings/settings.js";
import { encodeValue } from "../store/value-codec.js";
import type { Timer, World } from "../world/world.js";
import type { Delivery, EndReason, ReadingCall, Sink, Subscription } from "./contract.js";
import type { Evaluated, LiveSource } from "./live-source.js";

type ViewDelivery = Extract<Delivery, { kind: "view" | "view_failed" }>;

export interface LiveViewParts {
  readonly object: ObjectIdentity;
  readonly reading: ReadingCall;
  readonly caller: Caller;
  readonly source: LiveSource;
  readonly world: Pick<World, "timers" | "log">;
  readonly settings: Pick<Settings, "VIEW_INTERVAL_MS">;
}

/** A failure that may pass by itself is followed by another try, whether or not anything lands. */
const RETRY_MS = 1_000;

export class LiveView {
  readonly viewers = new Set<Viewer>();
  readonly #parts: LiveViewParts;
  #state: "idle" | "evaluating" | "resting" = "idle";
  #timer: Timer | undefined;
  #retry: Timer | undefined;
  #isStale = true;
  /** Of the class that evaluated last. */
  #classVersion: string | undefined;
  /** What everybody was told last; undefined before the first evaluation. */
  #told: { readonly delivery: ViewDelivery; readonly bytes: Uint8Array } | undefined;

  constructor(parts: LiveViewParts) {
    this.#parts = parts;
  }

  join(viewer: Viewer): void {
    viewer.begin();
    if (this.#told !== undefined) viewer.offer(this.#told.delivery);
    this.#evaluateIfDue();
  }

  /** A write of the object landed. */
  changed(): void {
    this.#isStale = true;
    this.#evaluateIfDue();
  }

  /** Classes were loaded anew; only another version of this one's matters. */
  classesChanged(): void {
    const { source, object } = this.#parts;
    if (source.classVersion(object) !== this.#classVersion) this.changed();
  }

  /** Nobody watches any more. */
  close(): void {
    this.#timer?.cancel();
    this.#retry?.cancel();
  }

  #evaluateIfDue(): void {
    if (!this.#isStale || this.#state !== "idle" || this.viewers.size === 0) return;
    this.#isStale = false;
    this.#state = "evaluating";
    this.#retry?.cancel();
    void this.#evaluate().finally(() => this.#rest());
  }

  async #evaluate(): Promise<void> {
    const { source, object, reading, caller } = this.#parts;
    this.#classVersion = source.classVersion(object);
    try {
      this.#succeeded(await source.evaluate(object, reading, caller));
    } catch (thrown) {
      this.#failed(asMoonportError(thrown));
    }
  }

  #succeeded({ value, seq }: Evaluated): void {
    this.#tell({ kind: "view", value, seq }, encodeValue(value, Number.POSITIVE_INFINITY, "a view's value"));
  }

  #failed(error: MoonportError): void {
    const { object, world } = this.#parts;
    const named = error.with({ object: object.id });
    const same = encodeValue([error.source, error.code, error.message], Number.POSITIVE_INFINITY, "an error");
    this.#tell({ kind: "view_failed", error: named }, same);
    if (!error.retryable || this.viewers.size === 0) return;
    this.#retry = world.timers.after(Math.max(RETRY_MS, error.retryAfterMs ?? 0), () => this.changed());
  }

  #tell(delivery: ViewDelivery, bytes: Uint8Array): void {
    const told = this.#told;
    if (told?.delivery.kind === delivery.kind && Buffer.compare(told.bytes, bytes) === 0) return;
    this.#told = { delivery, bytes };
    for (const viewer of this.viewers) viewer.offer(delivery);
  }

  #rest(): void {
    if (this.viewers.size === 0) return;
    this.#state = "resting";
    this.#timer = this.#parts.world.timers.after(this.#parts.settings.VIEW_INTERVAL_MS, () => {
      this.#state = "idle";
      this.#evaluateIfDue();
    });
  }
}

/** One who watches a view. */
export class Viewer implements Subscription {
  /** A view has no events to resume from. */
  readonly after = 0;
  readonly #sink: Sink;
  readonly #log: World["log"];
  readonly #closed: (viewer: Viewer) => void;
  /** Its caller knows that it stands: before, it is told nothing. */
  #hasBegun = false;
  #isClosed = false;
  /** Waits for room in the sink. */
  #waiting: ViewDelivery | undefined;

  constructor(sink: Sink, log: World["log"], closed: (viewer: Viewer) => void) {
    this.#sink = sink;
    this.#log = log;
    this.#closed = closed;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#waiting = undefined;
    this.#closed(this);
  }

  begin(): void {
    this.#hasBegun = true;
  }

  offer(delivery: ViewDelivery): void {
    if (!this.#hasBegun) return;
    const isWaiting = this.#waiting !== undefined;
    this.#waiting = delivery;
    if (!isWaiting) this.#tellWaiting();
  }

  end(reason: EndReason): void {
    this.#tell({ kind: "ended", reason, after: this.after });
    this.close();
  }

  /** The newest, once there is room. Others that share the sink's buffer may have been told first: it is asked again. */
  #tellWaiting(): void {
    const newest = this.#waiting;
    if (newest === undefined) return;
    const room = this.#sink.isFull() ? this.#sink.room() : undefined;
    if (room !== undefined) return void room.then(() => this.#tellWaiting());
    this.#waiting = undefined;
    this.#tell(newest);
  }

  #tell(delivery: Delivery): void {
    if (this.#isClosed) return;
    try {
      this.#sink.deliver(delivery);
    } catch (error) {
      this.#log.error({ error: asMoonportError(error).message }, "a viewer's sink threw");
      this.close();
    }
  }
}
