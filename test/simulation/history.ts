/** What clients asked of one object and what they heard, in virtual time. Values are unique in an object's life. */

export type Operation =
  | { readonly kind: "append"; readonly value: number }
  | { readonly kind: "list" }
  | { readonly kind: "write"; readonly value: number }
  /** As a write, and with it the object grows large. */
  | { readonly kind: "fill"; readonly value: number }
  | { readonly kind: "read" }
  | { readonly kind: "add"; readonly amount: number }
  | { readonly kind: "destroy" };

export type Ended =
  | { readonly kind: "ok"; readonly value: unknown }
  /** Certainly nothing happened. */
  | { readonly kind: "failed"; readonly code: string }
  /** It may have happened, or happen yet. */
  | { readonly kind: "unknown"; readonly code: string };

export interface Recorded {
  readonly object: string;
  readonly client: number;
  readonly operation: Operation;
  readonly begunMs: number;
  /** Order among everything recorded: two of the same moment are apart in it. */
  readonly begunAt: number;
  readonly endedMs: number;
  readonly endedAt: number;
  readonly ended: Ended;
}

export class History {
  readonly #recorded: Recorded[] = [];
  #order = 0;

  get all(): readonly Recorded[] {
    return this.#recorded;
  }

  /** @param now virtual milliseconds */
  begin(object: string, client: number, operation: Operation, now: () => number): (ended: Ended) => void {
    const [begunMs, begunAt] = [now(), this.#order++];
    return (ended) => {
      this.#recorded.push({
        object,
        client,
        operation,
        begunMs,
        begunAt,
        endedMs: now(),
        endedAt: this.#order++,
        ended,
      });
    };
  }

  byObject(): ReadonlyMap<string, readonly Recorded[]> {
    const objects = new Map<string, Recorded[]>();
    for (const one of this.#recorded) {
      const list = objects.get(one.object);
      if (list === undefined) objects.set(one.object, [one]);
      else list.push(one);
    }
    return objects;
  }
}
