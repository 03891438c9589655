/** Objects of the whole fleet as the hub's {@link LiveSource}: each is read where it lives, and followed wherever it goes. */
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { ReadingCall } from "../realtime/contract.js";
import type { Evaluated, LiveSource, StoredEvents, Watch, Watcher } from "../realtime/live-source.js";
import { Following, type FollowingParts } from "./following.js";

export interface FleetSourceParts extends FollowingParts {
  /** Of this node: it knows the classes. */
  readonly own: LiveSource;
  /** At the object's owner. */
  readonly events: LiveSource["events"];
  readonly evaluate: LiveSource["evaluate"];
}

export class FleetSource implements LiveSource {
  readonly #parts: FleetSourceParts;
  readonly #followings = new Set<Following>();

  constructor(parts: FleetSourceParts) {
    this.#parts = parts;
  }

  checkClass(object: ObjectIdentity): void {
    this.#parts.own.checkClass(object);
  }

  checkReading(object: ObjectIdentity, method: string): void {
    this.#parts.own.checkReading(object, method);
  }

  classVersion(object: ObjectIdentity): string | undefined {
    return this.#parts.own.classVersion(object);
  }

  events(object: ObjectIdentity, after: number, limit: number): Promise<StoredEvents> {
    return this.#parts.events(object, after, limit);
  }

  evaluate(object: ObjectIdentity, reading: ReadingCall, caller: Caller): Promise<Evaluated> {
    return this.#parts.evaluate(object, reading, caller);
  }

  watch(object: ObjectIdentity, watcher: Watcher): Watch {
    const following: Following = new Following(this.#parts, object, watcher, () => this.#followings.delete(following));
    this.#followings.add(following);
    return following;
  }

  membersChanged(): void {
    for (const following of this.#followings) following.membersChanged();
  }
}
