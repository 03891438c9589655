/**
 * After a change of tokens, everything of a door that goes on without being asked for is looked at again, once.
 *
 * Each look is a step of an iterator, and a bounded number of them share a turn of the loop: ten thousand subscriptions do not
 * hold up the calls beside them. A change that comes during a walk is followed by one more, because what was passed already
 * has not seen it; any number of changes during one walk cause one.
 */
import type { Authenticator } from "../auth/contract.js";
import type { Timer, World } from "../world/world.js";

/** Some ten microseconds each. */
const LOOKS_PER_TURN = 64;

type State =
  | { readonly kind: "resting" }
  | { readonly kind: "walking"; readonly rest: Iterator<unknown>; readonly turn: Timer; isOutdated: boolean }
  | { readonly kind: "stopped" };

export class RightsWalk {
  readonly #timers: World["timers"];
  readonly #looks: () => Iterator<unknown>;
  readonly #unwatch: (() => void) | undefined;
  #state: State = { kind: "resting" };

  /** @param looks at each thing, one a step; what it meets may end or be joined by others between two steps */
  constructor(auth: Authenticator, { timers }: Pick<World, "timers">, looks: () => Iterator<unknown>) {
    this.#timers = timers;
    this.#looks = looks;
    this.#unwatch = auth.watch?.(() => this.#changed());
  }

  stop(): void {
    if (this.#state.kind === "walking") this.#state.turn.cancel();
    this.#state = { kind: "stopped" };
    this.#unwatch?.();
  }

  #changed(): void {
    if (this.#state.kind === "walking") this.#state.isOutdated = true;
    else if (this.#state.kind === "resting") this.#begin();
  }

  #begin(): void {
    this.#goOn(this.#looks(), false);
  }

  #goOn(rest: Iterator<unknown>, isOutdated: boolean): void {
    const turn = this.#timers.soon(() => this.#walk());
    this.#state = { kind: "walking", rest, turn, isOutdated };
  }

  #walk(): void {
    if (this.#state.kind !== "walking") return;
    const { rest } = this.#state;
    for (let looks = 0; looks < LOOKS_PER_TURN; looks++) {
      if (rest.next().done === true) return this.#ended();
      // A look may have been what stopped the door.
      if (this.#state.kind !== "walking") return;
    }
    this.#goOn(rest, this.#state.isOutdated);
  }

  #ended(): void {
    if (this.#state.kind !== "walking") return;
    if (this.#state.isOutdated) this.#begin();
    else this.#state = { kind: "resting" };
  }
}
