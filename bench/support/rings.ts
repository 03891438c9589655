/** What objects of the class Timed tell: each event says when it was due, and comes when what rang is durable. */
import type { Observer } from "../../src/observation.js";

export class Rings {
  #heard: (lateMs: number) => void = () => {};

  /** For the node whose objects they are. */
  readonly observer: Observer = (observation) => {
    if (observation.kind !== "event" || observation.name !== "rang") return;
    const { due } = observation.data as { readonly due: number };
    this.#heard(Date.now() - due * 1_000);
  };

  /** Resolves when so many have come from now on. @param all gets how late each was, as it comes */
  heard(count: number, all: number[] = []): Promise<readonly number[]> {
    return new Promise((resolve) => {
      this.#heard = (lateMs) => {
        all.push(lateMs);
        if (all.length === count) resolve(all);
      };
    });
  }
}
