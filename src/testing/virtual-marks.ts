/** Marks of virtual processes, as the system of one machine tells of them: one that is stopped lives. */
import type { ProcessMarks } from "../bucket/bucket.js";
import type { VirtualWorld } from "./virtual-world.js";

export class VirtualMarks {
  readonly #holders = new Map<string, VirtualWorld>();

  /** As the process of that world sees them. */
  of(world: VirtualWorld): ProcessMarks {
    const own = `${this.#holders.size}`;
    this.#holders.set(own, world);
    return { hold: () => own, hasEnded: (mark) => this.#holders.get(mark)?.revoked === true };
  }
}
