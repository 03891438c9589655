/**
 * What leaves at the end of a turn of the event loop, back to back, whoever it is for.
 *
 * Whoever waits for a socket is woken by what is written to it, and sleeps again before the next reply of the same turn is made:
 * on a virtual machine each waking costs the writer as much as a call. Written together, the first reply wakes and the others
 * find whoever reads awake (measured: 2.2 times as many reads over HTTP connections of 64 callers, and none later for one caller).
 */
import type { World } from "../world/world.js";

export class TurnEnd {
  readonly #timers: World["timers"];
  #waiting: (() => void)[] = [];

  constructor({ timers }: Pick<World, "timers">) {
    this.#timers = timers;
  }

  /** @param leave must not throw */
  add(leave: () => void): void {
    if (this.#waiting.length === 0) this.#timers.soon(this.#leaveAll);
    this.#waiting.push(leave);
  }

  readonly #leaveAll = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const leave of waiting) leave();
  };
}
