/** To do something at any point of what a program does in virtual time: in each of its turns, and after each microtask of one. */
import type { VirtualTime } from "../../src/testing/virtual-time.js";

/**
 * From now on, when the turn comes that is the `turn`-th to be asked for, `action` runs as it begins. Microtasks that it makes run
 * among those of the turn. @returns what lets go of it
 */
export function inTurn(time: VirtualTime, turn: number, action: () => void): () => void {
  const soon = time.soon.bind(time);
  let left = turn;
  time.soon = (run) => {
    const isIt = left-- === 0;
    return soon(() => {
      if (isIt) action();
      run();
    });
  };
  return () => {
    time.soon = soon;
  };
}

export function afterMicrotasks(count: number, action: () => void): void {
  if (count === 0) action();
  else queueMicrotask(() => afterMicrotasks(count - 1, action));
}
