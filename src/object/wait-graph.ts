/**
 * Which object of this node waits for which. Two chains of calls that wait for each other would do so until their deadline:
 * the one that closes the circle fails at once instead, with `call_deadlock`, and may try again.
 */
import { MoonportError } from "../errors.js";

export class WaitGraph {
  readonly #waits = new Map<string, string>();

  /**
   * @param id the object whose task stands still
   * @param target the object whose task it stands still for
   * @returns to be called when it goes on
   * @throws MoonportError `call_deadlock` with the path
   */
  enter(id: string, target: string): () => void {
    const path = [id];
    for (let next: string | undefined = target; next !== undefined; next = this.#waits.get(next)) {
      path.push(next);
      if (next === id) throw deadlock(path);
    }
    this.#waits.set(id, target);
    return () => this.#waits.delete(id);
  }
}

function deadlock(path: readonly string[]): MoonportError {
  return MoonportError.of("call_deadlock", `calls that wait for each other: ${path.join(" → ")}`, {
    hint: "try again; if it comes often, let objects call each other in one direction only",
    retryAfterMs: 50,
    details: { path: [...path] },
  });
}
