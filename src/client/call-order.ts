/**
 * Keeps the calls of one object in their order when the way to it changes: those that are to go another way than the ones before
 * them are held until these are answered. Two ways know nothing of each other, and a later call might overtake an earlier one.
 *
 * It knows of an object only while calls of it are under way.
 */
import type { Lane } from "./lane.js";

interface Going<Call> {
  readonly lane: Lane<Call>;
  underWay: number;
  readonly held: Set<Call>;
}

export class CallOrder<Call> {
  readonly #byObject = new Map<string, Going<Call>>();

  /** @returns whether it may go by this lane now; else it is held until {@link left} gives it back */
  enters(object: string, call: Call, lane: Lane<Call>): boolean {
    const going = this.#byObject.get(object);
    if (going === undefined) {
      this.#byObject.set(object, { lane, underWay: 1, held: new Set() });
      return true;
    }
    if (going.lane !== lane || going.held.size > 0) {
      going.held.add(call);
      return false;
    }
    going.underWay += 1;
    return true;
  }

  /** One that went is not under way any more. @returns those that were held, in their order, once none is */
  left(object: string): Iterable<Call> {
    const going = this.#byObject.get(object);
    if (going === undefined || --going.underWay > 0) return [];
    this.#byObject.delete(object);
    return going.held;
  }

  /** One that was held goes nowhere. */
  dropped(object: string, call: Call): void {
    this.#byObject.get(object)?.held.delete(call);
  }
}
