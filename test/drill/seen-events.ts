/**
 * The events of Ledgers as somebody saw them who watched their nodes. They leave when they are durable (G1), so one that was
 * seen is never replaced by another, and is of a call that is there.
 */
import { isDeepStrictEqual } from "node:util";
import type { Observation } from "../../src/observation.js";
import type { PlainValue } from "../../src/values.js";
import { eventsAfter, LedgerBroken, type LedgerCall } from "./ledger-model.js";

export class SeenEvents {
  /** By object and number. */
  readonly #seen = new Map<string, PlainValue>();

  /** @throws LedgerBroken */
  saw(observation: Observation): void {
    if (observation.kind !== "event") return;
    const { object, number, data } = observation;
    const before = this.#seen.get(`${object} ${number}`);
    if (before !== undefined && !isDeepStrictEqual(before, data)) {
      throw new LedgerBroken(`event ${number} of ${object} was ${JSON.stringify(before)}`);
    }
    this.#seen.set(`${object} ${number}`, data);
  }

  /**
   * Every event seen of the object is of a call that is there, under the number that follows from the log.
   * @param calls the object's log, in order
   * @throws LedgerBroken
   */
  check(object: string, calls: readonly LedgerCall[]): void {
    let number = 0;
    for (const call of calls) {
      for (let own = eventsAfter([call]); own > 0; own--) {
        number++;
        const { tag } = (this.#seen.get(`${object} ${number}`) ?? call) as { tag: number };
        if (tag !== call.tag) throw new LedgerBroken(`event ${number} is of call ${tag}, not of ${call.tag}`);
      }
    }
    for (const name of this.#seen.keys()) {
      const [owner, seen] = name.split(" ");
      if (owner === object && Number(seen) > number)
        throw new LedgerBroken(`event ${name} was told, and its call is lost`);
    }
  }
}
