/** What objects of the class Timed tell: each event says when it was due, and comes when what rang is durable. */
import type { Observer } from "../../src/observation.js";

export class Rings {
  #heard: (lateMs: number) => void = () => {};
  #sinceMs = 0;

  /** For the node whose objects they are. */
  readonly observer: Observer = (observation) => {
    if (observation.kind !== "event" || observation.name !== "rang") return;
    const { due } = observation.data as { readonly due: number };
    const dueMs = due * 1_000;
    if (dueMs >= this.#sinceMs) this.#heard(Date.now() - dueMs);
  };

  /**
   * Resolves when so many have come from now on.
   * @param sinceMs those that were due before do not count
   * @param all gets how late each was, as it comes
   */
  heard(count: number, sinceMs = 0, all: number[] = []): Promise<readonly number[]> {
    // A time in seconds is not quite the milliseconds that it was made of.
    this.#sinceMs = sinceMs - 0.1;
    return new Promise((resolve) => {
      this.#heard = (lateMs) => {
        all.push(lateMs);
        if (all.length === count) resolve(all);
      };
    });
  }
}
