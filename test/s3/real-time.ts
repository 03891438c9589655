/** Time as it passes, in the place of virtual time: a world that can be taken away from a node, whose bucket has real sockets. */
import { VirtualTime } from "../../src/testing/virtual-time.js";
import type { Timer } from "../../src/world/world.js";

export class RealTime extends VirtualTime {
  readonly #handles = new Set<NodeJS.Timeout | NodeJS.Immediate>();

  override get nowMs(): number {
    return performance.now();
  }

  override after(delayMs: number, run: () => void): Timer {
    const handle = setTimeout(() => {
      this.#handles.delete(handle);
      run();
    }, delayMs);
    return this.#cancelled(handle, () => clearTimeout(handle));
  }

  override soon(run: () => void): Timer {
    const handle = setImmediate(() => {
      this.#handles.delete(handle);
      run();
    });
    return this.#cancelled(handle, () => clearImmediate(handle));
  }

  /** Nothing is left that could run. */
  end(): void {
    for (const handle of this.#handles) {
      clearTimeout(handle as NodeJS.Timeout);
      clearImmediate(handle as NodeJS.Immediate);
    }
  }

  #cancelled(handle: NodeJS.Timeout | NodeJS.Immediate, clear: () => void): Timer {
    this.#handles.add(handle);
    return {
      cancel: () => {
        this.#handles.delete(handle);
        clear();
      },
    };
  }
}
