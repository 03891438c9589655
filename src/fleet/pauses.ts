/**
 * Those who wait to try again: each until its time is up, or until all are told that it may go now. Who waits for a node's
 * death to be known goes on when it is, and not half a second later.
 */
import type { World } from "../world/world.js";

export class Pauses {
  readonly #world: Pick<World, "timers">;
  readonly #waiting = new Set<(isCalled: boolean) => void>();

  constructor(world: Pick<World, "timers">) {
    this.#world = world;
  }

  /** @returns whether it ended early */
  wait(delayMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (isCalled: boolean): void => {
        timer.cancel();
        this.#waiting.delete(end);
        resolve(isCalled);
      };
      const timer = this.#world.timers.after(delayMs, () => end(false));
      this.#waiting.add(end);
    });
  }

  endAll(): void {
    for (const end of [...this.#waiting]) end(true);
  }
}
